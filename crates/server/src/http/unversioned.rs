//! Paths outside of `/v1`. A browser gets a page there, if the console is mounted. An API client omitted the version, and gets a
//! JSON error.

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use openwop::Major;
use runs::{ApiCode, Refusal};

use super::table::Table;
use super::version::{OPENWOP_VERSION, major, unsupported};

/// Browsers send this with every request.
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The prefix of the paths of version 1.
const ROOT: &str = "/v1";

/// Whether a request outside of `/v1` comes from an API client and not from a browser.
///
/// A key in a header or a version of the protocol means an API client; a cookie, a form or a header that only browsers send means a
/// browser. Otherwise a client that accepts no HTML does not want a page.
pub(super) fn is_of_a_program(parts: &Parts) -> bool {
    let headers = &parts.headers;
    if has_bearer(headers) || headers.contains_key(OPENWOP_VERSION) {
        return true;
    }
    let media = media_type(headers);
    let is_of_browser = headers.contains_key(COOKIE)
        || headers.contains_key(SEC_FETCH_MODE)
        || matches!(media.as_str(), "application/x-www-form-urlencoded" | "multipart/form-data")
        || (is_public_page(parts.uri.path()) && !accepts_api_types(headers));
    !is_of_browser && (media == "application/json" || accepts_no_html(headers))
}

