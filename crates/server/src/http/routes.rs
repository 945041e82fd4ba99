//! All routes in one table. Routes of one path are adjacent.

use ::runs::Scope;
use openwop::Major;

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
            major: Major::V1,
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
        "discover", "The capabilities of this host.", service::discovery),
    route!(Get "/schemas/envelopes/{kind}.schema.json", Access::Public, None, 200 "application/schema+json",
        "readEnvelopeSchema", "The JSON Schema of the payload of an envelope kind.", envelopes::schema),
    route!(Get "/v1/openapi.json", Access::Public, None, 200 JSON,
        "readOpenApi", "This document.", service::openapi),
    route!(Get "/healthz", Access::Public, None, 200 JSON,
        "readHealth", "Liveness: the process responds.", service::health),
    route!(Get "/readyz", Access::Public, None, 200 JSON,
        "readReadiness", "Readiness: the host accepts requests.", service::readiness),
    route!(Get "/metrics", ADMIN, None, 200 "text/plain",
        "readMetrics", "Metrics in the Prometheus text format.", service::metrics),
    route!(Post "/mcp", Access::Guided, Message, 200 JSON,
        "callMcp", "MCP for agents in guided sessions, one message per request.", mcp::answer),
    route!(Post "/v1/mcp", RUNS_CREATE, Message, 200 JSON,
        "callMount", "MCP for workflows as tools, resources and prompts, one message per request.", mount::answer),
    route!(Get "/v1/mcp", RUNS_CREATE, None, 200 "text/event-stream",
        "listenMount", "A stream that notifies MCP clients when the list of tools, resources or prompts \
         changes.", listening::listen),
    route!(Get "/v1/tools", RUNS_READ, None, 200 JSON,
    "listTools", "Lists the available tools, ordered by id.", tools::list, [
        optional("source", "string", "Only tools from this source."),
        optional("view", "string", "`compact` returns only what is needed to choose a tool; the default is \
                  `standard`."),
        optional("cursor", "string", "The `nextCursor` of the previous page."),
    ]),
    route!(Get "/v1/tools/{toolId}", RUNS_READ, None, 200 JSON,
    "readTool", "Reads a tool.", tools::read, [
        optional("view", "string", "`compact` returns only what is needed to choose a tool; the default is \
                  `standard`."),
    ]),
    route!(Get "/v1/workflows", MANIFEST_READ, None, 200 JSON,
    "listWorkflows", "Lists the workflows of the tenant, ordered by id.", workflows::list, [
        optional("limit", "integer", "Page size, from 1 to 200; the default is 100."),
        optional("cursor", "string", "The `nextCursor` of the previous page."),
    ]),
    route!(Post "/v1/workflows", MANIFEST_WRITE, Workflow, 201 JSON,
        "registerWorkflow", "Registers a workflow, or a new version of one.", workflows::register),
    route!(Get "/v1/workflows/{workflowId}", MANIFEST_READ, None, 200 JSON,
        "readWorkflow", "Reads a registered workflow.", workflows::read),
    route!(Get "/v1/runs", RUNS_READ, None, 200 JSON,
    "listRuns", "Lists the runs of the tenant, newest first.", runs::list, [
        optional("status", "string", "Only runs with this status."),
        optional("workflowId", "string", "Only runs of this workflow."),
        optional("tag", "string", "Only runs with this tag."),
        optional("limit", "integer", "Page size, from 1 to 200; the default is 50."),
        optional("cursor", "string", "The `nextCursor` of the previous page."),
    ]),
    route!(Post "/v1/runs", RUNS_CREATE, Required, 201 JSON,
        "createRun", "Creates a run.", runs::create),
    route!(Get "/v1/runs/{runId}", RUNS_READ, None, 200 JSON,
        "readRun", "Reads a run, with an ETag that changes whenever the run does.", runs::read),
    route!(Post "/v1/runs/{runId}/cancel", RUNS_CANCEL, Optional, 200 JSON,
        "cancelRun", "Cancels a run.", control::cancel),
    route!(Post "/v1/runs/{runId}:cancel", RUNS_CANCEL, Optional, 200 JSON,
        "cancelRun", "Cancels a run. The same as `/cancel`.", control::cancel),
    route!(Post "/v1/runs/{runId}:pause", RUNS_CANCEL, Optional, 202 JSON,
        "pauseRun", "Pauses a run.", control::pause),
    route!(Post "/v1/runs/{runId}:resume", RUNS_CANCEL, Optional, 202 JSON,
        "resumeRun", "Resumes a paused run.", control::resume),
    route!(Post "/v1/runs:bulk-cancel", RUNS_CANCEL, Required, 200 JSON,
        "cancelRuns", "Cancels several runs.", control::bulk_cancel),
    route!(Post "/v1/runs/{runId}:fork", FORK, Required, 201 JSON,
        "forkRun", "Starts a new run from a point in the history of another.", history::fork),
    route!(Get "/v1/runs/{runId}:diff", RUNS_READ, None, 200 JSON,
    "compareRuns", "Compares a run with another.", runs::diff, [
        required("against", "string", "The id of the other run."),
    ]),
    route!(Get "/v1/runs/{runId}/ancestry", RUNS_READ, None, 200 JSON,
        "readAncestry", "Lists the runs that this run was forked or started from.", runs::ancestry),
    route!(Get "/v1/runs/{runId}/events", RUNS_READ, None, 200 "text/event-stream",
    "streamEvents", "Streams the events of a run. With `Accept: application/json`, returns the log so \
     far.", events::stream, [
        optional("streamMode", "string", "`values`, or a comma-separated list of `updates`, `messages` and \
                  `debug`. The default is `updates` for a stream, and the complete log for JSON."),
        optional("bufferMs", "integer", "Milliseconds for which events are collected into one frame, from \
                  0 to 5000."),
    ]),
    route!(Get "/v1/runs/{runId}/events/poll", RUNS_READ, None, 200 JSON,
    "pollEvents", "Waits for events after a sequence number and returns them.", poll::poll, [
        optional("lastSequence", "integer", "The sequence number of the last event that the client has."),
        optional("timeout", "integer", "Seconds to wait, from 0 to 60; the default is 30."),
        optional("limit", "integer", "The maximum number of events."),
    ]),
    route!(Get "/v1/runs/{runId}/annotations", RUNS_READ, None, 200 JSON,
        "listAnnotations", "Lists the annotations of a run.", history::annotations),
    route!(Post "/v1/runs/{runId}/annotations", ANNOTATE, Required, 201 JSON,
        "annotateRun", "Adds an annotation to a run.", history::annotate),
    route!(Get "/v1/runs/{runId}/debug-bundle", RUNS_READ, None, 200 JSON,
    "readDebugBundle", "Exports a run for debugging, without secrets.", history::bundle, [
        optional("maxEvents", "integer", "The maximum number of events."),
    ]),
    route!(Get "/v1/runs/{runId}/artifacts/{artifactId}", ARTIFACTS_READ, None, 200 JSON,
        "readArtifact", "Reads an artifact of a run.", runs::artifact),
    route!(Post "/v1/runs/{runId}/interrupts/{nodeId}", APPROVALS_RESPOND, Required, 200 JSON,
        "resolveInterrupt", "Resolves the interrupt of a node.", interrupts::resolve),
    route!(Get "/v1/runs/{runId}/interrupts/{nodeId}", APPROVALS_RESPOND, None, 200 JSON,
        "inspectInterrupt", "Reads the interrupt of a node, and how an agent connects to it.", interrupts::inspect),
    route!(Post "/v1/runs/{runId}/approvals/{nodeId}", APPROVALS_RESPOND, Required, 200 JSON,
        "approve", "Resolves the interrupt of a node with the request body as the answer.", interrupts::approve),
    route!(Get "/v1/interrupts/{token}", Access::Token, None, 200 JSON,
        "inspectToken", "Reads the interrupt of a token.", interrupts::inspect_token),
    route!(Post "/v1/interrupts/{token}", Access::Token, TokenAnswer, 200 JSON,
        "resolveToken", "Resolves the interrupt of a token.", interrupts::resolve_token),
    route!(Get "/v1/webhooks", WEBHOOKS_MANAGE, None, 200 JSON,
        "listWebhooks", "Lists the webhooks of the tenant.", webhooks::list),
    route!(Post "/v1/webhooks", WEBHOOKS_MANAGE, Required, 201 JSON,
        "registerWebhook", "Registers a webhook.", webhooks::register),
    route!(Delete "/v1/webhooks/{webhookId}", WEBHOOKS_MANAGE, None, 204 "",
    "deleteWebhook", "Deletes a webhook.", webhooks::delete, [
        optional("tenantId", "string", "Must be the tenant of the key if it is given."),
    ]),
    route!(Post "/v1/webhooks/{webhookId}/rotate-secret", WEBHOOKS_MANAGE, Required, 200 JSON,
    "rotateWebhookSecret", "Replaces the secret of a webhook that is signed with Standard Webhooks.", webhooks::rotate_secret, [
        optional("tenantId", "string", "Must be the tenant of the key if it is given."),
    ]),
    route!(Get "/v1/webhooks/{webhookId}/dead-letters", WEBHOOKS_MANAGE, None, 200 JSON,
    "listDeadLetters", "Lists the failed deliveries of a webhook, newest first.", webhooks::dead_letters, [
        optional("limit", "integer", "The maximum number, from 1 to 1000; the default is 100."),
    ]),
    route!(Post "/v1/webhooks/{webhookId}/dead-letters/{deliveryId}:redeliver", WEBHOOKS_MANAGE, Optional, 202 JSON,
        "redeliver", "Queues a failed delivery again.", webhooks::redeliver),
    route!(Get "/v1/blobs/{token}", Access::Token, None, 200 "application/octet-stream",
        "readBlob", "Reads an object with a presigned URL.", surfaces::blob),
    route!(Put "/v1/blobs/{token}", Access::Token, Object, 200 JSON,
        "writeBlob", "Stores an object with a presigned URL.", surfaces::put_blob),
    route!(Get "/v1/audit/verify", AUDIT_READ, None, 200 JSON,
    "verifyAuditLog", "Verifies the hash chain of the audit log.", history::verify, [
        optional("fromSeq", "integer", "The first entry to verify; the default is 0."),
        optional("toSeq", "integer", "The last entry to verify; the default is the newest."),
    ]),
    // Packs: the registry, and installed packs.
    route!(Get "/.well-known/openwop-registry", Access::Public, None, 200 JSON,
        "discoverRegistry", "The capabilities of the pack registry of this host.", registry::well_known),
    route!(Get "/.well-known/openwop-registry.json", Access::Public, None, 200 JSON,
        "discoverRegistry", "The capabilities of the pack registry of this host. The same as without \
         `.json`.", registry::well_known),
    route!(Get "/keys/{keyId}.pub", Access::Public, None, 200 "application/x-pem-file",
        "readPackKey", "Reads a public key that signed packs, as PEM.", registry::public_key),
    route!(Get "/v1/index.json", Access::Offered, None, 200 JSON,
        "readRegistryIndex", "Lists every published pack.", registry::index),
    route!(Get "/v1/packs", MANIFEST_READ, None, 200 JSON,
        "listPacks", "Lists the installed packs with their agents.", packs::list),
    route!(Get "/v1/packs/export", MANIFEST_READ, None, 200 JSON,
        "exportPacks", "Exports the manifests of the installed packs.", packs::export),
    route!(Get "/v1/packs/-/search", Access::Offered, None, 200 JSON,
    "searchPacks", "Searches the published packs.", registry::search, [
        optional("q", "string", "Words that all must occur in the name, description or keywords."),
    ]),
    route!(Get "/v1/packs/-/by-type/{typeId}", Access::Offered, None, 200 JSON,
        "findPacksByType", "Lists the packs that contain a node type, chain or template.", registry::by_type),
    route!(Get "/v1/packs/{name}", Access::Offered, None, 200 JSON,
        "readPack", "Reads the metadata of a pack.", registry::metadata),
    route!(Get "/v1/packs/{name}/index.json", Access::Offered, None, 200 JSON,
        "readPack", "Reads the metadata of a pack. The same as without `/index.json`.", registry::metadata),
    route!(Get "/v1/packs/{name}/-/{version}.json", Access::Offered, None, 200 JSON,
        "readPackManifest", "Reads the manifest of a version.", registry::manifest),
    route!(Get "/v1/packs/{name}/-/{version}.tgz", Access::Offered, None, 200 "application/tar+gzip",
        "readPackArchive", "Downloads the archive of a version.", registry::archive),
    route!(Put "/v1/packs/{name}/-/{version}.tgz", PACKS_PUBLISH, Archive, 201 JSON,
        "publishPack", "Publishes a version.", registry::publish),
    route!(Get "/v1/packs/{name}/-/{version}.sig", Access::Offered, None, 200 "application/octet-stream",
        "readPackSignature", "Downloads the signature of a version.", registry::signature),
    route!(Delete "/v1/packs/{name}/-/{version}", PACKS_PUBLISH, None, 204 "",
        "unpublishPack", "Unpublishes a version within 72 hours of its publication.", registry::unpublish),
    route!(Post "/v1/packs/{name}/-/{version}/deprecate", PACKS_PUBLISH, Optional, 200 JSON,
        "deprecatePack", "Marks a version as deprecated.", registry::deprecate),
    route!(Delete "/v1/packs/{name}/-/{version}/deprecate", PACKS_PUBLISH, None, 200 JSON,
        "undeprecatePack", "Removes the deprecation of a version.", registry::undeprecate),
    route!(Post "/v1/packs/{name}/-/{version}/yank", PACKS_YANK, Optional, 200 JSON,
        "yankPack", "Yanks a version: version ranges no longer resolve to it.", registry::yank),
    route!(Delete "/v1/packs/{name}/-/{version}/yank", PACKS_YANK_REVERT, None, 200 JSON,
        "unyankPack", "Undoes the yank of a version.", registry::unyank),
    route!(Get "/v1/packs/{name}/-/keychain", Access::Offered, None, 200 JSON,
        "readPackKeys", "Lists the signing keys of a pack, oldest first.", registry::keychain),
    route!(Post "/v1/packs/{name}/-/keychain/rotate", PACKS_PUBLISH, Required, 200 JSON,
        "rotatePackKey", "Rotates the signing key; the previous key signs the new one.", registry::rotate),
    route!(Get "/v1/agents", RUNS_READ, None, 200 JSON,
        "listAgents", "Lists the agents of the installed packs.", packs::agents),
    route!(Get "/v1/agents/{agentId}", RUNS_READ, None, 200 JSON,
        "readAgent", "Reads an agent, without its prompt.", packs::agent),
];

