"""Drives a server with the official OpenWOP v1 client, call by call, as its users do.

Usage: openwop_v1.py URL API_KEY OUTCOMES

OUTCOMES is the file for the outcome of every method.

The client reads replies into its own types and fails if a member is missing, so a call that returns has a reply that the client can use. The
checks below are about the contents of the reply. Every public method is called; `main` fails if one is not.

The server needs `registry.public`, `egress.private` for 127.0.0.1, the agent of examples/agents/clerk and a published pack.
"""

import json
import sys
from pathlib import Path

import openwop_client
from openwop_client import (
    AgentDeploymentTransition,
    BulkCancelRunsRequest,
    CancelRunRequest,
    CreateAnnotationRequest,
    CreateRunRequest,
    ForkRunRequest,
    LocalizedContentLanguageSettings,
    LocalizedContentPage,
    OpenwopClient,
    PromptTemplate,
    PutContentSectionRequest,
    PutWorkspaceFileRequest,
    RegisterWebhookRequest,
    RegistryClient,
    RenderPromptRequest,
    ResolveInterruptRequest,
    RotateWebhookSecretRequest,
    RunConfigurable,
    TriggerSubscriptionRegistration,
    read_webhook_headers,
    verify_webhook_signature,
)

from common import Recorded, check, post, receiver, refused, save

WORKFLOW = json.loads((Path(__file__).parents[2] / "examples/runs/hello.json").read_text())
GATE = "ask"
ACCEPT = ResolveInterruptRequest(resumeValue={"action": "accept"})
PACK = "vendor.example.clerk"
AGENT = "vendor.example.agents.clerk"


def discovery(client):
    said = client.discovery_capabilities()
    check("discovery: protocol version", said.protocolVersion, "1.0")
    check("discovery: openapi", client.discovery_openapi()["openapi"].split(".")[0], "3")


def waiting(client, workflow, **options):
    """A new run that waits for an approval."""
    return client.runs_create(CreateRunRequest(workflow, inputs={"text": "good morning"}, **options)).runId


def run(client, workflow):
    check("workflow", client.workflows_get(workflow)["id"], workflow)
    run_id = waiting(client, workflow, tags=["client"])
    snapshot = client.runs_get(run_id)
    check("run: waits for a person", (snapshot.status, snapshot.currentNodeId), ("waiting-approval", GATE))
    check("run: keeps its tags", snapshot.tags, ["client"])

    client.interrupts_resolve_by_run(run_id, GATE, ACCEPT)
    streamed = [event.type for event in client.runs_events(run_id, stream_mode="debug")]
    check("events: the stream ends with the run", streamed[-1], "run.completed")
    polled = client.runs_poll_events(run_id, timeout_seconds=1)
    check("events: the poll is complete", (polled.isComplete, polled.events[-1].type), (True, "run.completed"))
    check("events: in order", [event.sequence for event in polled.events], list(range(len(polled.events))))
    check("run: completed", client.runs_get(run_id).status, "completed")
    again = lambda: client.interrupts_resolve_by_run(run_id, GATE, ACCEPT)
    refused("interrupt: answered once", 409, "interrupt_already_resolved", again)

    forked = client.runs_fork(run_id, ForkRunRequest(fromSeq=0, mode="replay"))
    check("fork: of this run", (forked.sourceRunId, forked.mode), (run_id, "replay"))
    for _ in client.runs_events(forked.runId):
        pass
    check("diff: a replay repeats its source", client.runs_diff(run_id, forked.runId).divergedAtSeq, None)
    check("ancestry: no parent", client.runs_ancestry(run_id).parent, None)
    check("debug bundle", client.runs_debug_bundle(run_id).bundleVersion is not None, True)
    check("artifact: unknown", client.runs_get_artifact(run_id, "none"), None)


def control(client, workflow):
    run_id = waiting(client, workflow)
    check("pause", client.runs_pause(run_id).status, "paused")
    check("resume", client.runs_resume(run_id).status, "running")
    cancelled = client.runs_cancel(run_id, CancelRunRequest(reason="enough"))
    check("cancel", cancelled.status in ("cancelled", "cancelling"), True)
    other = waiting(client, workflow)
    results = client.runs_bulk_cancel(BulkCancelRunsRequest([other, "run_unknown"])).results
    check("bulk cancel: each by itself", [result.ok for result in results], [True, False])
    check("bulk cancel: an error envelope", results[1].error["error"], "not_found")
    refused("run: unknown", 404, "run_not_found", lambda: client.runs_get("run_00000000000000000000000000000000"))


