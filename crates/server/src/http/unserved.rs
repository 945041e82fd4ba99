//! Operations of the protocol that this host does not implement.
//!
//! A client must be able to distinguish a missing feature from a missing object, so the protocol answers operations of these
//! families with 501. Parameterless reads such as `GET /v1/prompts` are not among them and stay 404: version 2 answers 404 there,
//! and a suite compares the two versions.

use http::Method;
use runs::{ApiCode, Refusal};

/// The reply to an operation.
#[derive(Clone, Copy)]
enum Reply {
    /// 501, with the capability that the operation belongs to.
    NotProvided(&'static str),
    /// 404. Listed only where another route would match the last segment as a parameter.
    NotFound,
}

use Reply::{NotFound, NotProvided};

const OPERATIONS: [(Method, &str, Reply); 16] = [
    (Method::POST, "/v1/prompts", NotProvided("prompts.mutableLibrary")),
    (Method::POST, "/v1/prompts:render", NotProvided("prompts.endpointsSupported")),
    (Method::GET, "/v1/prompts/{templateId}", NotProvided("prompts.endpointsSupported")),
    (Method::PUT, "/v1/prompts/{templateId}", NotProvided("prompts.mutableLibrary")),
    (Method::DELETE, "/v1/prompts/{templateId}", NotProvided("prompts.mutableLibrary")),
    (Method::POST, "/v1/content/pages", NotProvided("content")),
    (Method::GET, "/v1/content/pages/{slug}", NotProvided("content")),
    (Method::DELETE, "/v1/content/pages/{pageId}", NotProvided("content")),
    (Method::PUT, "/v1/content/pages/{pageId}/sections/{sectionId}", NotProvided("content")),
    (Method::PUT, "/v1/content/settings", NotProvided("content")),
    (Method::GET, "/v1/host/workspace/files", NotProvided("workspace")),
    (Method::GET, "/v1/host/workspace/files/{path}", NotProvided("workspace")),
    (Method::PUT, "/v1/host/workspace/files/{path}", NotProvided("workspace")),
    (Method::DELETE, "/v1/host/workspace/files/{path}", NotProvided("workspace")),
    (Method::POST, "/v1/trigger-subscriptions", NotProvided("triggerBridge.ingestion.registrationEndpoint")),
    (Method::GET, "/v1/agents/{collection}", NotFound),
];

/// The collections of `/v1/agents`. No agent can have one of these ids.
const COLLECTIONS: [&str; 2] = ["roster", "org-chart"];

/// The error for an operation that this host does not implement. Segments are compared without decoding: a file path may contain
/// escaped slashes.
pub(super) fn refusal(method: &Method, path: &str) -> Option<Refusal> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let found = OPERATIONS.iter().find(|(known, template, _)| known == method && is_of(template, path));
    match found?.2 {
        NotProvided(capability) => {
            let message = format!(
                "this host does not provide `{capability}`; GET /.well-known/openwop lists what it provides"
            );
            let refusal = Refusal::new(ApiCode::CapabilityNotProvided, message);
            Some(refusal.detail("requiredCapability", capability))
        }
        NotFound => Some(Refusal::new(ApiCode::NotFound, "path not found; /v1/openapi.json lists all paths")),
    }
}

fn is_of(template: &str, path: &str) -> bool {
    let mut segments = path.split('/');
    let are_alike = template.split('/').all(|known| match segments.next() {
        Some(text) if known == "{collection}" => COLLECTIONS.contains(&text),
        Some(text) => known == text || (known.starts_with('{') && !text.is_empty()),
        None => false,
    });
    are_alike && segments.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::super::routes::Gates;
    use super::super::table::Table;
    use super::*;

    #[test]
    fn absent_capabilities_are_named_and_other_paths_are_not_affected() {
        let cases = [
            ("GET", "/v1/prompts", None),
            ("POST", "/v1/prompts", Some(ApiCode::CapabilityNotProvided)),
            ("POST", "/v1/prompts:render", Some(ApiCode::CapabilityNotProvided)),
            ("GET", "/v1/prompts/a", Some(ApiCode::CapabilityNotProvided)),
            ("HEAD", "/v1/prompts/a", Some(ApiCode::CapabilityNotProvided)),
            ("GET", "/v1/prompts/", None),
            ("GET", "/v1/content/pages", None),
            ("GET", "/v1/content/settings", None),
            ("GET", "/v1/host/workspace/files", Some(ApiCode::CapabilityNotProvided)),
            ("GET", "/v1/host/workspace/files/a%2Fb.md", Some(ApiCode::CapabilityNotProvided)),
            ("PATCH", "/v1/host/workspace/files/a", None),
            ("GET", "/v1/agents/roster", Some(ApiCode::NotFound)),
            ("GET", "/v1/agents/org-chart", Some(ApiCode::NotFound)),
            ("GET", "/v1/agents/core.acme.clerk", None),
            ("GET", "/v1/runs", None),
        ];
        for (method, path, expected) in cases {
            let method: Method = method.parse().unwrap();
            assert_eq!(refusal(&method, path).map(|refusal| refusal.code), expected, "{method} {path}");
        }
    }

    #[test]
    fn no_served_operation_is_listed_as_absent() {
        let table = Table::new(Gates::ALL);
        for (method, template, reply) in OPERATIONS {
            let found = table.find(&template.replace(['{', '}'], "")).unwrap();
            let is_served = found.is_some_and(|(template, _)| template.route(&method).is_some());
            assert_eq!(is_served, matches!(reply, NotFound), "{method} {template}");
        }
    }
}
