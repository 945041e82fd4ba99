//! Signing in, sessions, and the security headers of every response.

use axum::body::Body;
use futures_util::StreamExt as _;
use http::Request;
use runs::Scope;
use serde_json::json;

use crate::pages::waiting;
use crate::support::{KEY, READER, REVOKED, Site, put_key};

#[tokio::test]
async fn pages_require_sign_in_and_redirect_back_after_it() {
    let site = Site::open().await;
    let browser = site.visitor();
    for path in ["/", "/runs", "/runs/none", "/approvals", "/diagnostics", "/no-such-page"] {
        let page = browser.get(path).await;
        assert_eq!(
            (page.status, page.header("location").starts_with("/console/sign-in")),
            (303, true),
            "{path}"
        );
    }
    let sent = browser.get("/runs?status=failed").await;
    assert_eq!(sent.header("location"), "/console/sign-in?to=%2Fconsole%2Fruns%3Fstatus%3Dfailed");
    let entered = browser.sign_in(KEY, "/console/runs?status=failed").await;
    assert_eq!((entered.status, entered.header("location")), (303, "/console/runs?status=failed"));
    assert_eq!(browser.get("/runs?status=failed").await.status, 200);
    let elsewhere = site.visitor().sign_in(KEY, "//example.org").await;
    assert_eq!(elsewhere.header("location"), "/console", "no redirect to another host");
}

#[tokio::test]
async fn invalid_keys_are_rejected() {
    let site = Site::open().await;
    let cases = [("", "Unknown API key"), ("wrong", "Unknown API key"), (REVOKED, "was revoked")];
    for (key, said) in cases {
        let browser = site.visitor();
        let page = browser.sign_in(key, "/").await;
        assert_eq!(page.status, 401, "{key}");
        page.shows(&[said]);
        assert_eq!(browser.get("/").await.status, 303, "{key}");
    }
    let page = site.visitor().post("/sign-in", &[("key", KEY), ("csrf", "forged")]).await;
    assert_eq!(page.status, 403, "a form from another page");
}

/// Finding A2: the demo made people paste a key.
#[tokio::test]
async fn a_sign_in_link_gives_a_session_once() {
    let site = Site::open().await;
    let link = site.link(KEY, "/runs?status=failed");
    assert!(!link.contains(KEY), "{link}");
    let browser = site.visitor();
    let head = browser.send(Request::head(&link).body(Body::empty()).unwrap()).await;
    assert_eq!(
        (head.status, head.header("set-cookie").contains("session")),
        (200, false),
        "no session was created"
    );
    let entered = browser.get(&link).await;
    assert_eq!((entered.status, entered.header("location")), (303, "/console/runs?status=failed"));
    assert!(entered.header("set-cookie").starts_with("interlock-session="));
    let page = browser.get("/runs").await;
    assert_eq!(page.status, 200);
    // The session is equivalent to one from the key: its forms are accepted, and others are
    // rejected.
    assert_eq!(browser.post("/sign-out", &[("csrf", "forged")]).await.status, 403);
    let again = browser.get(&link).await;
    assert_eq!((again.status, again.header("location")), (303, "/console"), "signed in already");
    let other = site.visitor().get(&link).await;
    assert_eq!((other.status, other.header("set-cookie").contains("session")), (401, false));
    other.shows(&["This sign-in link was already used", "name=\"key\""]);
    assert_eq!(browser.submit(&page, "/sign-out", &[]).await.status, 303);
    assert_eq!(browser.get(&link).await.status, 401, "signed out, and the link is used up");
}

#[tokio::test]
async fn a_sign_in_link_asks_for_confirmation_unless_opened_directly() {
    let site = Site::open().await;
    let cases = [
        ("a link on another site", "sec-fetch-site", "cross-site"),
        ("a link on another port", "sec-fetch-site", "same-site"),
        ("loaded ahead of time", "sec-purpose", "prefetch;prerender"),
    ];
    for (name, header, value) in cases {
        let link = site.link(KEY, "/runs");
        let browser = site.visitor();
        let request = Request::get(&link).header(header, value).body(Body::empty()).unwrap();
        let asked = browser.send(request).await;
        assert_eq!((asked.status, asked.header("set-cookie").contains("session")), (200, false), "{name}");
        let code = asked.field("code").to_owned();
        let forged = browser.post("/sign-in", &[("code", &code), ("csrf", "forged")]).await;
        assert_eq!((forged.status, forged.header("set-cookie").contains("session")), (403, false), "{name}");
        let entered = browser.submit(&asked, "/sign-in", &[("code", &code)]).await;
        assert_eq!((entered.status, entered.header("location")), (303, "/console/runs"), "{name}");
        assert_eq!(browser.get("/runs").await.status, 200, "{name}");
    }
}

