//! The protocol version of a request.
//!
//! A path below `/v1` belongs to version 1. A client may name the version that it speaks in the header `OpenWOP-Version`, as `1` or
//! `1.0`. If that contradicts the path, the client would misread the reply, so the request is refused. Every reply of the protocol
//! names the version that it follows.

use host::runs::{ApiCode, Refusal};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The version that a client speaks, and the version that a reply follows.
pub(super) const OPENWOP_VERSION: HeaderName = HeaderName::from_static("openwop-version");
/// The versions that are served.
pub(super) const PROTOCOL_VERSIONS: [&str; 1] = ["1.0"];
/// The version for requests that name none.
pub(super) const PREFERRED_VERSION: &str = PROTOCOL_VERSIONS[0];

/// The discovery document. It has no version in its path.
const DISCOVERY: &str = "/.well-known/openwop";
/// Below `/v1` but not part of the protocol: MCP has its own versions, and suites for every version call the seams.
const OTHER_PROTOCOLS: [&str; 2] = ["/v1/mcp", "/v1/host/sample/"];

/// Whether a header names a version that is served, by its major version: `1` or `1.4`.
pub(super) fn is_served(version: &HeaderValue) -> bool {
    let Ok(version) = version.to_str() else { return false };
    let (major, minor) = version.trim().split_once('.').unwrap_or((version.trim(), "0"));
    major == "1" && !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit())
}

/// The error for a request to a path of version 1 from a client that speaks another version.
pub(super) fn mismatch(path: &str, headers: &HeaderMap) -> Option<Refusal> {
    let version = headers.get(OPENWOP_VERSION).filter(|_| is_of_protocol(path))?;
    match is_served(version) {
        true => None,
        false if path == DISCOVERY => Some(unsupported()),
        false => {
            let message = "the path is of version 1 of the protocol, and OpenWOP-Version names another version; \
                           send 1.0, or leave the header out";
            Some(with_versions(ApiCode::ProtocolVersionMismatch, message))
        }
    }
}

/// The error for a client that speaks a version that is not served.
pub(super) fn unsupported() -> Refusal {
    let message =
        "this host serves version 1 of the protocol; use a client for version 1, whose paths begin with /v1/";
    with_versions(ApiCode::ProtocolVersionUnsupported, message)
}

fn with_versions(code: ApiCode, message: &str) -> Refusal {
    Refusal::new(code, message).detail("protocolVersions", PROTOCOL_VERSIONS.to_vec())
}

/// Adds the version to a reply of the protocol.
pub(super) fn add_version(path: &str, headers: &mut HeaderMap) {
    if is_of_protocol(path) {
        headers.insert(OPENWOP_VERSION, HeaderValue::from_static(PREFERRED_VERSION));
    }
}

fn is_of_protocol(path: &str) -> bool {
    path == DISCOVERY
        || (path.starts_with("/v1/") && !OTHER_PROTOCOLS.iter().any(|other| path.starts_with(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_contradicts_the_path_is_refused() {
        let cases = [
            ("/v1/runs", "1", None),
            ("/v1/runs", "1.9", None),
            ("/v1/runs", "2.0", Some(ApiCode::ProtocolVersionMismatch)),
            ("/v1/openapi.json", "2", Some(ApiCode::ProtocolVersionMismatch)),
            ("/v1/runs", "x", Some(ApiCode::ProtocolVersionMismatch)),
            ("/v1/mcp", "2.0", None),
            ("/v1/host/sample/test/reset", "2.0", None),
            ("/.well-known/openwop", "1.0", None),
            ("/.well-known/openwop", "9", Some(ApiCode::ProtocolVersionUnsupported)),
            ("/healthz", "9", None),
        ];
        for (path, version, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(OPENWOP_VERSION, HeaderValue::from_static(version));
            let refusal = mismatch(path, &headers);
            assert_eq!(refusal.as_ref().map(|refusal| refusal.code), expected, "{path} {version}");
            assert!(refusal.is_none_or(|refusal| refusal.details["protocolVersions"][0] == "1.0"));
        }
        assert_eq!(mismatch("/v1/runs", &HeaderMap::new()), None);
    }
}
