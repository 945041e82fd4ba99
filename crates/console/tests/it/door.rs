//! Who gets in, and what every answer says.

use axum::body::Body;
use host::runs::Scope;
use http::Request;
use serde_json::json;

use crate::pages::waiting;
use crate::support::{KEY, REVOKED, Site, put_key};

#[tokio::test]
async fn nobody_sees_a_page_without_signing_in_and_comes_back_to_it_after() {
    let site = Site::open().await;
    let browser = site.visitor();
    for path in ["/", "/runs", "/runs/none", "/approvals", "/diagnostics", "/no-such-page"] {
        let page = browser.get(path).await;
        assert_eq!((page.status, page.header("location").starts_with("/sign-in")), (303, true), "{path}");
    }
    let sent = browser.get("/runs?status=failed").await;
    assert_eq!(sent.header("location"), "/sign-in?to=%2Fruns%3Fstatus%3Dfailed");
    let entered = browser.sign_in(KEY, "/runs?status=failed").await;
    assert_eq!((entered.status, entered.header("location")), (303, "/runs?status=failed"));
    assert_eq!(browser.get("/runs?status=failed").await.status, 200);
    let elsewhere = site.visitor().sign_in(KEY, "//example.org").await;
    assert_eq!(elsewhere.header("location"), "/", "nobody is sent to another host");
}

#[tokio::test]
async fn keys_that_do_not_open() {
    let site = Site::open().await;
    let cases = [("", "knows no such key"), ("wrong", "knows no such key"), (REVOKED, "taken back")];
    for (key, said) in cases {
        let browser = site.visitor();
        let page = browser.sign_in(key, "/").await;
        assert_eq!(page.status, 401, "{key}");
        page.shows(&[said]);
        assert_eq!(browser.get("/").await.status, 303, "{key}");
    }
    let page = site.visitor().post("/sign-in", &[("key", KEY), ("csrf", "forged")]).await;
    assert_eq!(page.status, 403, "a form of another page");
}

#[tokio::test]
async fn whoever_guesses_is_slowed_down() {
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

#[tokio::test]
async fn a_key_that_is_taken_back_ends_its_sessions_at_once() {
    let site = Site::open().await;
    let browser = site.signed_in(KEY).await;
    assert_eq!(browser.get("/runs").await.status, 200);
    put_key(&site.runs, KEY, "full", "default", Scope::ALL.to_vec(), Some(1)).await;
    assert_eq!(browser.get("/runs").await.status, 303);
}

#[tokio::test]
async fn signing_out_takes_a_form_with_its_token() {
    let site = Site::open().await;
    let browser = site.signed_in(KEY).await;
    assert_eq!(browser.post("/sign-out", &[("csrf", "forged")]).await.status, 403);
    let page = browser.get("/runs").await;
    assert_eq!(page.status, 200);
    let out = browser.submit(&page, "/sign-out", &[]).await;
    assert_eq!((out.status, out.header("location")), (303, "/sign-in"));
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(browser.get("/runs").await.status, 303);
}

#[tokio::test]
async fn a_form_without_the_token_of_its_session_changes_nothing() {
    let site = Site::open().await;
    let run = site.run(&waiting("w"), json!({})).await;
    let browser = site.signed_in(KEY).await;
    let token = browser.get("/runs").await.field("csrf").to_owned();
    let path = format!("/runs/{run}/cancel");
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
    assert_eq!(browser.send(crossed).await.status, 403, "the browser says that it came from elsewhere");
    browser.get(&format!("/runs/{run}")).await.shows(&["waiting approval"]);
    assert_eq!(browser.post(&path, &[("csrf", &token)]).await.status, 303);
    browser.get(&format!("/runs/{run}")).await.shows(&["cancelled"]);
}

#[tokio::test]
async fn every_answer_guards_itself() {
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
async fn cookies_are_secure_where_the_host_is() {
    let site = Site::at("https://host.example").await;
    let page = site.visitor().get("/sign-in").await;
    let cookie = page.header("set-cookie");
    assert!(cookie.starts_with("__Host-interlock-visit="), "{cookie}");
    assert!(cookie.contains("HttpOnly; SameSite=Strict; Secure"), "{cookie}");
}

#[tokio::test]
async fn assets_are_named_after_their_content_and_kept() {
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
async fn requests_that_are_no_forms_and_no_reads_are_turned_away() {
    let site = Site::open().await;
    let browser = site.signed_in(KEY).await;
    let form = "application/x-www-form-urlencoded";
    let post =
        |kind: &str, body: String| Request::post("/runs").header("content-type", kind).body(Body::from(body));
    assert_eq!(browser.send(post("application/json", "{}".to_owned()).unwrap()).await.status, 415);
    assert_eq!(browser.send(post(form, "x".repeat(2 << 20)).unwrap()).await.status, 413);
    assert_eq!(browser.send(Request::delete("/runs").body(Body::empty()).unwrap()).await.status, 405);
    let page = browser.get("/runs").await;
    assert_eq!(browser.submit(&page, "/runs", &[]).await.status, 405, "a page that takes no form");
    assert_eq!(browser.get("/runs/x/cancel").await.status, 405, "an action that is no page");
}
