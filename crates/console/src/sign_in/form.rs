//! Signing in with a key, and signing out.

use std::net::IpAddr;
use std::sync::Arc;

use runs::rates::LimitedRequest;
use runs::{ApiCode, Refusal};

use axum::response::{IntoResponse as _, Response};
use canon::digest::Digest;
use flow::id::Tenant;
use http::header::{LOCATION, SET_COOKIE};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use maud::{Markup, html};

use super::{Session, link};
use crate::call::Fields;
use crate::console::Shared;
use crate::mount::{self, BASE};
use crate::sign_in::ended::SessionName;
use crate::{layout, parts, status};

const MAX_KEY_BYTES: usize = 1024;

/// Shows the sign-in form, or handles its submission.
pub(crate) async fn sign_in(console: &Shared, parts: &Parts, sent: Option<&Fields>) -> Response {
    let query = Fields::read(parts.uri.query().unwrap_or_default().as_bytes());
    let fields = sent.unwrap_or(&query);
    if let Some(code) = link::code(fields) {
        return link::follow(console, parts, code, sent).await;
    }
    let wanted = fields.text("to").and_then(local_address).unwrap_or(BASE);
    let Some(sent) = sent else { return show(console, parts, wanted, None) };
    match enter(console, parts, sent).await {
        Ok(cookie) => {
            let mut response = see(wanted);
            response.headers_mut().insert(SET_COOKIE, cookie);
            response
        }
        Err(refusal) => show(console, parts, wanted, Some(&refusal)),
    }
}

async fn enter(console: &Shared, parts: &Parts, form: &Fields) -> Result<HeaderValue, Refusal> {
    let now = console.now();
    let token = form.text(parts::CSRF_FIELD).unwrap_or_default();
    if !console.sessions.is_visit(&parts.headers, token, now) {
        let message =
            "The form has expired, or your browser does not accept cookies from this host. Try again.";
        return Err(Refusal::new(ApiCode::Forbidden, message));
    }
    let key = form.text("key").filter(|key| key.len() <= MAX_KEY_BYTES).unwrap_or_default();
    // Keys are looked up by hash, so the timing reveals nothing about similar keys.
    if let Err(refusal) = console.runs.keys().authenticate(key).await {
        // Only failures count against the limits. A valid key always works, even if others behind
        // the same address fail.
        let peer = parts.extensions.get::<IpAddr>().map(ToString::to_string).unwrap_or_default();
        let fingerprint = &runs::keys::hash(key).to_hex()[..16];
        // Without a valid key there is no tenant, so the address is used in its place.
        let address = Tenant::new(peer.as_str());
        let asked = LimitedRequest {
            key: &format!("{peer} {fingerprint}"),
            tenant: Some(&address),
            route: "sign-in",
        };
        console.failed_sign_ins.admit(&asked, now)?;
        return Err(match refusal.code {
            ApiCode::Unauthenticated => {
                let message = "Unknown API key. Create one with `interlock key new`.";
                Refusal::new(ApiCode::Unauthenticated, message)
            }
            _ => refusal,
        });
    }
    begin(console, runs::keys::hash(key))
}

/// The cookie of a new session for a key, by its hash.
pub(super) fn begin(console: &Shared, key: Digest) -> Result<HeaderValue, Refusal> {
    let cookie = console.sessions.begin(key, console.now());
    cookie.ok_or_else(|| {
        Refusal::new(
            ApiCode::InternalError,
            "Signing in is not possible: the host could not create a cookie. See its log.",
        )
    })
}

pub(super) fn show(console: &Shared, parts: &Parts, wanted: &str, refusal: Option<&Refusal>) -> Response {
    let status = refusal.map_or(StatusCode::OK, |refusal| status::for_kind(refusal.code.kind()));
    visited(console, parts, status, |token| form(token, wanted, refusal))
}

