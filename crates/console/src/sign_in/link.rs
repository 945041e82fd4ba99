//! Sign-in links: a single-use, short-lived code in a URL, as an alternative to an API key.
//!
//! The program that serves the console issues a link for a key that it holds and prints it. Opening
//! the link gives the same session as signing in with the key. The URL never contains the key. Only
//! the hash of a code is kept, and only in memory: a restart invalidates all open links.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use axum::response::Response;
use canon::digest::Digest;
use canon::time::Timestamp;
use http::header::SET_COOKIE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use maud::{Markup, html};
use runs::{ApiCode, Refusal};
use subtle::ConstantTimeEq as _;
use system::Entropy;

use super::form::{begin, local_address, see, show, visited};
use crate::call::Fields;
use crate::console::Shared;
use crate::mount::{self, BASE};
use crate::parts::CSRF_FIELD;

/// The field and query parameter of a code.
const CODE: &str = "code";
const LIFETIME_MINUTES: u64 = 15;
/// How many links can be open at once. A new link closes the oldest.
const MAX_OPEN: usize = 16;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_PURPOSE: HeaderName = HeaderName::from_static("sec-purpose");

/// The open sign-in links of a console. Clones share them.
#[derive(Clone, Default)]
pub struct SignInLinks(Arc<Mutex<Vec<OpenLink>>>);

struct OpenLink {
    code: Digest,
    target: Target,
    expires_at: Timestamp,
}

#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// The hash of the session's key.
    key: Digest,
    address: String,
}

impl fmt::Debug for SignInLinks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SignInLinks").finish_non_exhaustive()
    }
}

impl SignInLinks {
    pub const LIFETIME_MINUTES: u64 = LIFETIME_MINUTES;

    /// Issues a link for the key with the hash `key`. Returns the path and query of the link.
    /// Following it signs the user in and redirects to `path`, or to the overview if that is not a
    /// path of the console.
    ///
    /// # Errors
    /// If the system's random number generator failed.
    pub fn issue(
        &self,
        key: Digest,
        path: &str,
        now: Timestamp,
        entropy: &dyn Entropy,
    ) -> io::Result<String> {
        let mut random = [0; 32];
        entropy.fill(&mut random)?;
        let code = canon::encoding::hex(&random);
        let target = Target { key, address: address_of(path) };
        let link = OpenLink {
            code: Digest::of_bytes(code.as_bytes()),
            target,
            expires_at: now.plus(LIFETIME_MINUTES * 60 * 1000),
        };
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|link| now < link.expires_at);
        if open.len() >= MAX_OPEN {
            open.remove(0);
        }
        open.push(link);
        Ok(format!("{BASE}/sign-in?{CODE}={code}"))
    }

    /// Redeems a code. Of several requests with one code, exactly one gets its target.
    fn redeem(&self, code: &str, now: Timestamp) -> Option<Target> {
        let code = Digest::of_bytes(code.as_bytes());
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|link| now < link.expires_at);
        let is_asked_for = |link: &OpenLink| bool::from(link.code.as_bytes().ct_eq(code.as_bytes()));
        let place = open.iter().position(is_asked_for)?;
        Some(open.remove(place).target)
    }
}

/// The address of a page of the console, or of the overview if the path is not one of a page.
fn address_of(page: &str) -> String {
    let address = mount::address(page);
    local_address(&address).unwrap_or(BASE).to_owned()
}

/// The code in a request: from the link's query, or from the confirmation form.
pub(super) fn code(fields: &Fields) -> Option<&str> {
    fields.text(CODE)
}

/// Handles a request with a code. Attempts are not limited: a code has 256 random bits.
pub(super) async fn follow(console: &Shared, parts: &Parts, code: &str, form: Option<&Fields>) -> Response {
    let now = console.now();
    let is_meant = match form {
        Some(form) => {
            let token = form.text(CSRF_FIELD).unwrap_or_default();
            console.sessions.is_visit(&parts.headers, token, now)
        }
        None => parts.method == Method::GET && is_opened_by_person(&parts.headers),
    };
    if !is_meant {
        let status = if form.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK };
        return visited(console, parts, status, |token| confirmation(token, code));
    }
    let entered = match console.links.redeem(code, now) {
        Some(target) => enter(console, &target).await,
        None => Err(closed()),
    };
    match entered {
        Ok(response) => response,
        // Opened again by a user who is already signed in: redirect to the target.
        Err(_) if is_signed_in(console, &parts.headers).await => see(BASE),
        Err(refusal) => show(console, parts, BASE, Some(&refusal)),
    }
}

