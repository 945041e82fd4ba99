//! Every route, in one table. Routes of one path stand together.

use host::runs::Scope;

use super::handlers::{
    control, events, history, interrupts, mcp, poll, runs, seams, service, webhooks, workflows,
};
use super::route::{Access, Body, Method, Parameter, Route};

const JSON: &str = "application/json";

const MANIFEST_READ: Access = Access::Key(&[Scope::ManifestRead]);
const MANIFEST_WRITE: Access = Access::Key(&[Scope::ManifestWrite]);
const RUNS_CREATE: Access = Access::Key(&[Scope::RunsCreate]);
const RUNS_READ: Access = Access::Key(&[Scope::RunsRead]);
const RUNS_CANCEL: Access = Access::Key(&[Scope::RunsCancel]);
const ARTIFACTS_READ: Access = Access::Key(&[Scope::ArtifactsRead]);
const APPROVALS_RESPOND: Access = Access::Key(&[Scope::ApprovalsRespond]);
const WEBHOOKS_MANAGE: Access = Access::Key(&[Scope::WebhooksManage]);
const AUDIT_READ: Access = Access::Key(&[Scope::AuditRead]);
const FORK: Access = Access::Key(&[Scope::RunsCreate, Scope::RunsRead]);
const FAN_OUT: Access = Access::Key(&[Scope::ManifestWrite, Scope::RunsCreate]);
const ADMIN: Access = Access::Key(&[Scope::Admin]);

const fn optional(name: &'static str, kind: &'static str, about: &'static str) -> Parameter {
    Parameter { name, required: false, kind, about }
}

const fn required(name: &'static str, kind: &'static str, about: &'static str) -> Parameter {
    Parameter { name, required: true, kind, about }
}

macro_rules! route {
    (
        $method:ident $path:literal, $access:expr, $body:ident, $success:literal $media:expr,
        $operation:literal, $summary:literal, $handler:path $(, [$($parameter:expr),+ $(,)?])?
    ) => {
        Route {
            method: Method::$method,
            path: $path,
            access: $access,
            body: Body::$body,
            query: &[$($($parameter),+)?],
            operation: $operation,
            summary: $summary,
            success: $success,
            media: $media,
            handler: |call| Box::pin($handler(call)),
        }
    };
}

