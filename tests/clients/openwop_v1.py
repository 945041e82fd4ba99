"""Drives a server with the official OpenWOP v1 client, call by call, as its users do.

Usage: openwop_v1.py URL API_KEY

The client reads replies into its own types and fails on a member that it misses, so a call that returns has a reply that the
client can use. The checks below are about what the reply says.
"""

import json
import sys
from pathlib import Path
from urllib.request import Request, urlopen

from openwop_client import (
    CancelRunRequest,
    CreateRunRequest,
    ForkRunRequest,
    OpenwopClient,
    RegisterWebhookRequest,
    ResolveInterruptRequest,
    RunConfigurable,
    WopError,
)

WORKFLOW = json.loads((Path(__file__).parents[2] / "examples/runs/hello.json").read_text())
GATE = "ask"
ACCEPT = ResolveInterruptRequest(resumeValue={"action": "accept"})


def check(what, actual, expected):
    """Fails with both values, unless they are equal."""
    if actual != expected:
        raise AssertionError(f"{what}: expected {expected!r}, got {actual!r}")
    print(f"ok  {what}")


def refused(what, code, call):
    """Fails unless the call raises the client's error with this code."""
    try:
        reply = call()
    except WopError as error:
        check(what, error.envelope and error.envelope.error, code)
    else:
        raise AssertionError(f"{what}: expected {code}, got {reply!r}")


def register(url, key, workflow):
    """Registers a workflow. The client has no call for that: hosts are free in how workflows get there."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with urlopen(Request(f"{url}/v1/workflows", json.dumps(workflow).encode(), headers)) as reply:
        return json.load(reply)["workflowId"]


def discovery(client):
    check("discovery: protocol version", client.discovery_capabilities().protocolVersion.split(".")[0], "1")
    check("discovery: openapi", client.discovery_openapi()["openapi"].split(".")[0], "3")


def run(client, workflow):
    check("workflow", client.workflows_get(workflow)["id"], workflow)
    created = client.runs_create(CreateRunRequest(workflow, inputs={"text": "good morning"}, tags=["client"]))
    waiting = client.runs_get(created.runId)
    check("run: waits for a person", (waiting.status, waiting.currentNodeId), ("waiting-approval", GATE))
    check("run: keeps its tags", waiting.tags, ["client"])

    client.interrupts_resolve_by_run(created.runId, GATE, ACCEPT)
    streamed = [event.type for event in client.runs_events(created.runId, stream_mode="debug")]
    check("events: the stream ends with the run", streamed[-1], "run.completed")
    polled = client.runs_poll_events(created.runId, timeout_seconds=1)
    check("events: the poll is complete", (polled.isComplete, polled.events[-1].type), (True, "run.completed"))
    check("events: in order", [event.sequence for event in polled.events], list(range(len(polled.events))))
    check("run: completed", client.runs_get(created.runId).status, "completed")
    refused(
        "interrupt: answered once",
        "interrupt_already_resolved",
        lambda: client.interrupts_resolve_by_run(created.runId, GATE, ACCEPT),
    )
    forked = client.runs_fork(created.runId, ForkRunRequest(fromSeq=0, mode="replay"))
    check("fork: of this run", (forked.sourceRunId, forked.mode), (created.runId, "replay"))


def retries(client, workflow):
    first = client.runs_create(CreateRunRequest(workflow), idempotency_key="client-once")
    again = client.runs_create(CreateRunRequest(workflow), idempotency_key="client-once")
    check("idempotency: one run", again.runId, first.runId)
    cancelled = client.runs_cancel(first.runId, CancelRunRequest(reason="enough"))
    check("cancel", cancelled.status in ("cancelled", "cancelling"), True)
    refused("run: unknown", "run_not_found", lambda: client.runs_get("run_00000000000000000000000000000000"))


def options(client, workflow):
    """The client sends members that are not set as null, and an empty `extras`."""
    typed = CreateRunRequest(workflow, configurable=RunConfigurable(recursionLimit=50))
    snapshot = client.runs_get(client.runs_create(typed).runId)
    check("options: typed", (snapshot.configurable or {}).get("recursionLimit"), 50)
    wrong = CreateRunRequest(workflow, configurable={"recursionLimit": 0})
    refused("options: checked", "validation_error", lambda: client.runs_create(wrong))


def webhooks(client):
    """A name that nobody can own, so nothing is ever sent."""
    wanted = RegisterWebhookRequest(url="https://receiver.example/hook", events=["run.completed"])
    made = client.webhooks_register(wanted)
    check("webhook: as asked for", (made.url, made.eventTypes), (wanted.url, wanted.events))
    check("webhook: has a secret", len(made.secret) >= 16, True)
    client.webhooks_unregister(made.subscriptionId, "default")
    refused(
        "webhook: removed",
        "subscription_not_found",
        lambda: client.webhooks_unregister(made.subscriptionId, "default"),
    )


def main(url, key):
    client = OpenwopClient(url, key)
    workflow = register(url, key, WORKFLOW)
    discovery(client)
    run(client, workflow)
    retries(client, workflow)
    options(client, workflow)
    webhooks(client)
    refused("key: checked", "unauthenticated", lambda: OpenwopClient(url, "no-such-key").runs_get("run_1"))


if __name__ == "__main__":
    main(*sys.argv[1:])