def tokens(client, workflow):
    run_id = waiting(client, workflow)
    token = client._request_json("GET", f"/v1/runs/{run_id}")["interrupt"]["interruptToken"]
    check("token: inspected", client.interrupts_inspect_by_token(token).kind, "approval")
    first = client.interrupts_resolve_by_token(token, ACCEPT, idempotency_key="token-once")
    again = client.interrupts_resolve_by_token(token, ACCEPT, idempotency_key="token-once")
    check("token: the recorded reply", again, first)
    used = lambda: client.interrupts_resolve_by_token(token, ACCEPT)
    refused("token: used up", 409, "interrupt_already_resolved", used)
    unknown = lambda: client.interrupts_resolve_by_token("tok_unknown", ACCEPT)
    refused("token: unknown", 404, "interrupt_not_found", unknown)


def annotations(client, workflow):
    run_id = waiting(client, workflow)
    made = client.create_annotation(run_id, CreateAnnotationRequest({"kind": "rating", "rating": 5}))
    listed = client.list_annotations(run_id)
    check("annotations", [one.annotationId for one in listed], [made.annotationId])


def retries(client, workflow):
    first = client.runs_create(CreateRunRequest(workflow), idempotency_key="client-once")
    again = client.runs_create(CreateRunRequest(workflow), idempotency_key="client-once")
    check("idempotency: one run", again.runId, first.runId)


def options(client, workflow):
    """The client sends members that are not set as null, and an empty `extras`."""
    typed = CreateRunRequest(workflow, configurable=RunConfigurable(recursionLimit=50))
    snapshot = client.runs_get(client.runs_create(typed).runId)
    check("options: typed", (snapshot.configurable or {}).get("recursionLimit"), 50)
    wrong = CreateRunRequest(workflow, configurable={"recursionLimit": 0})
    refused("options: checked", 400, "validation_error", lambda: client.runs_create(wrong))


def webhooks(client, workflow, url, key):
    address, received = receiver()
    wanted = RegisterWebhookRequest(url=address, events=["run.completed"])
    made = client.webhooks_register(wanted)
    check("webhook: as asked for", (made.url, made.eventTypes), (wanted.url, wanted.events))
    client.interrupts_resolve_by_run(waiting(client, workflow), GATE, ACCEPT)
    headers, body = received.get(timeout=30)
    signature, timestamp, _ = read_webhook_headers(headers)
    verified = lambda secret: verify_webhook_signature(secret, signature, timestamp, body).valid
    check("webhook: a real delivery verifies", (verified(made.secret), verified("another-secret-00")), (True, False))
    plain = lambda: client.webhooks_rotate_secret(
        made.subscriptionId, "default", RotateWebhookSecretRequest("whsec_" + "A" * 43 + "=")
    )
    refused("webhook: one signature cannot overlap", 400, "validation_error", plain)
    client.webhooks_unregister(made.subscriptionId, "default")
    removed = lambda: client.webhooks_unregister(made.subscriptionId, "default")
    refused("webhook: removed", 404, "subscription_not_found", removed)

    # The client has no member for the signature algorithms yet.
    standard = {
        "url": address,
        "events": ["run.completed"],
        "secret": "whsec_" + "B" * 43 + "=",
        "signatureAlgorithms": ["v1", "standard-webhooks-1"],
    }
    made = post(f"{url}/v1/webhooks", key, standard)
    received.get(timeout=30)
    rotated = client.webhooks_rotate_secret(
        made["subscriptionId"], "default", RotateWebhookSecretRequest("whsec_" + "C" * 43 + "=")
    )
    check("webhook: rotated", rotated.rotatedAt < rotated.previousSecretExpiresAt, True)
    client.interrupts_resolve_by_run(waiting(client, workflow), GATE, ACCEPT)
    headers, _ = received.get(timeout=30)
    check("webhook: two signatures", len(headers["webhook-signature"].split()), 2)
    client.webhooks_unregister(made["subscriptionId"], "default")


def audit(client):
    verified = client.audit_verify(0, 1_000_000)
    check("audit: valid", (verified.chainValid, verified.checkpointsValid, verified.anomalies), (True, True, []))


def catalogs(client, workflow):
    check("agents", [agent.agentId for agent in client.agents_list()], [AGENT])
    check("agent", client.agents_get(AGENT).agentId, AGENT)
    check("agent: unknown", client.agents_get("vendor.example.none"), None)
    tool = f"workflow:{workflow}"
    check("tools", tool in [one.toolId for one in client.tools_list()], True)
    check("tools: compact", tool in [one["toolId"] for one in client.tools_list_compact()], True)
    check("tool", client.tools_get(tool).toolId, tool)


