//! The protocol version of a request.
//!
//! A path below `/v1` belongs to version 1, the other paths of the protocol to the version that the header `OpenWOP-Version` names, as
//! `2` or `2.0`. Only the major number selects. If the header contradicts the path, the client would misread the reply, so the request
//! is refused. Every reply of the protocol names the version that it follows.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use openwop::Major;
use runs::{ApiCode, Refusal};

use super::v2;

/// The version that a client speaks, and the version that a reply follows.
pub(super) const OPENWOP_VERSION: HeaderName = HeaderName::from_static("openwop-version");
/// The versions that are served.
pub(super) const PROTOCOL_VERSIONS: [&str; 2] = [Major::V1.version(), Major::V2.version()];
/// The version of discovery for requests that name none.
pub(super) const PREFERRED_VERSION: &str = Major::V1.version();

/// The discovery document. It has no version in its path.
pub(super) const DISCOVERY: &str = "/.well-known/openwop";
/// Below `/v1` but not part of the protocol: MCP has its own versions, and suites for every version call the seams.
const OTHER_PROTOCOLS: [&str; 2] = ["/v1/mcp", "/v1/host/sample/"];

/// Which version of the protocol answers a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Contract {
    /// None: the path is not of the protocol, or a browser wants a page.
    Outside,
    Served(Major),
    /// The version is refused. The reply follows this version.
    Refused(Major, Refusal),
}

impl Contract {
    /// Selects the version of a request. `has_pages` says whether browsers can get pages.
    pub(super) fn of(method: &Method, path: &str, headers: &HeaderMap, has_pages: bool) -> Self {
        let named = headers.get(OPENWOP_VERSION).map(major);
        if is_of_v1(path) {
            return match named {
                None | Some(Some(Major::V1)) => Self::Served(Major::V1),
                Some(_) => {
                    let message = "The path belongs to version 1 of the protocol, and `OpenWOP-Version` names another \
                                   version. Send 1.0 or omit the header; paths of version 2 have no prefix.";
                    Self::Refused(Major::V1, with_versions(ApiCode::ProtocolVersionMismatch, message))
                }
            };
        }
        if path != DISCOVERY && v2::find(method, path).is_none() {
            return Self::Outside;
        }
        match named {
            Some(Some(major)) => Self::Served(major),
            Some(None) => Self::Refused(Major::V2, unsupported()),
            None if path == DISCOVERY => Self::Served(Major::V1),
            None if has_pages && v2::wants_page(method, headers) => Self::Outside,
            None => Self::Served(Major::V2),
        }
    }

    /// The version that the reply follows.
    pub(super) fn major(&self) -> Option<Major> {
        match self {
            Self::Outside => None,
            Self::Served(major) | Self::Refused(major, _) => Some(*major),
        }
    }
}

/// The version that a header names, if it is served.
pub(super) fn major(version: &HeaderValue) -> Option<Major> {
    version.to_str().ok().and_then(Major::parse)
}

/// The error for a client that speaks a version that is not served.
pub(super) fn unsupported() -> Refusal {
    let message =
        "This host serves versions 1.0 and 2.0 of the protocol. Send one of them in `OpenWOP-Version`.";
    with_versions(ApiCode::ProtocolVersionUnsupported, message)
}

fn with_versions(code: ApiCode, message: &str) -> Refusal {
    Refusal::new(code, message).detail("protocolVersions", PROTOCOL_VERSIONS.to_vec())
}

/// Adds the version to a reply of the protocol.
pub(super) fn add_version(major: Major, headers: &mut HeaderMap) {
    headers.insert(OPENWOP_VERSION, HeaderValue::from_static(major.version()));
}

fn is_of_v1(path: &str) -> bool {
    path.starts_with("/v1/") && !OTHER_PROTOCOLS.iter().any(|other| path.starts_with(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contract(path: &str, version: Option<&'static str>, accept: &'static str) -> Contract {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::ACCEPT, HeaderValue::from_static(accept));
        headers.extend(version.map(|version| (OPENWOP_VERSION, HeaderValue::from_static(version))));
        Contract::of(&Method::GET, path, &headers, true)
    }

    /// The table of the negotiation, row by row.
    #[test]
    fn v2_version_header_honored() {
        let (json, html) = ("application/json", "text/html,*/*;q=0.8");
        let cases = [
            ("/v1/runs", None, json, Some(Major::V1), None),
            ("/v1/runs", Some("1"), json, Some(Major::V1), None),
            ("/v1/runs", Some("1.9"), json, Some(Major::V1), None),
            ("/v1/runs", Some("2.0"), json, Some(Major::V1), Some(ApiCode::ProtocolVersionMismatch)),
            ("/v1/openapi.json", Some("2"), json, Some(Major::V1), Some(ApiCode::ProtocolVersionMismatch)),
            ("/v1/runs", Some("x"), json, Some(Major::V1), Some(ApiCode::ProtocolVersionMismatch)),
            ("/runs", Some("2"), html, Some(Major::V2), None),
            ("/runs", Some("2.9"), json, Some(Major::V2), None),
            ("/runs", Some("1.0"), json, Some(Major::V1), None),
            ("/runs", Some("3"), json, Some(Major::V2), Some(ApiCode::ProtocolVersionUnsupported)),
            ("/runs", Some("x"), json, Some(Major::V2), Some(ApiCode::ProtocolVersionUnsupported)),
            ("/runs", None, json, Some(Major::V2), None),
            ("/runs", None, "*/*", Some(Major::V2), None),
            ("/runs/a/events", None, "text/event-stream", Some(Major::V2), None),
            ("/runs", None, html, None, None),
            ("/prompts", None, json, Some(Major::V2), None),
            ("/.well-known/openwop", None, json, Some(Major::V1), None),
            ("/.well-known/openwop", None, html, Some(Major::V1), None),
            ("/.well-known/openwop", Some("2"), json, Some(Major::V2), None),
            (
                "/.well-known/openwop",
                Some("9"),
                json,
                Some(Major::V2),
                Some(ApiCode::ProtocolVersionUnsupported),
            ),
            ("/v1/mcp", Some("2.0"), json, None, None),
            ("/v1/host/sample/test/reset", Some("2.0"), json, None, None),
            ("/healthz", Some("9"), json, None, None),
            ("/console/runs", Some("9"), json, None, None),
            ("/foo", None, json, None, None),
        ];
        for (path, version, accept, major, refused) in cases {
            let contract = contract(path, version, accept);
            assert_eq!(contract.major(), major, "{path} {version:?}");
            let code = match &contract {
                Contract::Refused(_, refusal) => {
                    assert_eq!(refusal.details["protocolVersions"], serde_json::json!(["1.0", "2.0"]));
                    Some(refusal.code)
                }
                Contract::Outside | Contract::Served(_) => None,
            };
            assert_eq!(code, refused, "{path} {version:?}");
        }
    }
}
