"""Drives a server with the official OpenWOP v2 client, call by call, as its users do.

Usage: openwop_v2.py URL API_KEY OUTCOMES

OUTCOMES is the file for the outcome of every method.

The client reads replies into its own types and fails if a member is missing, so a call that returns has a reply that the client can use. Every
public method is called; `main` fails if one is not. The server needs `egress.private` for 127.0.0.1 and the agent of examples/agents/clerk.
"""

import json
import sys
from pathlib import Path

import openwop_client
from openwop_client import (
    BulkCancelRunsRequest,
    CancelRunRequest,
    CreateAnnotationRequest,
    CreateRunRequest,
    ForkRunRequest,
    OpenwopClient,
    RegisterWebhookRequest,
    ResolveInterruptRequest,
    RotateWebhookSecretRequest,
    RunConfigurable,
    WopError,
)

from common import Recorded, check, error_of, post, receiver, refused, save

WORKFLOW = json.loads((Path(__file__).parents[2] / "examples/runs/hello.json").read_text())
GATE = "ask"
ACCEPT = ResolveInterruptRequest(resumeValue={"action": "accept"})
AGENT = "vendor.example.agents.clerk"
KEY = "0123456789abcdef-client-{}"


def discovery(client):
    said = client.discovery_capabilities()
    check("discovery: versions", (said.protocolVersions, said.preferredVersion), (["1.0", "2.0"], "1.0"))
    check("discovery: openapi", client.discovery_openapi()["openapi"].split(".")[0], "3")


def waiting(client, workflow, **options):
    """A new run that waits for an approval."""
    run_id = client.runs_create(CreateRunRequest(workflow, inputs={"text": "good morning"}, **options)).runId
    last = None
    while client.runs_get(run_id).status != "waiting-approval":
        last = client.runs_poll_events(run_id, after_sequence=last, timeout_seconds=5).lastSequence
    return run_id


def run(client, workflow):
    check("workflow", client.workflows_get(workflow)["id"], workflow)
    run_id = waiting(client, workflow, tags=["client"], configurable=RunConfigurable(run={"recursionLimit": 50}))
    check("run: a bound id", run_id.split("/")[0], "default")
    snapshot = client.runs_get(run_id)
    check("run: waits for a person", (snapshot.status, snapshot.currentNodeId), ("waiting-approval", GATE))
    check("run: keeps its tags", snapshot.tags, ["client"])
    check("run: its owner", snapshot.owner.subject.kind, "user")
    client.interrupts_resolve_by_run(run_id, GATE, ACCEPT)
    streamed = [event.type for event in client.runs_events(run_id, stream_mode="debug")]
    check("events: the stream ends with the run", streamed[-1], "run.completed")
    polled = client.runs_poll_events(run_id, timeout_seconds=1)
    check("events: the poll is complete", (polled.isTerminal, polled.events[-1].type), (True, "run.completed"))
    check("events: none is dropped", [event.sequence for event in polled.events], list(range(len(polled.events))))
    check("events: the stream has all of them", streamed, [event.type for event in polled.events])
    check("events: the cursor is the end", polled.lastSequence, len(polled.events) - 1)
    check("run: completed", client.runs_get(run_id).status, "completed")
    check("list", run_id in [one.runId for one in client.runs_list(workflow_id=workflow, limit=200).runs], True)
    again = lambda: client.interrupts_resolve_by_run(run_id, GATE, ACCEPT)
    refused("interrupt: answered once", 409, "interrupt_already_resolved", again)
    forked = client.runs_fork(run_id, ForkRunRequest(fromSeq=0, mode="replay"))
    check("fork: of this run", (forked.sourceRunId, forked.mode), (run_id, "replay"))
    for _ in client.runs_events(forked.runId):
        pass
    check("diff: a replay repeats its source", client.runs_diff(run_id, forked.runId).divergedAtSeq, None)
    check("ancestry: no parent", client.runs_ancestry(run_id).parent, None)
    check("artifact: unknown", client.runs_get_artifact(run_id, "none"), None)


def control(client, workflow):
    run_id = waiting(client, workflow)
    check("pause", client.runs_pause(run_id).status, "paused")
    refused("pause: once", 409, "run_state_conflict", lambda: client.runs_pause(run_id))
    check("resume", client.runs_resume(run_id).status, "running")
    cancelled = client.runs_cancel(run_id, CancelRunRequest(reason="enough"))
    check("cancel", cancelled.status in ("cancelled", "cancelling"), True)
    refused("cancel: once", 409, "run_terminal", lambda: client.runs_cancel(run_id))
    other = waiting(client, workflow)
    results = client.runs_bulk_cancel(BulkCancelRunsRequest([other, "default/run_unknown0000000"])).results
    check("bulk cancel: each by itself", [result.ok for result in results], [True, False])
    check("bulk cancel: an error envelope", results[1].error["error"], "not_found")
    unknown = "default/run_00000000000000000000000000000000"
    refused("run: unknown", 404, "not_found", lambda: client.runs_get(unknown))
    refused("run: of another tenant", 403, "id_tenant_mismatch", lambda: client.runs_get(unknown.replace("default", "other")))


