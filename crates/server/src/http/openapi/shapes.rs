//! The bodies and statuses of each operation, which its row in the route table does not have.

use super::super::bodies::annotations::{Annotate, Annotation, Annotations};
use super::super::bodies::history::{Ancestry, Difference, Verified};
use super::super::bodies::interrupts::{Inspected, Resolution, ResolvedInterrupt};
use super::super::bodies::packs::{Deprecate, Nothing, RotateKey};
use super::super::bodies::runs::{
    Assigned, Because, CancelRuns, Cancelled, CreateRun, Created, ForkRun, Forked, PauseRun, Paused, Results,
    Resumed, RunReference, SetVariables,
};
use super::super::bodies::webhooks::{
    DeadLetters, Requeued, Rotate, Rotated, Subscribe, Subscribed, Webhooks,
};
use super::super::bodies::workflows::{Registered, Workflows};
use super::super::route::{Access, Body, Method, Route};
use super::source::Source;

/// The bodies of an operation, and its statuses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    pub(super) request: Option<Source>,
    /// The body of a reply, if it is JSON.
    pub(super) answer: Option<Source>,
    /// Whether the reply may be an event stream instead.
    pub(super) streams: bool,
    /// Further success statuses.
    pub(super) also: &'static [u16],
    /// Error statuses specific to the operation.
    refusals: &'static [u16],
    /// The schema of its errors, if it is not the error envelope of the protocol.
    pub(super) trouble: Option<Source>,
    /// The request headers that it reads, by name.
    pub(super) headers: &'static [&'static str],
}