#[tokio::test]
async fn a_sign_in_link_has_the_rights_of_its_key() {
    let site = Site::open().await;
    for (name, key) in [("unknown", "no-such-key"), ("revoked", REVOKED)] {
        let browser = site.visitor();
        let page = browser.get(&site.link(key, "/runs")).await;
        assert_eq!((page.status, page.header("set-cookie").contains("session")), (401, false), "{name}");
    }
    let reader = site.visitor();
    assert_eq!(reader.get(&site.link(READER, "/keys")).await.status, 303);
    assert_eq!(reader.get("/keys").await.status, 403, "no more rights than the key");
}

#[tokio::test]
async fn guessing_keys_is_rate_limited() {
    let site = Site::open().await;
    let browser = site.visitor();
    let page = browser.get("/sign-in").await;
    let mut statuses = Vec::new();
    for _ in 0..200 {
        statuses.push(browser.submit(&page, "/sign-in", &[("key", "guess")]).await.status);
        if statuses.last() == Some(&429) {
            break;
        }
    }
    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses.last(), Some(&429));
}

/// Finding M4: failed sign-ins, however many, never delay a person with a valid key.
#[tokio::test]
async fn valid_keys_work_during_rate_limiting() {
    let site = Site::open().await;
    for _ in 0..30 {
        let junk = site.visitor().post("/sign-in", &[("key", "x")]).await;
        assert_eq!(junk.status, 403, "without a form of this host no key is looked up");
    }
    let guesser = site.visitor();
    let page = guesser.get("/sign-in").await;
    let mut last = 0;
    for guess in 0..100 {
        last = guesser.submit(&page, "/sign-in", &[("key", &format!("guess-{guess}"))]).await.status;
    }
    assert_eq!(last, 429, "guessing with many keys is slowed down as well");
    for _ in 0..30 {
        assert_eq!(site.visitor().sign_in(KEY, "/").await.status, 303);
    }
}

#[tokio::test]
async fn revoking_a_key_ends_its_sessions_at_once() {
    let site = Site::open().await;
    let browser = site.signed_in(KEY).await;
    assert_eq!(browser.get("/runs").await.status, 200);
    put_key(&site.runs, KEY, "full", "default", Scope::ALL.to_vec(), Some(1)).await;
    assert_eq!(browser.get("/runs").await.status, 303);
}

#[tokio::test]
async fn signing_out_requires_the_csrf_token() {
    let site = Site::open().await;
    let browser = site.signed_in(KEY).await;
    assert_eq!(browser.post("/sign-out", &[("csrf", "forged")]).await.status, 403);
    let page = browser.get("/runs").await;
    assert_eq!(page.status, 200);
    let out = browser.submit(&page, "/sign-out", &[]).await;
    assert_eq!((out.status, out.header("location")), (303, "/console/sign-in"));
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(browser.get("/runs").await.status, 303);
}

/// Finding M3: signing out ends the session itself, and not only the cookie of one browser.
#[tokio::test]
async fn a_copied_cookie_is_invalid_after_sign_out() {
    let site = Site::open().await;
    let (browser, other) = (site.signed_in(KEY).await, site.signed_in(KEY).await);
    let copy = browser.copy();
    let mut live = copy.follow("/runs", None).await;
    let page = browser.get("/runs").await;
    assert_eq!(browser.submit(&page, "/sign-out", &[]).await.status, 303);
    assert_eq!(copy.get("/runs").await.status, 303);
    assert_eq!(copy.post("/runs", &[("csrf", page.field("csrf"))]).await.status, 303);
    while live.next().await.is_some() {}
    let again = site.again();
    assert_eq!(copy.at(&again).get("/runs").await.status, 303, "a restart does not revive the session");
    assert_eq!(other.get("/runs").await.status, 200, "another session of the same key remains valid");
    assert_eq!(other.at(&again).get("/runs").await.status, 200);
}

/// Finding M2: the live pages of a key end with it.
#[tokio::test]
async fn live_pages_end_when_their_key_is_revoked() {
    let site = Site::open().await;
    let run = site.run(&waiting("w"), json!({})).await;
    let browser = site.signed_in(READER).await;
    let mut streams = Vec::new();
    for path in ["/runs".to_owned(), format!("/runs/{run}")] {
        let mut stream = browser.follow(&path, None).await;
        assert!(stream.next().await.is_some(), "{path} is live");
        streams.push(stream);
    }
    put_key(&site.runs, READER, "reader", "default", vec![Scope::RunsRead], Some(1)).await;
    for mut stream in streams {
        while stream.next().await.is_some() {}
    }
}