/// A page for a user who is not signed in, with a form that holds its CSRF token.
pub(super) fn visited(
    console: &Shared,
    parts: &Parts,
    status: StatusCode,
    form: impl FnOnce(&str) -> Markup,
) -> Response {
    let Some((token, cookie)) = console.sessions.visit(&parts.headers, console.now()) else {
        return (
            StatusCode::INTERNAL_SERVER_ERROR,
            "The system's random number generator failed. Try again.",
        )
            .into_response();
    };
    let page = layout::bare(&console.assets, "Sign in", &form(&token));
    let mut response = (status, axum::response::Html(page.0)).into_response();
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn form(token: &str, wanted: &str, refusal: Option<&Refusal>) -> Markup {
    html! {
        form method="post" action={ (BASE) "/sign-in" } class="sign-in" {
            h1 { "Sign in" }
            @if let Some(refusal) = refusal {
                p.notice.bad role="alert" { (refusal.message) }
            }
            input type="hidden" name=(parts::CSRF_FIELD) value=(token);
            input type="hidden" name="to" value=(wanted);
            label for="key" { "API key" }
            input #key type="password" name="key" required autofocus autocomplete="current-password"
                spellcheck="false" aria-describedby="key-help";
            p #key-help.muted {
                "The key that " code { "interlock serve" } " printed when it first started, or one created with "
                code { "interlock key new" } "."
            }
            button.primary type="submit" { "Sign in" }
        }
    }
}

/// Ends a session, for every copy of its cookie. Without a cookie, the user is already signed out.
pub(crate) async fn sign_out(console: &Arc<Shared>, session: Option<&Session>, form: &Fields) -> Response {
    let token = form.text(parts::CSRF_FIELD).unwrap_or_default();
    if session.is_some_and(|session| !session.owns(token)) {
        return (StatusCode::FORBIDDEN, "The form has expired. Go back and try again.").into_response();
    }
    let mut response = match session {
        None => see(&mount::address("/sign-in")),
        Some(session) => match ended(console, session.name).await {
            Ok(()) => see(&mount::address("/sign-in")),
            Err(error) => {
                tracing::error!(%error, "cannot record a sign-out");
                let message = "You are signed out, but the host could not save this. If the host restarts before the \
                               session expires, the session becomes valid again. Free some disk space, sign in and \
                               sign out again.";
                (StatusCode::INTERNAL_SERVER_ERROR, message).into_response()
            }
        },
    };
    if let Some(cookie) = console.sessions.end() {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Records the end of a session on a blocking thread, because it waits for the disk.
async fn ended(console: &Arc<Shared>, name: SessionName) -> std::io::Result<()> {
    let console = Arc::clone(console);
    let now = console.now();
    let recorded = tokio::task::spawn_blocking(move || console.sessions.ended.end(name, now)).await;
    recorded.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

/// Redirects to an address of this console.
pub(crate) fn see(path: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let location = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static(BASE));
    response.headers_mut().insert(LOCATION, location);
    response
}

/// The value if it is the address of a page of this console, otherwise `None`.
pub(crate) fn local_address(text: &str) -> Option<&str> {
    let is_page = mount::page(text.split(['?', '#']).next().unwrap_or_default())
        .is_some_and(|page| !page.starts_with("//") && !page.starts_with("/sign-"));
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    (is_page && is_plain && text.len() <= 2048).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_the_console_are_redirect_targets() {
        let cases = [
            ("/console", true),
            ("/console?done=saved", true),
            ("/console/runs?status=failed", true),
            ("", false),
            ("/", false),
            ("/runs", false),
            ("/consoles", false),
            ("/v1/runs", false),
            ("runs", false),
            ("//example.org", false),
            ("/\\example.org", false),
            ("https://example.org", false),
            ("/console/runs\r\nSet-Cookie: x", false),
            ("/console/sign-out", false),
            ("/console//example.org", false),
            ("/console/sign-in?to=/", false),
        ];
        for (text, is_kept) in cases {
            assert_eq!(local_address(text).is_some(), is_kept, "{text}");
        }
    }
}