def registry(client):
    check("registry: discovery", client.discovery().registryVersion, "1")
    index = client.index()
    check("registry: index", ([pack.name for pack in index.packs], index.generated is None), ([PACK], False))
    pack = client.pack(PACK)
    check("registry: pack", (pack.versions, pack.latestVersion), (["1.0.0"], "1.0.0"))
    version = client.version(PACK, "1.0.0")
    check("registry: version", (version.name, version.version), (PACK, "1.0.0"))
    check("registry: archive", client.tarball(PACK, "1.0.0")[:2], b"\x1f\x8b")
    check("registry: signature", len(client.signature(PACK, "1.0.0")), 64)
    key = version.signing["keyId"] if version.signing else None
    check("registry: key", client.public_key(key).startswith("-----BEGIN PUBLIC KEY-----"), True)


def absent(client, workflow):
    """What this host does not provide: the client returns `None` where the protocol has 404, and raises otherwise."""
    run_id = waiting(client, workflow)
    client.absent = True
    template = PromptTemplate("greeting", "1.0.0", "user", "Hello")
    page = LocalizedContentPage("p", "home", "Home", "draft", [])
    settings = LocalizedContentLanguageSettings("en", ["en"], False)
    section = PutContentSectionRequest("en", {})
    subscription = TriggerSubscriptionRegistration({"kind": "webhook"}, workflow)
    for name, call in {
        "deployments": lambda: client.agents_list_deployments(AGENT),
        "roster": client.agents_list_roster,
        "roster entry": lambda: client.agents_get_roster_entry("host:none"),
        "org chart": client.agents_get_org_chart,
        "department": lambda: client.agents_get_org_chart_department("none"),
        "eval summary": lambda: client.runs_eval_summary(run_id),
        "page": lambda: client.content_get_page("home"),
        "workspace files": client.list_workspace_files,
        "workspace file": lambda: client.get_workspace_file("notes/today.md"),
    }.items():
        check(f"absent: {name}", call(), None)
    check("absent: nothing to delete", client.delete_workspace_file("notes/today.md"), False)
    for name, call in {
        "create prompt": lambda: client.prompts_create(template),
        "update prompt": lambda: client.prompts_update("greeting", template),
        "delete prompt": lambda: client.prompts_delete("greeting"),
        "render prompt": lambda: client.prompts_render(RenderPromptRequest("prompt:greeting", {})),
        "prompt": lambda: client.prompts_get("greeting"),
        "create page": lambda: client.content_create_page(page),
        "delete page": lambda: client.content_delete_page("p"),
        "put section": lambda: client.content_put_section("p", "s", section),
        "put settings": lambda: client.content_put_settings(settings),
        "put workspace file": lambda: client.put_workspace_file("a/b.md", PutWorkspaceFileRequest("x")),
        "trigger subscription": lambda: client.create_trigger_subscription(subscription),
    }.items():
        refused(f"absent: {name}", 501, "capability_not_provided", call)
    # Reads without parameters are 404 in both versions of the protocol, also where this client expects 501.
    for name, call in {
        "prompts": client.prompts_list,
        "pages": client.content_list_pages,
        "language settings": client.content_get_settings,
        "transition": lambda: client.agents_transition_deployment(AGENT, AgentDeploymentTransition("1", "promote")),
    }.items():
        refused(f"absent: {name}", 404, "not_found", call)


def main(url, key, outcomes):
    client = Recorded(OpenwopClient(url, key))
    packs = Recorded(RegistryClient(base_url=url))
    workflow = post(f"{url}/v1/workflows", key, WORKFLOW)["workflowId"]
    discovery(client)
    run(client, workflow)
    control(client, workflow)
    tokens(client, workflow)
    annotations(client, workflow)
    retries(client, workflow)
    options(client, workflow)
    webhooks(client, workflow, url, key)
    audit(client)
    catalogs(client, workflow)
    registry(packs)
    absent(client, workflow)
    refused("key: checked", 401, "unauthenticated", lambda: OpenwopClient(url, "no-such-key").runs_get("run_1"))
    methods = client.methods() | packs.methods()
    check("every method was called", methods - client.outcomes.keys() - packs.outcomes.keys(), set())
    save(outcomes, openwop_client.__version__, [client, packs])


if __name__ == "__main__":
    main(*sys.argv[1:])