def tokens(client, workflow):
    run_id = waiting(client, workflow)
    link = client.runs_get(run_id).nodeStates[GATE]["interrupt"]["callbackUrl"]
    token = link.rsplit("/", 1)[1]
    check("token: the scheme of version 2", token.split(".")[:2], ["ow2", "hs256"])
    check("token: inspected", client.interrupts_inspect_by_token(token).kind, "approval")
    key = KEY.format("token")
    first = client.interrupts_resolve_by_token(token, ACCEPT, idempotency_key=key)
    check("token: the recorded reply", client.interrupts_resolve_by_token(token, ACCEPT, idempotency_key=key), first)
    used = lambda: client.interrupts_resolve_by_token(token, ACCEPT)
    refused("token: used up", 409, "interrupt_already_resolved", used)
    unknown = lambda: client.interrupts_resolve_by_token("ow2.hs256.none.AA.AA", ACCEPT)
    refused("token: unknown", 401, "interrupt_token_invalid", unknown)


def annotations(client, workflow):
    run_id = waiting(client, workflow)
    made = client.create_annotation(run_id, CreateAnnotationRequest({"kind": "rating", "rating": 5}))
    check("annotations: of the run", made.target["runId"], run_id)
    check("annotations", [one.annotationId for one in client.list_annotations(run_id)], [made.annotationId])


def retries(client, workflow):
    key = KEY.format("once")
    first = client.runs_create(CreateRunRequest(workflow), idempotency_key=key)
    check("idempotency: one run", client.runs_create(CreateRunRequest(workflow), idempotency_key=key).runId, first.runId)
    short = lambda: client.runs_create(CreateRunRequest(workflow), idempotency_key="short")
    refused("idempotency: a short key", 400, "idempotency_key_invalid", short)


def webhooks(client, workflow, url, key):
    address, received = receiver()
    made = client.webhooks_register(RegisterWebhookRequest(url=address, events=["run.completed", "approval.received"]))
    check("webhook: as asked for", (made.url, made.eventTypes), (address, ["run.completed", "approval.received"]))
    run_id = waiting(client, workflow)
    client.interrupts_resolve_by_run(run_id, GATE, ACCEPT)
    deliveries = [received.get(timeout=60) for _ in range(2)]
    for headers, body in deliveries:
        body = json.loads(body)
        check("webhook: a bound id", (body["runId"], body["event"]["runId"], "workspaceId" in body), (run_id, run_id, False))
        check("webhook: the header", headers["OpenWOP-Event-Type"], body["event"]["type"])
        check("webhook: both families", headers["OpenWOP-Signature"], headers["X-openwop-Signature"])
    check("webhook: no dead letters", client.webhooks_dead_letters(made.subscriptionId).deliveries, [])
    plain = lambda: client.webhooks_rotate_secret(made.subscriptionId, RotateWebhookSecretRequest("whsec_" + "A" * 43 + "="))
    refused("webhook: one signature cannot overlap", 400, "validation_error", plain)
    client.webhooks_unregister(made.subscriptionId)
    refused("webhook: removed", 404, "not_found", lambda: client.webhooks_unregister(made.subscriptionId))

    # The client has no member for the signature algorithms yet.
    standard = {
        "url": address,
        "events": ["run.completed"],
        "secret": "whsec_" + "B" * 43 + "=",
        "signatureAlgorithms": ["v1", "standard-webhooks-1"],
    }
    made = post(f"{url}/webhooks", key, standard)
    rotated = client.webhooks_rotate_secret(made["subscriptionId"], RotateWebhookSecretRequest("whsec_" + "C" * 43 + "="))
    check("webhook: rotated", rotated.rotatedAt < rotated.previousSecretExpiresAt, True)
    client.webhooks_unregister(made["subscriptionId"])


# Stores one value.
STORE = {
    "id": "store-v2", "name": "Store", "version": "1.0.0", "triggers": [], "variables": [], "edges": [], "metadata": {}, "settings": {},
    "nodes": [{
        "id": "set", "typeId": "core.storage.kv-set", "name": "Set", "position": {"x": 0, "y": 0}, "config": {},
        "inputs": {"key": {"type": "static", "value": "a"}, "value": {"type": "static", "value": 1}},
    }],
}