#[tokio::test]
async fn forms_require_the_csrf_token_of_their_session() {
    let site = Site::open().await;
    let run = site.run(&waiting("w"), json!({})).await;
    let browser = site.signed_in(KEY).await;
    let token = browser.get("/runs").await.field("csrf").to_owned();
    let path = format!("/console/runs/{run}/cancel");
    for (name, fields) in
        [("none", vec![]), ("forged", vec![("csrf", "0000")]), ("empty", vec![("csrf", "")])]
    {
        assert_eq!(browser.post(&path, &fields).await.status, 403, "{name}");
    }
    let crossed = Request::post(&path)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("sec-fetch-site", "cross-site")
        .body(Body::from(format!("csrf={token}")))
        .unwrap();
    assert_eq!(browser.send(crossed).await.status, 403, "the browser reports another origin");
    browser.get(&format!("/runs/{run}")).await.shows(&["waiting approval"]);
    assert_eq!(browser.post(&path, &[("csrf", &token)]).await.status, 303);
    browser.get(&format!("/runs/{run}")).await.shows(&["cancelled"]);
}

#[tokio::test]
async fn every_response_has_security_headers() {
    let site = Site::open().await;
    let (visitor, browser) = (site.visitor(), site.signed_in(KEY).await);
    let pages = [
        visitor.get("/sign-in").await,
        visitor.get("/").await,
        browser.get("/").await,
        browser.get("/none").await,
    ];
    for page in pages {
        assert_eq!(
            page.header("content-security-policy"),
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
             form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        );
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        assert_eq!(page.header("referrer-policy"), "no-referrer");
        assert_eq!(page.header("cache-control"), "no-store");
        page.hides(&["<script>", "onclick", "style=\""]);
    }
}

#[tokio::test]
async fn cookies_are_secure_over_https() {
    let site = Site::at("https://host.example").await;
    let page = site.visitor().get("/sign-in").await;
    let cookie = page.header("set-cookie");
    assert!(cookie.starts_with("__Host-interlock-visit="), "{cookie}");
    assert!(cookie.contains("HttpOnly; SameSite=Strict; Secure"), "{cookie}");
}

#[tokio::test]
async fn assets_are_content_addressed_and_cached() {
    let site = Site::open().await;
    let visitor = site.visitor();
    let page = visitor.get("/sign-in").await;
    let marker = "rel=\"stylesheet\" href=\"";
    let href = page.text[page.text.find(marker).unwrap() + marker.len()..].split('"').next().unwrap();
    let style = visitor.get(href).await;
    assert_eq!((style.status, style.header("content-type")), (200, "text/css; charset=utf-8"));
    assert!(style.header("cache-control").contains("immutable"));
    let again = Request::get(href).header("if-none-match", style.header("etag")).body(Body::empty()).unwrap();
    assert_eq!(visitor.send(again).await.status, 304);
    assert_eq!(visitor.get("/assets/console-0000.css").await.status, 404);
}

#[tokio::test]
async fn other_methods_and_media_types_are_rejected() {
    let site = Site::open().await;
    let browser = site.signed_in(KEY).await;
    let form = "application/x-www-form-urlencoded";
    let post = |kind: &str, body: String| {
        Request::post("/console/runs").header("content-type", kind).body(Body::from(body))
    };
    assert_eq!(browser.send(post("application/json", "{}".to_owned()).unwrap()).await.status, 415);
    assert_eq!(browser.send(post(form, "x".repeat(2 << 20)).unwrap()).await.status, 413);
    assert_eq!(browser.send(Request::delete("/console/runs").body(Body::empty()).unwrap()).await.status, 405);
    let page = browser.get("/runs").await;
    assert_eq!(browser.submit(&page, "/runs", &[]).await.status, 405, "a page that does not accept forms");
    assert_eq!(browser.get("/runs/x/cancel").await.status, 405, "an action is not a page");
}

/// Pages had these paths before the console got its own, and browsers open the host without a path.
#[tokio::test]
async fn browsers_outside_of_the_console_are_redirected_to_it() {
    let site = Site::open().await;
    let browser = site.visitor();
    let ask = async |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let page = browser.send(request).await;
        (page.status, page.header("location").to_owned())
    };
    for (path, expected) in [
        ("/", "/console"),
        ("/runs", "/console/runs"),
        ("/runs/run_1?node=a", "/console/runs/run_1?node=a"),
        ("/approvals/run_1", "/console/approvals/run_1"),
    ] {
        assert_eq!(ask("GET", path).await, (303, expected.to_owned()), "{path}");
    }
    for (method, path) in [("POST", "/runs/run_1/cancel"), ("GET", "/favicon.ico"), ("GET", "/robots.txt")] {
        assert_eq!(ask(method, path).await.0, 404, "{method} {path}");
    }
    assert_eq!(ask("GET", &format!("/{}", "x".repeat(3000))).await.0, 404);
}
