//! Dispatches every request: authentication, routing, CSRF check, rendering.

use std::error::Error as _;
use std::io;
use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::{Html, IntoResponse as _, Response};
use http::header::{ACCEPT, ALLOW, CONTENT_DISPOSITION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::LengthLimitError;
use maud::html;
use runs::{ApiCode, Caller, Refusal};
use system::CorrelationId;

use crate::bidi::show_controls;
use crate::call::{Fields, PageRequest};
use crate::composed::Shell;
use crate::console::Shared;
use crate::mount::{self, BASE};
use crate::page::{Page, PageResponse};
use crate::provider::{self, Handler, Provider};
use crate::sign_in::{self, Session};
use crate::{layout, live, parts, status};

/// The largest form, in bytes. Matches the limit of run inputs.
const MAX_FORM_BYTES: usize = 1 << 20;
/// The largest form of a user who is not signed in: a key, a token and a path.
const MAX_SIGN_IN_BYTES: usize = 16 << 10;

/// The longest path and query that is redirected to the console.
const MAX_REDIRECTED: usize = 2048;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

pub(crate) async fn answer(console: Arc<Shared>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let response = match mount::page(parts.uri.path()) {
        None => outside(&parts),
        Some(page) => match page.strip_prefix("/assets/") {
            Some(name) => console.assets.answer(name, &parts.headers),
            None => entered(&console, &parts, page, body).await,
        },
    };
    sign_in::guard(response, &console.policy)
}

/// The response outside of the console. Pages had these paths before the console got its own, and people have bookmarks.
fn outside(parts: &Parts) -> Response {
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    // Browsers request these by themselves.
    let is_file = matches!(parts.uri.path(), "/favicon.ico" | "/robots.txt");
    match parts.uri.path_and_query() {
        Some(page) if is_read && !is_file && page.as_str().len() <= MAX_REDIRECTED => {
            see(&mount::address(page.as_str()))
        }
        _ => plain(&Refusal::new(ApiCode::NotFound, "Page not found. The console is at /console.")),
    }
}

async fn entered(console: &Arc<Shared>, parts: &Parts, page: &str, body: Body) -> Response {
    let session = console.sessions.session(&parts.headers, console.now());
    let form = match (&parts.method, page) {
        (&Method::GET | &Method::HEAD, _) => None,
        // Only signed-in users, and the sign-in form, may make the host read a request body.
        (&Method::POST, path) if path != "/sign-in" && session.is_none() => return require_sign_in(parts),
        (&Method::POST, path) => match form(&parts.headers, body, most_bytes(path)).await {
            Ok(form) => Some(form),
            Err(refusal) => return plain(&refusal),
        },
        _ => {
            let refusal =
                Refusal::new(ApiCode::MethodNotAllowed, "Method not allowed. Use GET, HEAD or POST.");
            let mut response = plain(&refusal);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
            return response;
        }
    };
    match (page, &form) {
        ("/sign-in", form) => return sign_in::sign_in(console, parts, form.as_ref()).await,
        ("/sign-out", Some(form)) => return sign_in::sign_out(console, session.as_ref(), form).await,
        _ => {}
    }
    let Some(session) = session else { return require_sign_in(parts) };
    match console.runs.keys().authenticate_hash(session.key).await {
        Ok(caller) => signed_in(console, parts, page, form, &session, caller).await,
        Err(_) => require_sign_in(parts),
    }
}

/// The response to a user who is not signed in, or whose session ended.
fn require_sign_in(parts: &Parts) -> Response {
    if is_stream(&parts.headers) {
        // A stream cannot redirect to a form; the script reloads the page instead.
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let wanted = parts.uri.path_and_query().map_or(BASE, |path| path.as_str());
    let wanted =
        sign_in::local_address(wanted).filter(|wanted| parts.method == Method::GET && *wanted != BASE);
    match wanted {
        None => see(&mount::address("/sign-in")),
        Some(wanted) => {
            let to = form_urlencoded::byte_serialize(wanted.as_bytes()).collect::<String>();
            see(&mount::address(&format!("/sign-in?to={to}")))
        }
    }
}

async fn signed_in(
    console: &Arc<Shared>,
    parts: &Parts,
    path: &str,
    form: Option<Fields>,
    session: &Session,
    caller: Caller,
) -> Response {
    let shell = console.composer.shell(&caller);
    let found = shell.find(path).map(|(route, params)| (route.clone(), params));
    let (handle, params) = found
        .as_ref()
        .map_or_else(Default::default, |(route, params)| (route.handle.clone(), params.clone()));
    let is_post = form.is_some();
    let call = Arc::new(PageRequest {
        console: Arc::clone(console),
        shell: Arc::clone(&shell),
        caller,
        params,
        query: Fields::read(parts.uri.query().unwrap_or_default().as_bytes()),
        form: form.unwrap_or_default(),
        now: console.now(),
        handle,
        path: path.to_owned(),
        csrf: session.csrf.clone(),
        regions: Mutex::default(),
    });
    let Some((route, _)) = found else { return shown(&call, not_found(&call, &shell).into()) };
    if let Some(missing) = route.needs.iter().find(|scope| !call.may(**scope)) {
        return shown(&call, refused(&Refusal::scope(*missing)).into());
    }
    let handler = match provider::find(&call.handle.owner_id, &call.handle.kind, &call.handle.id) {
        Some(Provider::Route { get, post, .. }) => {
            if is_post {
                post
            } else {
                get
            }
        }
        Some(Provider::Panel(_)) | None => {
            return shown(&call, panel(&call, &route.key, "WCP_RENDER_HANDLE_MISSING").into());
        }
    };
    let Some(handler) = handler else {
        let message = if is_post {
            "This page does not accept forms."
        } else {
            "This is an action. Submit its form with POST."
        };
        return shown(&call, refused(&Refusal::new(ApiCode::MethodNotAllowed, message)).into());
    };
    if is_post && !is_ours(&parts.headers, session, &call.form) {
        let message =
            "The form has expired or belongs to another page. Go back, reload the page and submit it again.";
        return shown(&call, refused(&Refusal::new(ApiCode::Forbidden, message)).into());
    }
    if !is_post && is_stream(&parts.headers) {
        return live::stream(call, handler, session, &parts.headers).await;
    }
    let answer = match contained(handler, Arc::clone(&call)).await {
        Some(Ok(answer)) => answer,
        Some(Err(refusal)) => failed(refusal, parts).into(),
        None => panel(&call, &route.key, "WCP_RENDER_COMPONENT_FAILED").into(),
    };
    shown(&call, answer)
}

/// Calls a provider in a task, so that a panic in it does not affect the layout or the process.
pub(crate) async fn contained(
    handler: Handler,
    call: Arc<PageRequest>,
) -> Option<Result<PageResponse, Refusal>> {
    match tokio::spawn(handler(call)).await {
        Ok(answered) => Some(answered),
        Err(error) => {
            tracing::error!(%error, "a page failed");
            None
        }
    }
}

fn shown(call: &PageRequest, answer: PageResponse) -> Response {
    match answer {
        PageResponse::Page(page) => {
            let status = page.status;
            (status, Html(show_controls(layout::page(call, &page).0))).into_response()
        }
        PageResponse::See(path) => see(&path),
        PageResponse::Data(value) => {
            ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], value.to_string())
                .into_response()
        }
        PageResponse::File(name, bytes) => {
            // Always download, never display: the content is untrusted.
            let name: String = name
                .chars()
                .map(|found| {
                    if found.is_ascii_alphanumeric() || matches!(found, '.' | '-' | '_') {
                        found
                    } else {
                        '_'
                    }
                })
                .take(100)
                .collect();
            let mut response = bytes.into_response();
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
                headers.insert(CONTENT_DISPOSITION, value);
            }
            response
        }
    }
}

