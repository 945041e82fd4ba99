//! Which web pages may send requests, and which `Host` names are accepted.
//!
//! A browser sends requests on behalf of any page that its user opens. Two headers protect against hostile pages. `Origin` names the
//! page. `Host` names the server that the page believes to address, which exposes DNS rebinding because a page cannot choose it.
//! Clients that are not browsers send no `Origin` and are allowed.

use std::net::IpAddr;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Uri};
use runs::{ApiCode, Refusal};

/// The request headers that a page may send.
const HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, accept, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, \
     last-event-id",
);
const METHODS: HeaderValue = HeaderValue::from_static("POST, OPTIONS");
const EXPOSED: HeaderValue = HeaderValue::from_static("www-authenticate, retry-after, mcp-session-id");
const TEN_MINUTES: HeaderValue = HeaderValue::from_static("600");

/// The origin of a page, as in RFC 6454.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    /// Parses an origin such as `https://host.example:8443`. Returns `None` if the scheme is missing, the port is unknown, or more follows.
    fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.trim_end_matches('/').parse().ok()?;
        let authority = uri.authority()?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || authority.as_str().contains('@') {
            return None;
        }
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let usual = match scheme.as_str() {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let port = authority.port_u16().unwrap_or(usual);
        Some(Self { host: authority.host().to_ascii_lowercase(), scheme, port })
    }

    /// Whether a `Host` header names the same host and port.
    fn is_named(&self, host: &Authority) -> bool {
        let usual = if self.scheme == "https" { 443 } else { 80 };
        self.host == host.host().to_ascii_lowercase() && self.port == host.port_u16().unwrap_or(usual)
    }
}

/// Whether a host name always refers to the local machine.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// The origins that may send requests.
#[derive(Clone, Debug)]
pub(super) struct OriginPolicy {
    own: Option<Origin>,
    others: Vec<Origin>,
}

impl OriginPolicy {
    /// Allows pages of this machine, of the host's own address, and of `origins`. Invalid origins are ignored.
    pub(super) fn new(public_url: &str, origins: &[String]) -> Self {
        let own = public_url.parse::<Uri>().ok().and_then(|uri| {
            let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
            Origin::parse(&format!("{scheme}://{authority}"))
        });
        Self { own, others: origins.iter().filter_map(|text| Origin::parse(text)).collect() }
    }

    /// Refuses requests from pages of other origins.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let refused = |message| Err(Refusal::new(ApiCode::Forbidden, message));
        if !self.is_host(headers) {
            return refused(
                "the `Host` header is not an address of this host; use the address in `server.public_url`, \
                 or set that to the one you use",
            );
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Ok(()),
            (Some(origin), None) if self.is_allowed(origin) => Ok(()),
            _ => refused(
                "requests from this origin are not allowed; an operator can add it to \
                 `server.allowed_origins`",
            ),
        }
    }

    /// Refuses requests that do not address this machine by a loopback name, in addition to those that `check` refuses.
    pub(super) fn check_local(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        self.check(headers)?;
        let host = headers.get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
        if host.is_some_and(|host| is_loopback(host.host())) {
            return Ok(());
        }
        let message = "Requests without a key require a `Host` header with a loopback address.";
        Err(Refusal::new(ApiCode::Forbidden, message))
    }

    fn is_host(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Ok(host) = Authority::try_from(host.as_bytes()) else { return false };
        is_loopback(host.host()) || self.own.as_ref().is_some_and(|own| own.is_named(&host))
    }

    fn is_allowed(&self, origin: &HeaderValue) -> bool {
        let Some(origin) = origin.to_str().ok().and_then(Origin::parse) else { return false };
        is_loopback(&origin.host) || self.own.iter().chain(&self.others).any(|known| *known == origin)
    }

    /// Whether this is a CORS preflight request from an allowed origin.
    pub(super) fn may_ask(&self, parts: &Parts) -> bool {
        let asks = parts.method == Method::OPTIONS
            && parts.headers.contains_key(ORIGIN)
            && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        asks && self.check(&parts.headers).is_ok()
    }

    /// Adds the CORS headers of a preflight reply.
    pub(super) fn permit(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        headers.insert(ACCESS_CONTROL_MAX_AGE, TEN_MINUTES);
        self.share(origin, headers);
    }

    /// Adds the CORS headers that let an allowed page read the reply.
    pub(super) fn share(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        if let Some(origin) = origin.filter(|origin| self.is_allowed(origin)) {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        headers.extend(origin.map(|origin| (ORIGIN, HeaderValue::from_str(origin).unwrap())));
        headers
    }

    #[test]
    fn allowed_origins_and_hosts() {
        let configured = ["https://app.example".to_owned(), "not an origin".to_owned()];
        let origin_policy = OriginPolicy::new("https://host.example/base", &configured);
        for (host, origin, passes) in [
            ("host.example", None, true),
            ("HOST.example:443", None, true),
            ("host.example:8443", None, false),
            ("127.0.0.1:7717", None, true),
            ("localhost:1", None, true),
            ("[::1]:7717", None, true),
            ("evil.example", None, false),
            ("localhost.evil.example", None, false),
            ("", None, false),
            ("a b", None, false),
            ("localhost", Some("http://localhost:6274"), true),
            ("localhost", Some("http://127.0.0.2"), true),
            ("localhost", Some("http://[::1]:80"), true),
            ("localhost", Some("https://host.example"), true),
            ("localhost", Some("http://host.example"), false),
            ("localhost", Some("https://app.example:443"), true),
            ("localhost", Some("https://app.example:444"), false),
            ("localhost", Some("https://evil.example"), false),
            ("localhost", Some("https://localhost.evil.example"), false),
            ("localhost", Some("https://localhost@evil.example"), false),
            ("localhost", Some("null"), false),
            ("localhost", Some("file://localhost"), false),
            ("localhost", Some(""), false),
            ("localhost", Some("http://localhost/path"), false),
        ] {
            let checked = origin_policy.check(&headers(host, origin));
            assert_eq!(checked.is_ok(), passes, "{host} {origin:?}");
        }
        let mut twice = headers("localhost", Some("http://localhost"));
        twice.append(ORIGIN, HeaderValue::from_static("http://localhost"));
        assert!(origin_policy.check(&twice).is_err(), "two origins are ambiguous");
        assert!(origin_policy.check(&HeaderMap::new()).is_err(), "no host");
    }
}
