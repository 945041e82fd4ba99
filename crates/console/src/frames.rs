//! Serves plugin documents on a separate origin.
//!
//! This origin serves only the entry documents named in pack manifests: no cookies, no console
//! pages, no other pack files. Each document is verified on every request and served with a content
//! security policy that lets it load nothing and connect only to declared addresses. Browsers do
//! not apply that policy to WebRTC.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use plugins::Plugins;
use plugins::installed::Document;

/// Browser features denied to plugins.
const PERMISSIONS: &str = "camera=(), microphone=(), geolocation=(), usb=(), serial=(), hid=(), bluetooth=(), midi=(), \
                           payment=(), display-capture=(), clipboard-read=(), clipboard-write=(), fullscreen=()";

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
        None => guarded((StatusCode::NOT_FOUND, "Plugin not found.").into_response(), None),
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
    // If the policy is not a valid header, deny everything.
    let policy = policy.and_then(|policy| HeaderValue::from_str(policy).ok()).unwrap_or(nothing);
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    response
}