/// Whether a form was submitted from a page of this session: it has the CSRF token, and the browser
/// does not report another origin.
fn is_ours(headers: &HeaderMap, session: &Session, form: &Fields) -> bool {
    let site = headers.get(SEC_FETCH_SITE).and_then(|site| site.to_str().ok());
    let is_from_here = site.is_none_or(|site| matches!(site, "same-origin" | "none"));
    is_from_here && session.owns(form.text(parts::CSRF_FIELD).unwrap_or_default())
}

fn most_bytes(path: &str) -> usize {
    if path == "/sign-in" { MAX_SIGN_IN_BYTES } else { MAX_FORM_BYTES }
}

/// Reads a form. The server that mounts this console limits how long that may take.
async fn form(headers: &HeaderMap, body: Body, most: usize) -> Result<Fields, Refusal> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().unwrap_or_default().trim() != "application/x-www-form-urlencoded" {
        let message = "Forms must be sent as application/x-www-form-urlencoded.";
        return Err(Refusal::new(ApiCode::UnsupportedMediaType, message));
    }
    let bytes = to_bytes(body, most).await.map_err(|error| unread(&error, most))?;
    Ok(Fields::read(&bytes))
}

fn unread(error: &axum::Error, most: usize) -> Refusal {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            let message = format!("The form is too large; the limit is {most} bytes.");
            return Refusal::new(ApiCode::PayloadTooLarge, message);
        }
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return Refusal::new(
                ApiCode::RequestTimeout,
                "The form did not arrive in time. Submit it again.",
            );
        }
        cause = error.source();
    }
    Refusal::new(ApiCode::ValidationError, "The form was incomplete. Submit it again.")
}

