//! What each operation takes and gives, besides what its row in the table of routes says.

use super::super::route::{Access, Body, Method, Route};

/// The bodies of an operation, by the names of their schemas, and its statuses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    /// What is sent.
    pub(super) request: Option<&'static str>,
    /// What is answered, where it is JSON.
    pub(super) answer: Option<&'static str>,
    /// Further statuses of success.
    pub(super) also: &'static [u16],
    /// The statuses of refusals that are its own.
    refusals: &'static [u16],
    /// The headers that it reads, by name.
    pub(super) headers: &'static [&'static str],
}

/// The shape of an operation; nothing for one that is not in the table.
pub(super) fn of(operation: &str) -> Option<Shape> {
    let shape = |request: &'static str, answer: &'static str, refusals: &'static [u16]| {
        let named = |name: &'static str| (!name.is_empty()).then_some(name);
        Shape { request: named(request), answer: named(answer), refusals, ..Shape::default() }
    };
    Some(match operation {
        "discover" => Shape { also: &[304], headers: &["If-None-Match"], ..shape("", "Capabilities", &[]) },
        "readOpenApi" => shape("", "Document", &[]),
        "readHealth" => shape("", "Health", &[]),
        "readReadiness" => shape("", "Health", &[503]),
        "readMetrics" => shape("", "", &[]),
        "listWorkflows" => shape("", "Workflows", &[]),
        "registerWorkflow" | "seedWorkflow" => {
            Shape { also: &[200], ..shape("Workflow", "Registered", &[409]) }
        }
        "readWorkflow" => shape("", "Workflow", &[404]),
        "listRuns" => shape("", "Runs", &[400]),
        "createRun" => Shape {
            headers: &["X-Dedup", "X-Force-Engine-Version"],
            ..shape("RunRequest", "Created", &[404, 409])
        },
        "readRun" => Shape { also: &[304], headers: &["If-None-Match"], ..shape("", "Run", &[404]) },
        "cancelRun" | "resumeRun" => shape("Reason", "Status", &[404, 409]),
        "pauseRun" => shape("Pause", "Status", &[404, 409]),
        "cancelRuns" => shape("Many", "Results", &[409]),
        "forkRun" => shape("Fork", "Created", &[404, 409, 422]),
        "compareRuns" => shape("", "Difference", &[404]),
        "readAncestry" => shape("", "Ancestry", &[404]),
        "streamEvents" => Shape { headers: &["Last-Event-ID"], ..shape("", "Events", &[404]) },
        "pollEvents" | "readRecordedEvents" => shape("", "Events", &[404]),
        "listAnnotations" => shape("", "Annotations", &[404]),
        "annotateRun" => shape("AnnotationRequest", "Annotation", &[404, 409]),
        "readDebugBundle" => shape("", "Bundle", &[404]),
        "exportDebugBundle" => shape("RunReference", "Bundle", &[404]),
        "readArtifact" | "readVariables" => shape("", "Document", &[404]),
        "resolveInterrupt" => shape("Resolution", "Status", &[404, 409, 410, 422]),
        "approve" => shape("Document", "Status", &[404, 409, 410, 422]),
        "inspectInterrupt" | "inspectToken" => shape("", "Interrupt", &[404, 409, 410]),
        "resolveToken" => shape("Resolution", "Status", &[403, 404, 409, 410, 422]),
        "listWebhooks" => shape("", "Webhooks", &[]),
        "registerWebhook" => shape("WebhookRequest", "Subscribed", &[409]),
        "deleteWebhook" => shape("", "", &[404]),
        "verifyAuditLog" => shape("", "Verified", &[]),
        "callMcp" => Shape { also: &[202], ..shape("Message", "Document", &[404, 406]) },
        "setVariables" => shape("Variables", "Document", &[404, 409, 422]),
        "fanOut" => shape("FanOut", "Document", &[404, 409]),
        _ => return None,
    })
}

impl Shape {
    /// Every status of a refusal, in order: those of the operation, and those that all operations of its kind have.
    pub(super) fn refusals(&self, route: &Route) -> Vec<u16> {
        let mut statuses = vec![429, 500];
        statuses.extend(self.refusals);
        if matches!(route.access, Access::Key(_) | Access::Guided) {
            statuses.extend([401, 403]);
        }
        if route.path.contains('{') || !route.query.is_empty() || !self.headers.is_empty() {
            statuses.push(400);
        }
        if route.body != Body::None {
            statuses.extend([400, 408, 413, 415]);
        }
        if route.method != Method::Get {
            // The disk may be full, and the host may have as much to do as it takes.
            statuses.extend([503, 507]);
        }
        statuses.sort_unstable();
        statuses.dedup();
        statuses
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::routes::served;
    use super::super::schemas::schemas;
    use super::*;

    #[test]
    fn every_route_has_a_shape_and_every_schema_a_use() {
        let schemas = schemas();
        let known = |name: &str| schemas.contains_key(name);
        let text = serde_json::Value::from(schemas.clone()).to_string();
        let mut used = vec!["Error"];
        for route in served(true) {
            let shape = of(route.operation).unwrap_or_else(|| panic!("{} has no shape", route.operation));
            assert_eq!(shape.request.is_some(), route.body != Body::None, "{}", route.operation);
            for name in [shape.request, shape.answer].into_iter().flatten() {
                assert!(known(name), "{}: {name}", route.operation);
                used.push(name);
            }
        }
        for name in schemas.keys() {
            let referred = text.contains(&format!("#/components/schemas/{name}\""));
            assert!(used.contains(&name.as_str()) || referred, "{name} is used by nobody");
        }
    }
}