/// Whether a path belongs to the console, for every client.
pub(super) fn is_of_console(path: &str) -> bool {
    path.strip_prefix("/console").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a client names a media type that only the API sends. Tools that request a page send `*/*`.
fn accepts_api_types(headers: &HeaderMap) -> bool {
    let types = ["application/json", "text/event-stream"];
    let named = |value: &http::HeaderValue| {
        value.to_str().is_ok_and(|value| types.iter().any(|known| value.contains(known)))
    };
    headers.get_all(ACCEPT).iter().any(named)
}

/// Paths that tools and browsers request without being asked to, and that lead to the console.
fn is_public_page(path: &str) -> bool {
    matches!(path, "/" | "/favicon.ico" | "/robots.txt")
}

fn has_bearer(headers: &HeaderMap) -> bool {
    let schemes = headers.get_all(AUTHORIZATION).into_iter().filter_map(|value| value.to_str().ok());
    schemes.filter_map(|value| value.split_once(' ')).any(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn accepts_no_html(headers: &HeaderMap) -> bool {
    let html = |value: &http::HeaderValue| {
        value.to_str().is_ok_and(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("text/html") || value.contains("application/xhtml")
        })
    };
    let accepted = headers.get_all(ACCEPT);
    headers.contains_key(ACCEPT) && !accepted.iter().any(html)
}

/// The error for an API client that calls such a path. It names the path to use and does not repeat the given one, which may contain
/// a secret.
pub(super) fn refusal(table: &Table, parts: &Parts) -> Refusal {
    let meant = meant(table, parts.uri.path());
    let version = parts.headers.get(OPENWOP_VERSION);
    let refusal = match version.map(major) {
        Some(None) => unsupported(),
        // A client of version 2 that calls a path that no version has.
        Some(Some(Major::V2)) => {
            Refusal::new(ApiCode::NotFound, "Path not found. See /openapi.json for all paths.")
        }
        None | Some(Some(Major::V1)) => {
            let message = match meant {
                Some(path) => format!("paths of this host begin with /v1/; use {path}"),
                None => "paths of this host begin with /v1/; see /v1/openapi.json for all of them".to_owned(),
            };
            Refusal::new(ApiCode::ValidationError, message)
        }
    };
    match meant {
        Some(path) => refusal.detail("path", path),
        None => refusal,
    }
}

/// The template of the path that was probably meant.
fn meant(table: &Table, path: &str) -> Option<&'static str> {
    let path = path.strip_prefix("/v2/").map_or_else(|| path.to_owned(), |rest| format!("/{rest}"));
    let (template, _) = table.find(&format!("{ROOT}{path}")).ok()??;
    Some(template.path)
}

#[cfg(test)]
mod tests {
    use super::super::routes::Gates;
    use super::*;

    fn parts(path: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn programs_and_browsers_are_distinguished() {
        const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let program: [(&str, &[(&str, &str)]); 9] = [
            ("/runs", &[("authorization", "Bearer k")]),
            ("/runs", &[("authorization", "bearer k"), ("accept", BROWSER)]),
            ("/", &[("authorization", "Bearer k")]),
            ("/runs", &[("openwop-version", "2.0")]),
            ("/runs", &[("accept", "application/json")]),
            ("/", &[("accept", "application/json")]),
            ("/runs", &[("accept", "*/*")]),
            ("/runs/x/events", &[("accept", "text/event-stream")]),
            ("/runs", &[("content-type", "application/json; charset=utf-8")]),
        ];
        for (path, headers) in program {
            assert!(is_of_a_program(&parts(path, headers)), "{path} {headers:?}");
        }
        let browser: [(&str, &[(&str, &str)]); 7] = [
            ("/runs", &[("accept", BROWSER)]),
            ("/runs", &[]),
            ("/", &[("accept", "*/*")]),
            ("/runs", &[("accept", "*/*"), ("content-type", "application/x-www-form-urlencoded")]),
            ("/favicon.ico", &[("accept", "image/avif,image/webp,*/*;q=0.8")]),
            ("/runs/x", &[("accept", "text/event-stream"), ("cookie", "session=1")]),
            ("/runs/x", &[("accept", "text/event-stream"), ("sec-fetch-mode", "cors")]),
        ];
        for (path, headers) in browser {
            assert!(!is_of_a_program(&parts(path, headers)), "{path} {headers:?}");
        }
    }

    #[test]
    fn only_the_console_and_what_is_below_it_is_of_the_console() {
        for (path, expected) in [
            ("/console", true),
            ("/console/", true),
            ("/console/runs/x", true),
            ("/consoles", false),
            ("/console.js", false),
            ("/", false),
            ("/runs", false),
        ] {
            assert_eq!(is_of_console(path), expected, "{path}");
        }
    }

    #[test]
    fn the_probable_path_is_suggested() {
        let table = Table::new(Gates::ALL);
        for (path, meant) in [
            ("/runs", Some("/v1/runs")),
            ("/runs/a-secret", Some("/v1/runs/{runId}")),
            ("/runs/a-secret:pause", Some("/v1/runs/{runId}:pause")),
            ("/v2/runs", Some("/v1/runs")),
            ("/openapi.json", Some("/v1/openapi.json")),
            ("/foo", None),
        ] {
            let refusal = refusal(&table, &parts(path, &[]));
            assert_eq!(refusal.code, ApiCode::ValidationError, "{path}");
            assert_eq!(refusal.details.get("path").and_then(|path| path.as_str()), meant, "{path}");
            assert!(refusal.message.contains(meant.unwrap_or("/v1/openapi.json")), "{refusal}");
            assert!(!super::super::status::body(&refusal).to_string().contains("a-secret"));
        }
    }

    #[test]
    fn unsupported_versions_are_rejected_and_version_one_is_not() {
        let table = Table::new(Gates::ALL);
        for (version, code) in [
            ("1", ApiCode::ValidationError),
            ("1.4", ApiCode::ValidationError),
            ("2", ApiCode::NotFound),
            ("2.0", ApiCode::NotFound),
            ("3", ApiCode::ProtocolVersionUnsupported),
            ("1.", ApiCode::ProtocolVersionUnsupported),
            ("11", ApiCode::ProtocolVersionUnsupported),
            ("x", ApiCode::ProtocolVersionUnsupported),
            ("", ApiCode::ProtocolVersionUnsupported),
        ] {
            let refusal = refusal(&table, &parts("/v2/runs", &[("openwop-version", version)]));
            assert_eq!(refusal.code, code, "{version:?}");
            assert_eq!(refusal.details["path"], "/v1/runs");
            assert!(!refusal.message.is_empty());
        }
    }
}
