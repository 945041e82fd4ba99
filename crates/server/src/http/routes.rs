//! All routes in one table. Routes of one path are adjacent.

use host::runs::Scope;

use super::handlers::{
    chains, control, envelopes, events, history, interrupts, listening, mcp, models, mount, packs, plugins,
    poll, prompts, registry, runs, sample_workflows, sandboxed, seams, service, surfaces, toggles, tools,
    webhooks, workflows,
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
const ANNOTATE: Access = Access::Either(Scope::RunsAnnotate, Scope::RunsCreate);
const FAN_OUT: Access = Access::Key(&[Scope::ManifestWrite, Scope::RunsCreate]);
const PACKS_PUBLISH: Access = Access::Key(&[Scope::PacksPublish]);
const PACKS_YANK: Access = Access::Key(&[Scope::PacksYank]);
const PACKS_YANK_REVERT: Access = Access::Key(&[Scope::PacksYankRevert]);
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
    route!(Get "/schemas/envelopes/{kind}.schema.json", Access::Public, None, 200 "application/schema+json",
        "readEnvelopeSchema", "The schema of what an envelope of that kind says.", envelopes::schema),
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
    route!(Post "/v1/mcp", RUNS_CREATE, Message, 200 JSON,
        "callMount", "MCP for clients of workflows: tools, resources and prompts, a message for each request.", mount::answer),
    route!(Get "/v1/mcp", RUNS_CREATE, None, 200 "text/event-stream",
        "listenMount", "Tells a client of workflows over MCP when there are other tools, resources or prompts.", listening::listen),
    route!(Get "/v1/tools", RUNS_READ, None, 200 JSON,
    "listTools", "What can be used here, in the order of the ids.", tools::list, [
        optional("source", "string", "Only tools that come from there: workflow or mcp."),
        optional("view", "string", "`compact` for what is needed to choose one; `standard` by default."),
        optional("cursor", "string", "The `nextCursor` of the page before."),
    ]),
    route!(Get "/v1/tools/{toolId}", RUNS_READ, None, 200 JSON,
    "readTool", "A tool.", tools::read, [
        optional("view", "string", "`compact` for what is needed to choose it; `standard` by default."),
    ]),
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
    "streamEvents", "The events of a run, while they happen; with `Accept: application/json`, its log so far.", events::stream, [
        optional("streamMode", "string", "`values`, or some of updates, messages, debug with commas between. Without it a stream shows updates, and JSON is the whole log."),
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
    route!(Post "/v1/runs/{runId}/annotations", ANNOTATE, Required, 201 JSON,
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
    route!(Post "/v1/interrupts/{token}", Access::Token, TokenAnswer, 200 JSON,
        "resolveToken", "Answers what a token refers to.", interrupts::resolve_token),
    route!(Get "/v1/webhooks", WEBHOOKS_MANAGE, None, 200 JSON,
        "listWebhooks", "The subscriptions of the tenant.", webhooks::list),
    route!(Post "/v1/webhooks", WEBHOOKS_MANAGE, Required, 201 JSON,
        "registerWebhook", "Subscribes to events.", webhooks::register),
    route!(Delete "/v1/webhooks/{webhookId}", WEBHOOKS_MANAGE, None, 204 "",
    "deleteWebhook", "Ends a subscription.", webhooks::delete, [
        optional("tenantId", "string", "The tenant of the key, for those who want to be sure."),
    ]),
    route!(Post "/v1/webhooks/{webhookId}/rotate-secret", WEBHOOKS_MANAGE, Required, 200 JSON,
    "rotateWebhookSecret", "Replaces the secret of a webhook that is signed with Standard Webhooks.", webhooks::rotate_secret, [
        optional("tenantId", "string", "The tenant of the key, for those who want to be sure."),
    ]),
    route!(Get "/v1/webhooks/{webhookId}/dead-letters", WEBHOOKS_MANAGE, None, 200 JSON,
    "listDeadLetters", "The deliveries of a webhook that were given up, newest first.", webhooks::dead_letters, [
        optional("limit", "integer", "How many, from 1 to 1000; 100 by default."),
    ]),
    route!(Post "/v1/webhooks/{webhookId}/dead-letters/{deliveryId}:redeliver", WEBHOOKS_MANAGE, Optional, 202 JSON,
        "redeliver", "Queues a delivery that was given up again.", webhooks::redeliver),
    route!(Get "/v1/blobs/{token}", Access::Token, None, 200 "application/octet-stream",
        "readBlob", "The object of a signed address.", surfaces::blob),
    route!(Put "/v1/blobs/{token}", Access::Token, Object, 200 JSON,
        "writeBlob", "Stores the object of an address that was signed for it.", surfaces::put_blob),
    route!(Get "/v1/audit/verify", AUDIT_READ, None, 200 JSON,
    "verifyAuditLog", "Whether the audit log is as it was written.", history::verify, [
        optional("fromSeq", "integer", "The first entry; 0 where it is left out."),
        optional("toSeq", "integer", "The last entry; the newest where it is left out."),
    ]),
    // Packs: the registry, and installed packs.
    route!(Get "/.well-known/openwop-registry", Access::Public, None, 200 JSON,
        "discoverRegistry", "What the registry of this host takes.", registry::well_known),
    route!(Get "/.well-known/openwop-registry.json", Access::Public, None, 200 JSON,
        "discoverRegistry", "What the registry of this host takes. Another spelling.", registry::well_known),
    route!(Get "/keys/{keyId}.pub", Access::Public, None, 200 "application/x-pem-file",
        "readPackKey", "A key that signed packs, as PEM.", registry::public_key),
    route!(Get "/v1/index.json", Access::Offered, None, 200 JSON,
        "readRegistryIndex", "Every pack that is offered.", registry::index),
    route!(Get "/v1/packs", MANIFEST_READ, None, 200 JSON,
        "listPacks", "The packs that are installed, with their agents.", packs::list),
    route!(Get "/v1/packs/export", MANIFEST_READ, None, 200 JSON,
        "exportPacks", "The manifests of the packs that are installed.", packs::export),
    route!(Get "/v1/packs/-/search", Access::Offered, None, 200 JSON,
    "searchPacks", "The packs that are offered and have all the words.", registry::search, [
        optional("q", "string", "Words of names, descriptions and keywords."),
    ]),
    route!(Get "/v1/packs/-/by-type/{typeId}", Access::Offered, None, 200 JSON,
        "findPacksByType", "The packs that bring a type of node, a chain or a template.", registry::by_type),
    route!(Get "/v1/packs/{name}", Access::Offered, None, 200 JSON,
        "readPack", "Everything about a pack.", registry::metadata),
    route!(Get "/v1/packs/{name}/index.json", Access::Offered, None, 200 JSON,
        "readPack", "Everything about a pack. Another spelling.", registry::metadata),
    route!(Get "/v1/packs/{name}/-/{version}.json", Access::Offered, None, 200 JSON,
        "readPackManifest", "The manifest of a version.", registry::manifest),
    route!(Get "/v1/packs/{name}/-/{version}.tgz", Access::Offered, None, 200 "application/tar+gzip",
        "readPackArchive", "The archive of a version, as it was published.", registry::archive),
    route!(Put "/v1/packs/{name}/-/{version}.tgz", PACKS_PUBLISH, Archive, 201 JSON,
        "publishPack", "Publishes a version.", registry::publish),
    route!(Get "/v1/packs/{name}/-/{version}.sig", Access::Offered, None, 200 "application/octet-stream",
        "readPackSignature", "The signature of a version.", registry::signature),
    route!(Delete "/v1/packs/{name}/-/{version}", PACKS_PUBLISH, None, 204 "",
        "unpublishPack", "Takes a version back, within 72 hours.", registry::unpublish),
    route!(Post "/v1/packs/{name}/-/{version}/deprecate", PACKS_PUBLISH, Optional, 200 JSON,
        "deprecatePack", "Says that a version should no longer be used.", registry::deprecate),
    route!(Delete "/v1/packs/{name}/-/{version}/deprecate", PACKS_PUBLISH, None, 200 JSON,
        "undeprecatePack", "Says that a version may be used again.", registry::undeprecate),
    route!(Post "/v1/packs/{name}/-/{version}/yank", PACKS_YANK, Optional, 200 JSON,
        "yankPack", "Withdraws a version from ranges.", registry::yank),
    route!(Delete "/v1/packs/{name}/-/{version}/yank", PACKS_YANK_REVERT, None, 200 JSON,
        "unyankPack", "Puts a version back into ranges.", registry::unyank),
    route!(Get "/v1/packs/{name}/-/keychain", Access::Offered, None, 200 JSON,
        "readPackKeys", "The keys that signed a pack, oldest first.", registry::keychain),
    route!(Post "/v1/packs/{name}/-/keychain/rotate", PACKS_PUBLISH, Required, 200 JSON,
        "rotatePackKey", "Lets another key follow, which the old one signed for.", registry::rotate),
    route!(Get "/v1/agents", RUNS_READ, None, 200 JSON,
        "listAgents", "The agents of the packs that are installed.", packs::agents),
    route!(Get "/v1/agents/{agentId}", RUNS_READ, None, 200 JSON,
        "readAgent", "An agent, without its prompt.", packs::agent),
];

/// The pack catalogue for tests: the same operations on a separate catalogue.
static TEST_PACKS: &[Route] = &[
    route!(Get "/v1/packs-test/{name}", MANIFEST_READ, None, 200 JSON,
        "readTestPack", "Everything about a pack for tests.", registry::tests_of::metadata),
    route!(Get "/v1/packs-test/{name}/-/{version}.json", MANIFEST_READ, None, 200 JSON,
        "readTestPackManifest", "The manifest of a version.", registry::tests_of::manifest),
    route!(Get "/v1/packs-test/{name}/-/{version}.tgz", MANIFEST_READ, None, 200 "application/tar+gzip",
        "readTestPackArchive", "The archive of a version.", registry::tests_of::archive),
    route!(Put "/v1/packs-test/{name}/-/{version}.tgz", PACKS_PUBLISH, Archive, 201 JSON,
        "publishTestPack", "Publishes a version for tests.", registry::tests_of::publish),
    route!(Get "/v1/packs-test/{name}/-/{version}.sig", MANIFEST_READ, None, 200 "application/octet-stream",
        "readTestPackSignature", "The signature of a version.", registry::tests_of::signature),
    route!(Delete "/v1/packs-test/{name}/-/{version}", PACKS_PUBLISH, None, 204 "",
        "unpublishTestPack", "Takes a version back.", registry::tests_of::unpublish),
    route!(Post "/v1/packs-test/{name}/-/{version}/deprecate", PACKS_PUBLISH, Optional, 200 JSON,
        "deprecateTestPack", "Says that a version should no longer be used.", registry::tests_of::deprecate),
    route!(Delete "/v1/packs-test/{name}/-/{version}/deprecate", PACKS_PUBLISH, None, 200 JSON,
        "undeprecateTestPack", "Says that a version may be used again.", registry::tests_of::undeprecate),
    route!(Post "/v1/packs-test/{name}/-/{version}/yank", PACKS_YANK, Optional, 200 JSON,
        "yankTestPack", "Withdraws a version from ranges.", registry::tests_of::yank),
    route!(Delete "/v1/packs-test/{name}/-/{version}/yank", PACKS_YANK_REVERT, None, 200 JSON,
        "unyankTestPack", "Puts a version back into ranges.", registry::tests_of::unyank),
    route!(Get "/v1/packs-test/{name}/-/keychain", MANIFEST_READ, None, 200 JSON,
        "readTestPackKeys", "The keys that signed a pack.", registry::tests_of::keychain),
    route!(Post "/v1/packs-test/{name}/-/keychain/rotate", PACKS_PUBLISH, Required, 200 JSON,
        "rotateTestPackKey", "Lets another key follow.", registry::tests_of::rotate),
    route!(Post "/v1/packs-test/reset", PACKS_PUBLISH, Optional, 200 JSON,
        "resetTestPacks", "Forgets every pack for tests.", registry::tests_of::reset),
];

/// The seams, which exist only if the host was started for conformance suites.
static SEAMS: &[Route] = &[
    route!(Post "/v1/host/sample/workflows", MANIFEST_WRITE, Workflow, 201 JSON,
        "seedWorkflow", "Registers a workflow, in full or in the short form of suites.", sample_workflows::register),
    route!(Post "/v1/host/sample/mcp", RUNS_CREATE, Message, 200 JSON,
        "callSampleMount", "Another spelling of `/v1/mcp`.", mount::answer),
    route!(Get "/v1/host/sample/test/runs/{runId}/events", RUNS_READ, None, 200 JSON,
    "readRecordedEvents", "The events of a run, as they were recorded, and those of seams.", seams::events, [
        optional("type", "string", "Only events of this type."),
        optional("nodeId", "string", "Only events of this node."),
        optional("causationId", "string", "Only events with this cause."),
        optional("correlationId", "string", "Only events that an envelope with this correlation id caused."),
    ]),
    route!(Get "/v1/host/sample/test/otel/spans", RUNS_READ, None, 200 JSON,
    "readSpans", "The spans of a run that is over, and those of envelopes.", seams::spans, [
        required("runId", "string", "The run."),
    ]),
    route!(Post "/v1/host/sample/test/capability-toggle", ADMIN, Required, 200 JSON,
        "toggleCapability", "Serves less than could be served.", toggles::toggle),
    route!(Get "/v1/host/sample/test/runs/{runId}/variables", RUNS_READ, None, 200 JSON,
        "readVariables", "The variables of a run.", seams::variables),
    route!(Post "/v1/host/sample/test/runs/{runId}/variables", RUNS_CREATE, Required, 200 JSON,
        "setVariables", "Gives variables of a run other values.", seams::set_variables),
    route!(Post "/v1/host/sample/test/debug-bundle/export", RUNS_READ, Required, 200 JSON,
        "exportDebugBundle", "The bundle of a run.", seams::bundle),
    route!(Post "/v1/host/sample/dispatch/fanout", FAN_OUT, Required, 200 JSON,
        "fanOut", "Dispatches children that do nothing, and joins them.", seams::fan_out),
    route!(Post "/v1/host/sample/test/surface", ADMIN, Required, 200 JSON,
        "callSurface", "One operation of a surface, for any tenant.", surfaces::call),
    route!(Post "/v1/host/sample/fs/read", ADMIN, Required, 200 JSON,
        "readSurfaceFile", "A file of a tenant.", surfaces::read_file),
    route!(Post "/v1/host/sample/ui-plugin/rpc", RUNS_READ, Required, 200 JSON,
        "callAsPlugin", "A message of `ui-plugin/1`, as a plugin would send it.", plugins::rpc),
    route!(Get "/v1/host/sample/blob/presigned/{token}", Access::Token, None, 200 "application/octet-stream",
        "readBlob", "The object of a signed address. Another spelling of `/v1/blobs`.", surfaces::blob),
    // Models, the sandbox, chains.
    route!(Post "/v1/host/sample/test/reset", ADMIN, Optional, 200 JSON,
        "resetSeams", "Forgets what seams remember.", models::reset),
    route!(Post "/v1/host/sample/test/mock-ai/program", ADMIN, Required, 200 JSON,
        "programMock", "What the model that pretends answers to a node.", models::program),
    route!(Get "/v1/host/sample/test/mock-ai/last-dispatch-budget", ADMIN, None, 200 JSON,
    "readMockBudget", "How much room the last call of a node asked for.", models::last_budget, [
        required("nodeId", "string", "The node."),
    ]),
    route!(Post "/v1/host/sample/envelope/accept", ADMIN, Required, 200 JSON,
        "acceptEnvelope", "What comes of an envelope.", envelopes::accept_envelope),
    route!(Post "/v1/host/sample/prompt/compose", ADMIN, Required, 200 JSON,
        "composePrompt", "What becomes of a template with values in it.", prompts::composed),
    route!(Post "/v1/host/sample/prompt/resolve", ADMIN, Required, 200 JSON,
        "resolvePrompt", "Which template a node gets, and who was asked.", prompts::resolved),
    route!(Post "/v1/host/sample/test/llm-prompt-wrap", ADMIN, Required, 200 JSON,
        "wrapForPrompt", "A payload as a model may read it.", models::wrap),
    route!(Post "/v1/host/sample/test/emit-envelope-reliability", ADMIN, Required, 200 JSON,
        "checkReliabilityEvent", "Whether an event of reliability would be recorded.", models::emit_reliability),
    route!(Post "/v1/host/sample/test/emit-provider-usage", ADMIN, Required, 200 JSON,
        "checkUsageEvent", "Whether an event of usage would be recorded.", models::emit_usage),
    route!(Post "/v1/host/sample/test/evaluate-model-capability-gate", ADMIN, Required, 200 JSON,
        "evaluateModelGate", "Which model is asked.", models::evaluate_gate),
    route!(Post "/v1/host/sample/test/llm-cache-key", ADMIN, Required, 200 JSON,
        "readCacheKey", "The key of a request to a model.", models::key_of),
    route!(Post "/v1/host/sample/test/sandbox-load", ADMIN, Required, 200 JSON,
        "loadSandboxed", "Whether there is a pack that tries the sandbox.", sandboxed::load),
    route!(Post "/v1/host/sample/test/sandbox-invoke", ADMIN, Required, 200 JSON,
        "invokeSandboxed", "Runs a module that tries the sandbox.", sandboxed::invoke),
    route!(Post "/v1/host/sample/packs/install-gate", ADMIN, Required, 200 JSON,
        "judgeInstall", "Whether a pack could be installed.", sandboxed::install_gate),
    route!(Post "/v1/host/sample/workflow-chain:expand", ADMIN, Required, 200 JSON,
        "expandChain", "The nodes and edges of a chain.", chains::expand),
];

/// Which optional routes are served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gates {
    /// The seams for conformance suites.
    pub(super) seams: bool,
    /// The pack catalogue for tests.
    pub(super) test_packs: bool,
}

impl Gates {
    /// All of them.
    pub(super) const ALL: Self = Self { seams: true, test_packs: true };
}

/// The routes that are served.
pub(super) fn served(gates: Gates) -> impl Iterator<Item = &'static Route> {
    let seams = if gates.seams { SEAMS } else { &[] };
    ALL.iter().chain(if gates.test_packs { TEST_PACKS } else { &[] }).chain(seams)
}

/// The routes of one path.
pub(super) fn of(path: &str) -> impl Iterator<Item = &'static Route> {
    served(Gates::ALL).filter(move |route| route.path == path)
}

/// The actions after a colon.
pub(super) fn actions() -> impl Iterator<Item = &'static str> {
    served(Gates::ALL).filter_map(|route| route.path.rsplit_once(':').map(|(_, action)| action))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_routes_of_a_path_stand_together_and_no_method_twice() {
        let mut paths: Vec<&str> = served(Gates::ALL).map(|route| route.path).collect();
        paths.dedup();
        let distinct: BTreeSet<&str> = paths.iter().copied().collect();
        assert_eq!(paths.len(), distinct.len());
        let methods: BTreeSet<_> =
            served(Gates::ALL).map(|route| (route.path, route.method.as_str())).collect();
        assert_eq!(methods.len(), served(Gates::ALL).count());
    }
}
