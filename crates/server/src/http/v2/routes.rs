//! The operations of version 2. Those with a handler of version 1 and the same shapes name it directly.

use openwop::Major;
use runs::Scope;

use super::super::handlers::{events, packs, poll, workflows};
use super::super::route::{Access, Body, Method, Parameter, Route};
use super::{discovery, effects, openapi, operations, seams};

const JSON: &str = "application/json";

const MANIFEST_READ: Access = Access::Key(&[Scope::ManifestRead]);
const RUNS_CREATE: Access = Access::Key(&[Scope::RunsCreate]);
const RUNS_READ: Access = Access::Key(&[Scope::RunsRead]);
const RUNS_CANCEL: Access = Access::Key(&[Scope::RunsCancel]);
const ARTIFACTS_READ: Access = Access::Key(&[Scope::ArtifactsRead]);
const APPROVALS_RESPOND: Access = Access::Key(&[Scope::ApprovalsRespond]);
const WEBHOOKS_MANAGE: Access = Access::Key(&[Scope::WebhooksManage]);
const AUDIT_READ: Access = Access::Key(&[Scope::AuditRead]);
const FORK: Access = Access::Key(&[Scope::RunsCreate, Scope::RunsRead]);
const ANNOTATE: Access = Access::Either(Scope::RunsAnnotate, Scope::RunsCreate);
/// Any caller with a key.
const AUTHENTICATED: Access = Access::Key(&[]);

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
            major: Major::V2,
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

