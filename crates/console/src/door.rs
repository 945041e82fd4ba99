//! The way in: who signs in, who is signed in, and what every answer says to the browser.

mod link;
mod session;
mod sign_in;

pub use self::link::SignInLinks;
pub(crate) use self::session::{Session, Sessions};
pub(crate) use self::sign_in::{local_path, see, sign_in, sign_out};

use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue};

/// What a page may load, and where it may be: from here, nothing inline, and in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The policy of every page. The only frames there are those of the origin of plugins, wherever they are led.
pub(crate) fn policy(plugins: Option<&str>) -> HeaderValue {
    let framed =
        plugins.and_then(|origin| HeaderValue::from_str(&format!("{POLICY}; frame-src {origin}")).ok());
    framed.unwrap_or(HeaderValue::from_static(POLICY))
}

/// What every answer says, but for how long it may be kept.
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