/// The pack catalogue for tests: the same operations on a separate catalogue.
static TEST_PACKS: &[Route] = &[
    route!(Get "/v1/packs-test/{name}", MANIFEST_READ, None, 200 JSON,
        "readTestPack", "Reads the metadata of a test pack.", registry::tests_of::metadata),
    route!(Get "/v1/packs-test/{name}/-/{version}.json", MANIFEST_READ, None, 200 JSON,
        "readTestPackManifest", "Reads the manifest of a version.", registry::tests_of::manifest),
    route!(Get "/v1/packs-test/{name}/-/{version}.tgz", MANIFEST_READ, None, 200 "application/tar+gzip",
        "readTestPackArchive", "Downloads the archive of a version.", registry::tests_of::archive),
    route!(Put "/v1/packs-test/{name}/-/{version}.tgz", PACKS_PUBLISH, Archive, 201 JSON,
        "publishTestPack", "Publishes a test version.", registry::tests_of::publish),
    route!(Get "/v1/packs-test/{name}/-/{version}.sig", MANIFEST_READ, None, 200 "application/octet-stream",
        "readTestPackSignature", "Downloads the signature of a version.", registry::tests_of::signature),
    route!(Delete "/v1/packs-test/{name}/-/{version}", PACKS_PUBLISH, None, 204 "",
        "unpublishTestPack", "Unpublishes a version.", registry::tests_of::unpublish),
    route!(Post "/v1/packs-test/{name}/-/{version}/deprecate", PACKS_PUBLISH, Optional, 200 JSON,
        "deprecateTestPack", "Marks a version as deprecated.", registry::tests_of::deprecate),
    route!(Delete "/v1/packs-test/{name}/-/{version}/deprecate", PACKS_PUBLISH, None, 200 JSON,
        "undeprecateTestPack", "Removes the deprecation of a version.", registry::tests_of::undeprecate),
    route!(Post "/v1/packs-test/{name}/-/{version}/yank", PACKS_YANK, Optional, 200 JSON,
        "yankTestPack", "Yanks a version: version ranges no longer resolve to it.", registry::tests_of::yank),
    route!(Delete "/v1/packs-test/{name}/-/{version}/yank", PACKS_YANK_REVERT, None, 200 JSON,
        "unyankTestPack", "Undoes the yank of a version.", registry::tests_of::unyank),
    route!(Get "/v1/packs-test/{name}/-/keychain", MANIFEST_READ, None, 200 JSON,
        "readTestPackKeys", "Lists the signing keys of a pack.", registry::tests_of::keychain),
    route!(Post "/v1/packs-test/{name}/-/keychain/rotate", PACKS_PUBLISH, Required, 200 JSON,
        "rotateTestPackKey", "Rotates the signing key.", registry::tests_of::rotate),
    route!(Post "/v1/packs-test/reset", PACKS_PUBLISH, Optional, 200 JSON,
        "resetTestPacks", "Deletes every test pack.", registry::tests_of::reset),
];