async fn enter(console: &Shared, target: &Target) -> Result<Response, Refusal> {
    console.runs.keys().authenticate_hash(target.key).await?;
    let cookie = begin(console, target.key)?;
    let mut response = see(&target.address);
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

async fn is_signed_in(console: &Shared, headers: &HeaderMap) -> bool {
    match console.sessions.session(headers, console.now()) {
        Some(session) => console.runs.keys().authenticate_hash(session.key).await.is_ok(),
        None => false,
    }
}

fn closed() -> Refusal {
    let message = format!(
        "This sign-in link was already used, or is older than {LIFETIME_MINUTES} minutes. Sign in with an API key instead."
    );
    Refusal::new(ApiCode::Unauthenticated, message)
}

/// Whether the browser reports that a person opened the URL directly: typed, pasted, or from
/// another program.
///
/// Another site must not sign its visitors in without asking, and a `SameSite=Strict` cookie would
/// not be sent back to it. A browser that prefetches pages must not redeem the link.
fn is_opened_by_person(headers: &HeaderMap) -> bool {
    let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    site.is_none_or(|site| matches!(site, b"none" | b"same-origin")) && !headers.contains_key(SEC_PURPOSE)
}

/// Asks for confirmation before a code is redeemed.
fn confirmation(token: &str, code: &str) -> Markup {
    html! {
        form method="post" action={ (BASE) "/sign-in" } class="sign-in" {
            h1 { "Sign in" }
            p { "This link signs you in to the console. It works once." }
            input type="hidden" name=(CSRF_FIELD) value=(token);
            input type="hidden" name=(CODE) value=(code);
            button.primary type="submit" { "Sign in" }
        }
    }
}

#[cfg(test)]
mod tests {
    use system::SystemEntropy;

    use super::*;

    fn issued(links: &SignInLinks, path: &str, now: Timestamp) -> String {
        let link = links.issue(Digest::of_bytes(b"key"), path, now, &SystemEntropy).unwrap();
        link.strip_prefix("/console/sign-in?code=").unwrap().to_owned()
    }

    #[test]
    fn a_link_works_once_and_until_it_expires() {
        let links = SignInLinks::default();
        let (start, lifetime) = (Timestamp(1_000), LIFETIME_MINUTES * 60 * 1000);
        let target =
            |path: &str| Some(Target { key: Digest::of_bytes(b"key"), address: mount::address(path) });
        let code = issued(&links, "/approvals", start);
        assert_eq!(links.redeem("", start), None);
        assert_eq!(links.redeem(&code[1..], start), None, "a part of the code");
        assert_eq!(links.redeem(&code, start.plus(lifetime - 1)), target("/approvals"));
        assert_eq!(links.redeem(&code, start), None, "a second time");
        let late = issued(&links, "/", start);
        assert_eq!(links.redeem(&late, start.plus(lifetime)), None, "too late");
        let elsewhere = issued(&links, "//example.org", start);
        assert_eq!(links.redeem(&elsewhere, start), target("/"), "no redirect to another host");
    }

    #[test]
    fn new_links_close_the_oldest() {
        let links = SignInLinks::default();
        let codes: Vec<String> = (0..=MAX_OPEN).map(|_| issued(&links, "/", Timestamp(0))).collect();
        assert_eq!(links.redeem(&codes[0], Timestamp(1)), None);
        assert!(codes[1..].iter().all(|code| links.redeem(code, Timestamp(1)).is_some()));
    }

    #[test]
    fn a_code_is_redeemed_once_under_concurrency() {
        let links = SignInLinks::default();
        let code = issued(&links, "/", Timestamp(0));
        let entered = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..8).map(|_| scope.spawn(|| links.redeem(&code, Timestamp(1)))).collect();
            tries.into_iter().filter_map(|one| one.join().unwrap()).count()
        });
        assert_eq!(entered, 1);
    }
}