fn is_stream(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()) == Some("text/event-stream")
}

pub(crate) fn see(path: &str) -> Response {
    sign_in::see(path)
}

/// The error page: what failed and what to do. A failure of the host is logged with its causes, and
/// the page shows the correlation id.
fn failed(refusal: Refusal, parts: &Parts) -> Page {
    if !refusal.is_host_failure() {
        return refused(&refusal);
    }
    let (code, cause) = (refusal.code.as_str(), system::causes(&refusal));
    tracing::error!(error.code = code, cause, "a page could not be shown");
    match parts.extensions.get::<CorrelationId>() {
        Some(CorrelationId(id)) => refused(&refusal.detail("correlationId", id.as_str())),
        None => refused(&refusal),
    }
}

pub(crate) fn refused(refusal: &Refusal) -> Page {
    let kind = refusal.code.kind();
    let body = html! {
        p.notice.bad role="alert" { (refusal.message) }
        @if !refusal.details.is_empty() {
            details { summary { "Details" } (parts::json(&refusal.details.clone().into())) }
        }
        p.muted { "Code " code { (refusal.code.as_str()) } }
    };
    Page::new(status::title(kind), body).status(status::for_kind(kind))
}

fn plain(refusal: &Refusal) -> Response {
    (status::for_kind(refusal.code.kind()), refusal.message.clone()).into_response()
}

/// An unknown path. It may belong to a module that is not ready.
fn not_found(call: &PageRequest, shell: &Shell) -> Page {
    if let Some(module) = shell.inactive_at(&call.path) {
        let body = html! {
            p.notice { "This page belongs to the module " strong { (module.instance_id) }
                ", which is " strong { (module.status) } "." }
            (layout::fallbacks(call, Some(&module.instance_id)))
            @if let Some(message) = &module.message { p { (message) } }
        };
        return Page::new("Not available", body).status(StatusCode::NOT_FOUND);
    }
    let message = "Page not found. The console policy may have moved or hidden it.";
    refused(&Refusal::new(ApiCode::NotFound, message))
}

/// Shown in place of a contribution that failed to render: its owner, the code, and how to retry.
fn panel(call: &PageRequest, key: &str, code: &str) -> Page {
    let label = call.shell.route(key).and_then(|route| route.label.clone());
    let body = html! {
        section.panel {
            h2 { (label.as_deref().unwrap_or(key)) }
            p { "This part of the page could not be rendered. The rest of the console is not affected." }
            dl.facts {
                dt { "Owner" } dd { (call.handle.owner_id) }
                dt { "Key" } dd { code { (key) } }
                dt { "Code" } dd { code { (code) } }
            }
            p { a.button href=(call.here()) { "Retry" } " "
                (call.anchor("builtin-interlock-console:routes/diagnostics", &[], "Diagnostics")) }
        }
    };
    Page::new("Rendering failed", body).status(StatusCode::INTERNAL_SERVER_ERROR)
}