/// The table.
static ALL: &[Route] = &[
    route!(Get "/.well-known/openwop", Access::Public, None, 200 JSON,
        "discover", "What this host can do.", service::discovery),
    route!(Get "/v1/openapi.json", Access::Public, None, 200 JSON,
        "readOpenApi", "This document.", service::openapi),
    route!(Get "/healthz", Access::Public, None, 200 JSON,
        "readHealth", "Whether the process answers.", service::health),
    route!(Get "/readyz", Access::Public, None, 200 JSON,
        "readReadiness", "Whether requests can be served.", service::readiness),
    route!(Get "/metrics", ADMIN, None, 200 "text/plain",
        "readMetrics", "What the service counts, for Prometheus.", service::metrics),
    route!(Post "/mcp", Access::Guided, Message, 200 JSON,
        "callMcp", "MCP for agents: guided sessions, a message for each request.", mcp::answer),
    route!(Get "/v1/workflows", MANIFEST_READ, None, 200 JSON,
    "listWorkflows", "The workflows of the tenant, in the order of their ids.", workflows::list, [
        optional("limit", "integer", "How many, from 1 to 200; 100 where it is left out."),
        optional("cursor", "string", "The `nextCursor` of the page before."),
    ]),
    route!(Post "/v1/workflows", MANIFEST_WRITE, Workflow, 201 JSON,
        "registerWorkflow", "Registers a workflow, or a new version of one.", workflows::register),
    route!(Get "/v1/workflows/{workflowId}", MANIFEST_READ, None, 200 JSON,
        "readWorkflow", "A workflow as it was registered.", workflows::read),
    route!(Get "/v1/runs", RUNS_READ, None, 200 JSON,
    "listRuns", "The runs of the tenant, newest first.", runs::list, [
        optional("status", "string", "Only runs in this state."),
        optional("workflowId", "string", "Only runs of this workflow."),
        optional("tag", "string", "Only runs with this tag."),
        optional("limit", "integer", "How many, from 1 to 200; 50 where it is left out."),
        optional("cursor", "string", "The `nextCursor` of the page before."),
    ]),
    route!(Post "/v1/runs", RUNS_CREATE, Required, 201 JSON,
        "createRun", "Creates a run.", runs::create),
    route!(Get "/v1/runs/{runId}", RUNS_READ, None, 200 JSON,
        "readRun", "A run, with a tag that changes whenever the run does.", runs::read),
    route!(Post "/v1/runs/{runId}/cancel", RUNS_CANCEL, Optional, 200 JSON,
        "cancelRun", "Ends a run.", control::cancel),
    route!(Post "/v1/runs/{runId}:cancel", RUNS_CANCEL, Optional, 200 JSON,
        "cancelRun", "Ends a run. Another spelling of `/cancel`.", control::cancel),
    route!(Post "/v1/runs/{runId}:pause", RUNS_CANCEL, Optional, 202 JSON,
        "pauseRun", "Halts a run.", control::pause),
    route!(Post "/v1/runs/{runId}:resume", RUNS_CANCEL, Optional, 202 JSON,
        "resumeRun", "Lets a halted run go on.", control::resume),
    route!(Post "/v1/runs:bulk-cancel", RUNS_CANCEL, Required, 200 JSON,
        "cancelRuns", "Ends many runs.", control::bulk_cancel),
    route!(Post "/v1/runs/{runId}:fork", FORK, Required, 201 JSON,
        "forkRun", "Begins a run where another was.", history::fork),
    route!(Get "/v1/runs/{runId}:diff", RUNS_READ, None, 200 JSON,
    "compareRuns", "How a run differs from another.", runs::diff, [
        required("against", "string", "The other run."),
    ]),
    route!(Get "/v1/runs/{runId}/ancestry", RUNS_READ, None, 200 JSON,
        "readAncestry", "Where a run came from.", runs::ancestry),
    route!(Get "/v1/runs/{runId}/events", RUNS_READ, None, 200 "text/event-stream",
    "streamEvents", "The events of a run, while they happen.", events::stream, [
        optional("streamMode", "string", "`values`, or some of updates, messages, debug with commas between."),
        optional("bufferMs", "integer", "For how long events are gathered into one frame, from 0 to 5000."),
    ]),
    route!(Get "/v1/runs/{runId}/events/poll", RUNS_READ, None, 200 JSON,
    "pollEvents", "The events after a sequence, as soon as there are some.", poll::poll, [
        optional("lastSequence", "integer", "The last sequence that is known."),
        optional("timeout", "integer", "For how many seconds to wait, from 0 to 60; 30 where it is left out."),
        optional("limit", "integer", "How many events at most."),
    ]),
    route!(Get "/v1/runs/{runId}/annotations", RUNS_READ, None, 200 JSON,
        "listAnnotations", "What was noted about a run.", history::annotations),
    route!(Post "/v1/runs/{runId}/annotations", RUNS_CREATE, Required, 201 JSON,
        "annotateRun", "Notes something about a run.", history::annotate),
    route!(Get "/v1/runs/{runId}/debug-bundle", RUNS_READ, None, 200 JSON,
    "readDebugBundle", "All that is known of a run, without secrets.", history::bundle, [
        optional("maxEvents", "integer", "How many events at most."),
    ]),
    route!(Get "/v1/runs/{runId}/artifacts/{artifactId}", ARTIFACTS_READ, None, 200 JSON,
        "readArtifact", "An artifact of a run.", runs::artifact),
    route!(Post "/v1/runs/{runId}/interrupts/{nodeId}", APPROVALS_RESPOND, Required, 200 JSON,
        "resolveInterrupt", "Answers what a node waits for.", interrupts::resolve),
    route!(Get "/v1/runs/{runId}/interrupts/{nodeId}", APPROVALS_RESPOND, None, 200 JSON,
        "inspectInterrupt", "What a node waits for, and how an agent connects to it.", interrupts::inspect),
    route!(Post "/v1/runs/{runId}/approvals/{nodeId}", APPROVALS_RESPOND, Required, 200 JSON,
        "approve", "Answers what a node waits for, with the answer as the body.", interrupts::approve),
    route!(Get "/v1/interrupts/{token}", Access::Token, None, 200 JSON,
        "inspectToken", "What a token refers to.", interrupts::inspect_token),
    route!(Post "/v1/interrupts/{token}", Access::Token, Required, 200 JSON,
        "resolveToken", "Answers what a token refers to.", interrupts::resolve_token),
    route!(Get "/v1/webhooks", WEBHOOKS_MANAGE, None, 200 JSON,
        "listWebhooks", "The subscriptions of the tenant.", webhooks::list),
    route!(Post "/v1/webhooks", WEBHOOKS_MANAGE, Required, 201 JSON,
        "registerWebhook", "Subscribes to events.", webhooks::register),
    route!(Delete "/v1/webhooks/{webhookId}", WEBHOOKS_MANAGE, None, 204 "",
    "deleteWebhook", "Ends a subscription.", webhooks::delete, [
        optional("tenantId", "string", "The tenant of the key, for those who want to be sure."),
    ]),
    route!(Get "/v1/audit/verify", AUDIT_READ, None, 200 JSON,
    "verifyAuditLog", "Whether the audit log is as it was written.", history::verify, [
        optional("fromSeq", "integer", "The first entry; 0 where it is left out."),
        optional("toSeq", "integer", "The last entry; the newest where it is left out."),
    ]),
];