/// The shape of an operation; `None` if it is unknown.
pub(super) fn of(operation: &str) -> Option<Shape> {
    let typed = |request: Option<Source>, answer: Option<Source>, refusals: &'static [u16]| Shape {
        request,
        answer,
        refusals,
        ..Shape::default()
    };
    // By the names of documents; an empty name means none.
    let shape = |request: &'static str, answer: &'static str, refusals: &'static [u16]| {
        let named = |name: &'static str| (!name.is_empty()).then_some(Source::Document(name));
        typed(named(request), named(answer), refusals)
    };
    let document = |name: &'static str| Some(Source::Document(name));
    Some(match operation {
        "discover" => {
            Shape { also: &[304], headers: &["If-None-Match"], ..shape("", "Capabilities", &[406]) }
        }
        "readHealth" => shape("", "Health", &[]),
        "readReadiness" => shape("", "Health", &[503]),
        "readMetrics" => shape("", "", &[]),
        "listTools" => shape("", "Tools", &[]),
        "readTool" => shape("", "Tool", &[404]),
        "listWorkflows" => typed(None, Some(Source::of::<Workflows>()), &[]),
        "registerWorkflow" | "seedWorkflow" => {
            Shape { also: &[200], ..typed(document("Workflow"), Some(Source::of::<Registered>()), &[409]) }
        }
        "readWorkflow" => shape("", "Workflow", &[404]),
        "listRuns" => shape("", "Runs", &[400]),
        "createRun" => Shape {
            headers: &["X-Dedup", "X-Force-Engine-Version"],
            ..typed(Some(Source::of::<CreateRun>()), Some(Source::of::<Created<'_>>()), &[404, 409])
        },
        "readRun" => Shape { also: &[304], headers: &["If-None-Match"], ..shape("", "Run", &[404]) },
        "cancelRun" => typed(Some(Source::of::<Because>()), Some(Source::of::<Cancelled<'_>>()), &[404, 409]),
        "resumeRun" => typed(Some(Source::of::<Because>()), Some(Source::of::<Resumed<'_>>()), &[404, 409]),
        "pauseRun" => typed(Some(Source::of::<PauseRun>()), Some(Source::of::<Paused<'_>>()), &[404, 409]),
        "cancelRuns" => typed(Some(Source::of::<CancelRuns>()), Some(Source::of::<Results>()), &[409]),
        "forkRun" => typed(Some(Source::of::<ForkRun>()), Some(Source::of::<Forked<'_>>()), &[404, 409, 422]),
        "compareRuns" => typed(None, Some(Source::of::<Difference<'_>>()), &[404]),
        "readAncestry" => typed(None, Some(Source::of::<Ancestry<'_>>()), &[404]),
        "streamEvents" => Shape { headers: &["Last-Event-ID"], ..shape("", "Events", &[404]) },
        "pollEvents" | "readRecordedEvents" => shape("", "Events", &[404]),
        "listAnnotations" => typed(None, Some(Source::of::<Annotations>()), &[404]),
        "annotateRun" => typed(Some(Source::of::<Annotate>()), Some(Source::of::<Annotation>()), &[404, 409]),
        "readDebugBundle" => shape("", "Bundle", &[404]),
        "exportDebugBundle" => typed(Some(Source::of::<RunReference>()), document("Bundle"), &[404]),
        "resolveInterrupt" => typed(
            Some(Source::of::<Resolution>()),
            Some(Source::of::<ResolvedInterrupt<'_>>()),
            &[404, 409, 410, 422],
        ),
        "approve" => {
            typed(document("Document"), Some(Source::of::<ResolvedInterrupt<'_>>()), &[404, 409, 410, 422])
        }
        "inspectInterrupt" => shape("", "Interrupt", &[404, 409, 410]),
        "inspectToken" => typed(None, Some(Source::of::<Inspected<'_>>()), &[404, 409, 410]),
        "resolveToken" => typed(
            Some(Source::of::<Resolution>()),
            Some(Source::of::<ResolvedInterrupt<'_>>()),
            &[403, 404, 409, 410, 422],
        ),
        "listWebhooks" => typed(None, Some(Source::of::<Webhooks>()), &[]),
        "registerWebhook" => {
            typed(Some(Source::of::<Subscribe>()), Some(Source::of::<Subscribed<'_>>()), &[409])
        }
        "rotateWebhookSecret" => {
            typed(Some(Source::of::<Rotate>()), Some(Source::of::<Rotated>()), &[404, 409])
        }
        "listDeadLetters" => typed(None, Some(Source::of::<DeadLetters>()), &[404]),
        "redeliver" => typed(Some(Source::of::<Nothing>()), Some(Source::of::<Requeued<'_>>()), &[404, 409]),
        "verifyAuditLog" => typed(None, Some(Source::of::<Verified>()), &[]),
        "callMount" | "callSampleMount" => Shape {
            also: &[202],
            streams: true,
            headers: &["Mcp-Session-Id", "MCP-Protocol-Version"],
            ..shape("Message", "Document", &[404])
        },
        "listenMount" => Shape { headers: &["MCP-Protocol-Version"], ..shape("", "", &[404]) },
        "callMcp" => Shape { also: &[202], ..shape("Message", "Document", &[404, 406]) },
        "setVariables" => {
            typed(Some(Source::of::<SetVariables>()), Some(Source::of::<Assigned<'_>>()), &[404, 409, 422])
        }
        "readBlob" => shape("", "", &[403, 404]),
        "writeBlob" => shape("", "Document", &[403, 404, 413]),
        "callSurface" => Shape { trouble: document("SeamError"), ..shape("SurfaceCall", "Document", &[404]) },
        "readSurfaceFile" => {
            Shape { trouble: document("SeamError"), ..shape("SurfaceFile", "Document", &[]) }
        }
        "callAsPlugin" => shape("PluginCall", "Document", &[404]),
        "fanOut" => shape("FanOut", "Document", &[404, 409]),
        // Packs: the registry and installed packs.
        "readOpenApi" | "discoverRegistry" | "readRegistryIndex" | "searchPacks" | "findPacksByType"
        | "exportPacks" => shape("", "Document", &[]),
        "listPacks" => shape("", "Packs", &[]),
        "listAgents" => shape("", "Agents", &[404]),
        "readAgent" => shape("", "Agent", &[404]),
        "readPack" | "readTestPack" => shape("", "Pack", &[404]),
        "readPackManifest" | "readTestPackManifest" => shape("", "PackManifest", &[404]),
        "readPackKey"
        | "readPackArchive"
        | "readTestPackArchive"
        | "readPackSignature"
        | "readTestPackSignature"
        | "deleteWebhook"
        | "unpublishPack"
        | "unpublishTestPack" => shape("", "", &[404]),
        "publishPack" | "publishTestPack" => Shape {
            also: &[200],
            headers: &["X-Pack-Sha256", "X-Pack-Signing-Method"],
            ..shape("", "PublishedPack", &[409])
        },
        "deprecatePack" | "deprecateTestPack" => {
            typed(Some(Source::of::<Deprecate>()), document("Document"), &[404, 409])
        }
        "yankPack" | "yankTestPack" => {
            typed(Some(Source::of::<Because>()), document("Document"), &[404, 409])
        }
        "readArtifact"
        | "readEnvelopeSchema"
        | "readVariables"
        | "readSpans"
        | "undeprecatePack"
        | "undeprecateTestPack"
        | "unyankPack"
        | "unyankTestPack"
        | "readPackKeys"
        | "readTestPackKeys" => shape("", "Document", &[404]),
        "rotatePackKey" | "rotateTestPackKey" => {
            typed(Some(Source::of::<RotateKey>()), document("Document"), &[404, 409])
        }
        // Models, the sandbox, chains.
        "resetSeams" | "resetTestPacks" => typed(Some(Source::of::<Nothing>()), document("Document"), &[]),
        "readMockBudget" => Shape { trouble: document("SeamError"), ..shape("", "Document", &[404]) },
        "programMock"
        | "acceptEnvelope"
        | "wrapForPrompt"
        | "checkReliabilityEvent"
        | "checkUsageEvent"
        | "evaluateModelGate"
        | "readCacheKey"
        | "composePrompt"
        | "resolvePrompt"
        | "toggleCapability"
        | "loadSandboxed"
        | "invokeSandboxed" => {
            Shape { trouble: document("SeamError"), ..shape("Document", "Document", &[404]) }
        }
        "judgeInstall" => {
            Shape { trouble: document("SeamError"), ..shape("Document", "Document", &[403, 422]) }
        }
        "expandChain" => shape("Document", "Document", &[404, 422]),
        _ => return None,
    })
}

impl Shape {
    /// All error statuses, sorted: those of the operation, and those that all operations of its kind have.
    pub(super) fn refusals(&self, route: &Route) -> Vec<u16> {
        let mut statuses = vec![429, 500];
        statuses.extend(self.refusals);
        if !matches!(route.access, Access::Public | Access::Token) {
            statuses.extend([401, 403]);
        }
        // Below `/v1`, `OpenWOP-Version` may name another version.
        if route.path.starts_with("/v1/") || !self.headers.is_empty() || route.path.contains('{') {
            statuses.push(400);
        }
        if route.body != Body::None {
            statuses.extend([400, 408, 413, 415]);
        }
        if route.method != Method::Get {
            // The disk may be full, and the host may be busy.
            statuses.extend([503, 507]);
        }
        statuses.sort_unstable();
        statuses.dedup();
        statuses
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::routes::{Gates, served};
    use super::super::schemas::schemas;
    use super::*;

    #[test]
    fn every_route_has_a_shape_and_every_schema_a_use() {
        let schemas = schemas();
        let known = |name: &str| schemas.contains_key(name);
        let text = serde_json::Value::from(schemas.clone()).to_string();
        let mut used = vec!["Error".to_owned()];
        for route in served(Gates::ALL) {
            let shape = of(route.operation).unwrap_or_else(|| panic!("{} has no shape", route.operation));
            let is_json = !matches!(route.body, Body::None | Body::Archive | Body::Object);
            assert_eq!(shape.request.is_some(), is_json, "{}", route.operation);
            for source in [shape.request, shape.answer, shape.trouble].into_iter().flatten() {
                let name = source.name().into_owned();
                assert!(known(&name), "{}: {name}", route.operation);
                used.push(name);
            }
        }
        for name in schemas.keys() {
            let referred = text.contains(&format!("#/components/schemas/{name}\""));
            assert!(used.contains(name) || referred, "{name} is unused");
        }
    }
}
