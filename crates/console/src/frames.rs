//! The documents of plugins, on an origin of their own.
//!
//! Nothing else is there: no cookie, no page of the console, no file of a pack but the entries that its manifest names. Each is
//! verified whenever it is asked for, and served with a policy that lets it load nothing, and send only where it declared. Browsers do
//! not hold WebRTC to that policy.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use host::plugins::Plugins;
use host::plugins::installed::Document;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Method, StatusCode};

/// What no plugin may use of the machine that its browser runs on.
const PERMISSIONS: &str = "camera=(), microphone=(), geolocation=(), usb=(), serial=(), hid=(), bluetooth=(), midi=(), \
                           payment=(), display-capture=(), clipboard-read=(), clipboard-write=(), fullscreen=()";

/// Everything on the origin of plugins.
pub fn plugin_frames(plugins: Arc<Plugins>) -> Router {
    Router::new()
        .fallback(|State(plugins): State<Arc<Plugins>>, request| answer(plugins, request))
        .with_state(plugins)
}

async fn answer(plugins: Arc<Plugins>, request: Request) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return guarded((StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD")]).into_response(), None);
    }
    let path = request.uri().path().to_owned();
    let found = tokio::task::spawn_blocking(move || plugins.document(&path)).await.ok().flatten();
    match found {
        Some(Document { bytes, policy }) => guarded(bytes.into_response(), Some(&policy)),
        None => guarded((StatusCode::NOT_FOUND, "There is no such plugin.").into_response(), None),
    }
}

fn guarded(mut response: Response, policy: Option<&str>) -> Response {
    let headers = response.headers_mut();
    let kind = if policy.is_some() { "text/html; charset=utf-8" } else { "text/plain; charset=utf-8" };
    let fixed: [(HeaderName, &'static str); 7] = [
        (CONTENT_TYPE, kind),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-dns-prefetch-control"), "off"),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let nothing = HeaderValue::from_static("default-src 'none'; sandbox; frame-ancestors 'none'");
    // A policy that cannot be sent is not weakened: then nothing is allowed.
    let policy = policy.and_then(|policy| HeaderValue::from_str(policy).ok()).unwrap_or(nothing);
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    response
}
