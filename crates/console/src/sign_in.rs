//! Signing in, sessions, and the security headers of every response.

pub(crate) mod ended;
mod form;
mod link;
mod session;

pub(crate) use self::form::{local_address, see, sign_in, sign_out};
pub use self::link::SignInLinks;
pub(crate) use self::session::{Session, Sessions};

use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue};

/// Content security policy of pages: same origin only, no inline code, no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The policy of every page. Frames are allowed only from the plugin origin.
pub(crate) fn policy(plugins: Option<&str>) -> HeaderValue {
    let framed =
        plugins.and_then(|origin| HeaderValue::from_str(&format!("{POLICY}; frame-src {origin}")).ok());
    framed.unwrap_or(HeaderValue::from_static(POLICY))
}

/// Security headers of every response, except for caching.
pub(crate) fn guard(mut response: Response, policy: &HeaderValue) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, policy.clone());
    let fixed: [(HeaderName, &'static str); 4] = [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