/// The table. Literal paths come before those with a parameter in the same place.
pub(super) static ROUTES: &[Route] = &[
    route!(Get "/.well-known/openwop", Access::Public, None, 200 JSON,
        "getCapabilities", "The capabilities of this host.", discovery::answer),
    route!(Get "/openapi.json", Access::Public, None, 200 JSON,
        "getOpenApiSpec", "This document.", openapi::answer),
    route!(Get "/workflows/{workflowId}", MANIFEST_READ, None, 200 JSON,
        "getWorkflow", "A workflow as it was registered.", workflows::read),
    route!(Get "/runs", RUNS_READ, None, 200 JSON,
    "listRuns", "The runs of the tenant, newest first.", operations::list, [
        optional("status", "string", "Only runs with this status."),
        optional("workflowId", "string", "Only runs of this workflow."),
        optional("limit", "integer", "The maximum number of runs, from 1 to 200; 50 by default."),
        optional("cursor", "string", "The `nextCursor` of the previous page."),
    ]),
    route!(Post "/runs", RUNS_CREATE, Required, 201 JSON,
        "createRun", "Creates a run.", operations::create),
    route!(Post "/runs:bulk-cancel", RUNS_CANCEL, Required, 200 JSON,
        "bulkCancelRuns", "Cancels several runs.", operations::bulk_cancel),
    route!(Post "/runs/{runId}:pause", RUNS_CANCEL, Optional, 202 JSON,
        "pauseRun", "Pauses a run.", operations::pause),
    route!(Post "/runs/{runId}:resume", RUNS_CANCEL, Optional, 202 JSON,
        "resumeRun", "Resumes a paused run.", operations::resume),
    route!(Post "/runs/{runId}:fork", FORK, Required, 201 JSON,
        "forkRun", "Creates a run from a point of another run.", operations::fork),
    route!(Get "/runs/{runId}:diff", RUNS_READ, None, 200 JSON,
    "diffRun", "Compares two runs.", operations::diff, [
        required("against", "string", "The id of the other run."),
    ]),
    route!(Get "/runs/{runId}", RUNS_READ, None, 200 JSON,
        "getRun", "A run.", operations::read),
    route!(Post "/runs/{runId}/cancel", RUNS_CANCEL, Optional, 200 JSON,
        "cancelRun", "Cancels a run.", operations::cancel),
    route!(Get "/runs/{runId}/ancestry", RUNS_READ, None, 200 JSON,
        "getRunAncestry", "The run that started this one.", operations::ancestry),
    route!(Get "/runs/{runId}/events", RUNS_READ, None, 200 "text/event-stream",
    "streamRunEvents", "The events of a run as a live stream.", events::stream, [
        optional("streamMode", "string", "`values`, or a list of `updates`, `messages` and `debug`; `updates` by default."),
        optional("bufferMs", "integer", "How long events are gathered into one frame, from 0 to 5000."),
    ]),
    route!(Get "/runs/{runId}/events/poll", RUNS_READ, None, 200 JSON,
    "pollRunEvents", "The events after a sequence, as soon as there are some.", poll::poll, [
        optional("afterSequence", "integer", "The sequence of the last event that the client has."),
        optional("timeout", "integer", "How many seconds to wait, from 1 to 60; 30 by default."),
    ]),
    route!(Get "/runs/{runId}/effects", RUNS_READ, None, 200 JSON,
    "getRunEffects", "What a run did outside of itself, one row for each attempt.", effects::answer, [
        optional("limit", "integer", "The maximum number of rows, from 1 to 1000; 10,000 by default. The `Link` header names the next page."),
        optional("cursor", "string", "Where the page begins, from the `Link` header of the previous page."),
    ]),
    route!(Get "/runs/{runId}/annotations", RUNS_READ, None, 200 JSON,
        "listAnnotations", "The annotations of a run.", operations::annotations),
    route!(Post "/runs/{runId}/annotations", ANNOTATE, Required, 201 JSON,
        "createAnnotation", "Annotates a run.", operations::annotate),
    route!(Get "/runs/{runId}/artifacts/{artifactId}", ARTIFACTS_READ, None, 200 JSON,
        "getArtifact", "An artifact of a run.", operations::artifact),
    route!(Post "/runs/{runId}/interrupts/{nodeId}", APPROVALS_RESPOND, Required, 200 JSON,
        "resolveInterruptByRun", "Resolves the interrupt of a node.", operations::resolve),
    route!(Get "/interrupts/{token}", Access::Token, None, 200 JSON,
        "inspectInterruptByToken", "The interrupt of a token.", operations::inspect_token),
    route!(Post "/interrupts/{token}", Access::Token, TokenAnswer, 200 JSON,
        "resolveInterruptByToken", "Resolves the interrupt of a token.", operations::resolve_token),
    route!(Post "/webhooks", WEBHOOKS_MANAGE, Required, 201 JSON,
        "registerWebhook", "Subscribes to events.", operations::register_webhook),
    route!(Delete "/webhooks/{webhookId}", WEBHOOKS_MANAGE, None, 204 "",
        "unregisterWebhook", "Deletes a subscription.", operations::unregister_webhook),
    route!(Post "/webhooks/{webhookId}/rotate-secret", WEBHOOKS_MANAGE, Required, 200 JSON,
        "rotateWebhookSecret", "Replaces the secret of a subscription.", operations::rotate_secret),
    route!(Get "/webhooks/{webhookId}/dead-letters", WEBHOOKS_MANAGE, None, 200 JSON,
    "listWebhookDeadLetters", "The deliveries of a subscription that were given up, newest first.", operations::dead_letters, [
        optional("limit", "integer", "The maximum number of deliveries, from 1 to 1000; 100 by default."),
    ]),
    route!(Get "/audit/verify", AUDIT_READ, None, 200 JSON,
    "verifyAuditLog", "Verifies the audit log.", operations::verify, [
        required("fromSeq", "integer", "The first entry."),
        required("toSeq", "integer", "The last entry."),
    ]),
    route!(Get "/agents", RUNS_READ, None, 200 JSON,
        "listAgents", "The agents of the installed packs.", packs::agents),
    route!(Get "/agents/{agentId}", RUNS_READ, None, 200 JSON,
        "getAgent", "An agent, without its prompt.", packs::agent),
    route!(Get "/tools", RUNS_READ, None, 200 JSON,
    "listTools", "The tools of the tenant, sorted by id.", operations::tools, [
        optional("source", "string", "Only tools of this source: `workflow` or `mcp`."),
        optional("view", "string", "`compact`, or `standard` by default."),
    ]),
    route!(Get "/tools/{toolId}", RUNS_READ, None, 200 JSON,
        "getTool", "A tool.", operations::tool),
    route!(Get "/host/effect-seams", AUTHENTICATED, None, 200 JSON,
        "getEffectSeamManifest", "Where this host has effects outside of itself, and how each is guarded.", seams::answer),
];