/// The seams, which exist only if the host was started for conformance suites.
static SEAMS: &[Route] = &[
    route!(Post "/v1/host/sample/workflows", MANIFEST_WRITE, Workflow, 201 JSON,
        "seedWorkflow", "Registers a workflow, in full or in the short form of the conformance suite.", sample_workflows::register),
    route!(Post "/v1/host/sample/mcp", RUNS_CREATE, Message, 200 JSON,
        "callSampleMount", "The same as `/v1/mcp`.", mount::answer),
    route!(Get "/v1/host/sample/test/runs/{runId}/events", RUNS_READ, None, 200 JSON,
    "readRecordedEvents", "Lists the recorded events of a run and those of the test operations.", seams::events, [
        optional("type", "string", "Only events of this type."),
        optional("nodeId", "string", "Only events of this node."),
        optional("causationId", "string", "Only events with this causation id."),
        optional("correlationId", "string", "Only events of the envelope with this correlation id."),
    ]),
    route!(Get "/v1/host/sample/test/otel/spans", RUNS_READ, None, 200 JSON,
    "readSpans", "Lists the trace spans of a finished run and those of envelopes.", seams::spans, [
        required("runId", "string", "The run."),
    ]),
    route!(Post "/v1/host/sample/test/capability-toggle", ADMIN, Required, 200 JSON,
        "toggleCapability", "Turns a capability of the host off or on.", toggles::toggle),
    route!(Get "/v1/host/sample/test/runs/{runId}/variables", RUNS_READ, None, 200 JSON,
        "readVariables", "Reads the variables of a run.", seams::variables),
    route!(Post "/v1/host/sample/test/runs/{runId}/variables", RUNS_CREATE, Required, 200 JSON,
        "setVariables", "Changes variables of a run.", seams::set_variables),
    route!(Post "/v1/host/sample/test/debug-bundle/export", RUNS_READ, Required, 200 JSON,
        "exportDebugBundle", "Exports the debug bundle of a run.", seams::bundle),
    route!(Post "/v1/host/sample/dispatch/fanout", FAN_OUT, Required, 200 JSON,
        "fanOut", "Starts child runs that do nothing and joins them.", seams::fan_out),
    route!(Post "/v1/host/sample/test/surface", ADMIN, Required, 200 JSON,
        "callSurface", "Calls one operation of a surface, for any tenant.", surfaces::call),
    route!(Post "/v1/host/sample/fs/read", ADMIN, Required, 200 JSON,
        "readSurfaceFile", "Reads a file of a tenant.", surfaces::read_file),
    route!(Post "/v1/host/sample/ui-plugin/rpc", RUNS_READ, Required, 200 JSON,
        "callAsPlugin", "Handles a message of `ui-plugin/1` as if a plugin sent it.", plugins::rpc),
    route!(Get "/v1/host/sample/blob/presigned/{token}", Access::Token, None, 200 "application/octet-stream",
        "readBlob", "Reads an object with a presigned URL. The same as `/v1/blobs`.", surfaces::blob),
    // Models, the sandbox, chains.
    route!(Post "/v1/host/sample/test/reset", ADMIN, Optional, 200 JSON,
        "resetSeams", "Resets the state of the test operations.", models::reset),
    route!(Post "/v1/host/sample/test/mock-ai/program", ADMIN, Required, 200 JSON,
        "programMock", "Programs the replies of the mock model for a node.", models::program),
    route!(Get "/v1/host/sample/test/mock-ai/last-dispatch-budget", ADMIN, None, 200 JSON,
    "readMockBudget", "Reads the token budget of the last call of a node.", models::last_budget, [
        required("nodeId", "string", "The node."),
    ]),
    route!(Post "/v1/host/sample/envelope/accept", ADMIN, Required, 200 JSON,
        "acceptEnvelope", "Processes an envelope and returns the result.", envelopes::accept_envelope),
    route!(Post "/v1/host/sample/prompt/compose", ADMIN, Required, 200 JSON,
        "composePrompt", "Renders a prompt template with values.", prompts::composed),
    route!(Post "/v1/host/sample/prompt/resolve", ADMIN, Required, 200 JSON,
        "resolvePrompt", "Resolves the prompt template of a node, with the chain of candidates.", prompts::resolved),
    route!(Post "/v1/host/sample/test/llm-prompt-wrap", ADMIN, Required, 200 JSON,
        "wrapForPrompt", "Wraps an untrusted payload for a prompt.", models::wrap),
    route!(Post "/v1/host/sample/test/emit-envelope-reliability", ADMIN, Required, 200 JSON,
        "checkReliabilityEvent", "Validates an event about envelope reliability.", models::emit_reliability),
    route!(Post "/v1/host/sample/test/emit-provider-usage", ADMIN, Required, 200 JSON,
        "checkUsageEvent", "Validates an event about provider usage.", models::emit_usage),
    route!(Post "/v1/host/sample/test/evaluate-model-capability-gate", ADMIN, Required, 200 JSON,
        "evaluateModelGate", "Evaluates the capability gate that selects a model.", models::evaluate_gate),
    route!(Post "/v1/host/sample/test/llm-cache-key", ADMIN, Required, 200 JSON,
        "readCacheKey", "Computes the cache key of a model request.", models::key_of),
    route!(Post "/v1/host/sample/test/sandbox-load", ADMIN, Required, 200 JSON,
        "loadSandboxed", "Loads a pack that tests the sandbox.", sandboxed::load),
    route!(Post "/v1/host/sample/test/sandbox-invoke", ADMIN, Required, 200 JSON,
        "invokeSandboxed", "Runs a module that tests the sandbox.", sandboxed::invoke),
    route!(Post "/v1/host/sample/packs/install-gate", ADMIN, Required, 200 JSON,
        "judgeInstall", "Checks whether a pack can be installed.", sandboxed::install_gate),
    route!(Post "/v1/host/sample/workflow-chain:expand", ADMIN, Required, 200 JSON,
        "expandChain", "Expands a chain to its nodes and edges.", chains::expand),
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

pub(super) fn served(gates: Gates) -> impl Iterator<Item = &'static Route> {
    let seams = if gates.seams { SEAMS } else { &[] };
    ALL.iter().chain(if gates.test_packs { TEST_PACKS } else { &[] }).chain(seams)
}

pub(super) fn of(path: &str) -> impl Iterator<Item = &'static Route> {
    served(Gates::ALL).filter(move |route| route.path == path)
}

/// The routes of version 1 that are the twins of those of a path of version 2.
pub(super) fn of_v2(path: &str) -> impl Iterator<Item = &'static Route> {
    served(Gates::ALL).filter(move |route| route.path.strip_prefix("/v1") == Some(path))
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
    fn the_routes_of_a_path_are_adjacent_and_each_method_is_unique() {
        let mut paths: Vec<&str> = served(Gates::ALL).map(|route| route.path).collect();
        paths.dedup();
        let distinct: BTreeSet<&str> = paths.iter().copied().collect();
        assert_eq!(paths.len(), distinct.len());
        let methods: BTreeSet<_> =
            served(Gates::ALL).map(|route| (route.path, route.method.as_str())).collect();
        assert_eq!(methods.len(), served(Gates::ALL).count());
    }
}