/// What is there besides when the host was started for tests.
static SEAMS: &[Route] = &[
    route!(Post "/v1/host/sample/workflows", MANIFEST_WRITE, Workflow, 201 JSON,
        "seedWorkflow", "Registers a workflow.", workflows::register),
    route!(Get "/v1/host/sample/test/runs/{runId}/events", RUNS_READ, None, 200 JSON,
        "readRecordedEvents", "The events of a run, as they were recorded.", seams::events),
    route!(Get "/v1/host/sample/test/runs/{runId}/variables", RUNS_READ, None, 200 JSON,
        "readVariables", "The variables of a run.", seams::variables),
    route!(Post "/v1/host/sample/test/runs/{runId}/variables", RUNS_CREATE, Required, 200 JSON,
        "setVariables", "Gives variables of a run other values.", seams::set_variables),
    route!(Post "/v1/host/sample/test/debug-bundle/export", RUNS_READ, Required, 200 JSON,
        "exportDebugBundle", "The bundle of a run.", seams::bundle),
    route!(Post "/v1/host/sample/dispatch/fanout", FAN_OUT, Required, 200 JSON,
        "fanOut", "Dispatches children that do nothing, and joins them.", seams::fan_out),
];

/// The routes that are served.
pub(super) fn served(seams: bool) -> impl Iterator<Item = &'static Route> {
    ALL.iter().chain(if seams { SEAMS } else { &[] })
}

/// The routes of one path.
pub(super) fn of(path: &str) -> impl Iterator<Item = &'static Route> {
    ALL.iter().chain(SEAMS).filter(move |route| route.path == path)
}

/// The actions that are written behind a colon.
pub(super) fn actions() -> impl Iterator<Item = &'static str> {
    ALL.iter().filter_map(|route| route.path.rsplit_once(':').map(|(_, action)| action))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_routes_of_a_path_stand_together_and_no_method_twice() {
        let mut paths: Vec<&str> = served(true).map(|route| route.path).collect();
        paths.dedup();
        let distinct: BTreeSet<&str> = paths.iter().copied().collect();
        assert_eq!(paths.len(), distinct.len());
        let methods: BTreeSet<_> = served(true).map(|route| (route.path, route.method.as_str())).collect();
        assert_eq!(methods.len(), served(true).count());
    }
}