def effects(client, workflow, url, key):
    post(f"{url}/v1/workflows", key, STORE)
    run_id = client.runs_create(CreateRunRequest("store-v2")).runId
    check("effects: the run ends", list(client.runs_events(run_id))[-1].type, "run.completed")
    ledger = client.runs_effects(run_id)
    check("effects: of this run", ledger.runId, run_id)
    rows = [(row.nodeId, row.attempt, row.keying, row.state) for row in ledger.effects]
    check("effects: one attempt", rows, [("set", 1, "activity-recipe", "completed")])
    check("effects: a bound id", ledger.effects[0].effectId, f"default/{ledger.effects[0].providerKey}")
    check("effects: none", client.runs_effects(waiting(client, workflow)).effects, [])


def catalogue(client, workflow):
    check("audit", client.audit_verify(0, 1).chainValid, True)
    check("agents", [agent.agentId for agent in client.agents_list()], [AGENT])
    check("agent", client.agents_get(AGENT).agentId, AGENT)
    tools = [tool.toolId for tool in client.tools_list()]
    check("tools", f"workflow:{workflow}" in tools, True)
    check("tool", client.tools_get(f"workflow:{workflow}").toolId, f"workflow:{workflow}")
    check("tools: compact", [tool["toolId"] for tool in client.tools_list_compact()], tools)
    check("effect seams", len(client.host_effect_seams().seams) > 0, True)


# Operations of capabilities that this host does not have: their arguments.
NOT_SERVED = {
    "content_list_pages": (), "content_get_page": ("home",), "content_delete_page": ("home",), "content_get_settings": (),
    "trigger_dead_letters": ("default/sub_0123456789abcdef",), "proposals_list": (), "proposals_get": ("p",), "proposals_archive": ("p",),
    "proposals_apply": ("p",), "proposals_reject": ("p",), "connection_providers_list": (), "connection_providers_resolve": ("p",),
    "agents_list_deployments": ("a",), "agents_list_roster": (), "agents_get_roster_entry": ("r",), "agents_get_org_chart": (),
    "agents_get_org_chart_department": ("d",), "prompts_list": (), "prompts_get": ("t",), "prompts_delete": ("t",),
    "runs_eval_summary": ("default/run_00000000000000000000000000000000",),
    "runs_compensation": ("default/run_00000000000000000000000000000000",),
    "host_emit_test_event": ("durable",), "host_ui_plugin_frame": ("p", "q"),
}

def absent(client):
    """The client returns None, or raises its error with 404."""
    client.absent = True
    for name, arguments in NOT_SERVED.items():
        outcome(client, name, lambda: getattr(client, name)(*arguments))
    for name, (path, method) in REQUESTS.items():
        # With a body of any shape: the operation is refused before it is read.
        outcome(client, name, lambda: client.inner._request_json(method, path, body={}))
    outcome(client, "host_events", lambda: next(client.host_events(reconnect=False, timeout_seconds=5)))


# Those with a body: the request that the client sends.
REQUESTS = {
    "content_create_page": ("/content/pages", "POST"), "content_put_section": ("/content/pages/p/sections/s", "PUT"),
    "content_put_settings": ("/content/settings", "PUT"), "create_trigger_subscription": ("/trigger-subscriptions", "POST"),
    "proposals_submit": ("/proposals", "POST"), "proposals_revise": ("/proposals/p", "PATCH"),
    "agents_transition_deployment": ("/agents/a/deployments", "POST"), "prompts_create": ("/prompts", "POST"),
    "prompts_update": ("/prompts/t", "PUT"), "prompts_render": ("/prompts:render", "POST"),
    "host_dispatch_ui_plugin_request": ("/host/ui-plugins/p/q/rpc", "POST"),
}


def outcome(client, name, call):
    try:
        reply = call()
    except WopError as error:
        client.note(name, error_of(error))
        check(f"{name}: not served", (error.status, error.envelope and error.envelope.error), (404, "not_found"))
    except Exception as error:  # The stream helper raises its own error.
        client.note(name, "404")
        check(f"{name}: not served", "404" in str(error), True)
    else:
        check(f"{name}: not served", reply, None)


def main(url, key, outcomes):
    client = Recorded(OpenwopClient(url, key))
    workflow = "hello-v2"
    post(f"{url}/v1/workflows", key, {**WORKFLOW, "id": workflow})
    discovery(client)
    for part in (run, control, tokens, annotations, retries, catalogue):
        part(client, workflow)
    for part in (webhooks, effects):
        part(client, workflow, url, key)
    absent(client)
    check("every public method was called", client.methods() - client.outcomes.keys(), set())
    save(outcomes, openwop_client.__version__, [client])


if __name__ == "__main__":
    main(*sys.argv[1:])