/// The operations of the protocol that this host does not serve. They answer 404, and their paths belong to the protocol.
pub(super) const NOT_SERVED: [(&str, &str); 36] = [
    ("GET", "/runs/{runId}/compensation"),
    ("GET", "/runs/{runId}/eval-summary"),
    ("GET", "/host/events"),
    ("POST", "/host/events/test"),
    ("POST", "/trigger-subscriptions"),
    ("GET", "/trigger-subscriptions/{subscriptionId}/dead-letters"),
    ("GET", "/prompts"),
    ("POST", "/prompts"),
    ("GET", "/prompts/{templateId}"),
    ("PUT", "/prompts/{templateId}"),
    ("DELETE", "/prompts/{templateId}"),
    ("POST", "/prompts:render"),
    ("GET", "/agents/{agentId}/deployments"),
    ("POST", "/agents/{agentId}/deployments"),
    ("GET", "/agents/roster"),
    ("GET", "/agents/roster/{rosterId}"),
    ("GET", "/agents/org-chart"),
    ("GET", "/agents/org-chart/{departmentId}"),
    ("GET", "/content/pages"),
    ("POST", "/content/pages"),
    ("GET", "/content/pages/{slug}"),
    ("DELETE", "/content/pages/{slug}"),
    ("PUT", "/content/pages/{pageId}/sections/{sectionId}"),
    ("GET", "/content/settings"),
    ("PUT", "/content/settings"),
    ("GET", "/proposals"),
    ("POST", "/proposals"),
    ("GET", "/proposals/{proposalId}"),
    ("PATCH", "/proposals/{proposalId}"),
    ("DELETE", "/proposals/{proposalId}"),
    ("POST", "/proposals/{proposalId}:apply"),
    ("POST", "/proposals/{proposalId}:reject"),
    ("GET", "/connection-providers"),
    ("GET", "/connection-providers/{providerId}"),
    ("GET", "/host/ui-plugins/{packName}/{pluginId}/frame"),
    ("POST", "/host/ui-plugins/{packName}/{pluginId}/rpc"),
];

#[cfg(test)]
mod tests {
    use super::super::super::routes::{Gates, served};
    use super::*;

    /// No partial advertisement: whatever the protocol has in both versions is served in both, with the same method and access.
    #[test]
    fn v2_advertised_path_space_served() {
        // Version 1 has no such operation, or another path for it.
        let is_alone =
            |path| matches!(path, "/.well-known/openwop" | "/host/effect-seams" | "/runs/{runId}/effects");
        for route in ROUTES.iter().filter(|route| !is_alone(route.path)) {
            let twin = served(Gates::ALL)
                .find(|twin| twin.path == format!("/v1{}", route.path) && twin.method == route.method);
            let twin = twin.unwrap_or_else(|| panic!("{} has no twin in version 1", route.path));
            assert_eq!(
                (twin.access, twin.body, twin.success),
                (route.access, route.body, route.success),
                "{}",
                route.path
            );
        }
    }

    #[test]
    fn no_operation_is_both_served_and_not() {
        for route in ROUTES {
            assert!(!NOT_SERVED.contains(&(route.method.as_str(), route.path)), "{}", route.path);
        }
    }
}
