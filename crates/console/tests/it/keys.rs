//! Revoking a key.

use axum::body::Body;
use http::Request;

use crate::support::{KEY, OTHER, READER, Site};

const REVOKE: &str = "/console/keys/reader/revoke";

#[tokio::test]
async fn a_revoked_key_no_longer_works() {
    let site = Site::open().await;
    let (admin, reader) = (site.signed_in(KEY).await, site.signed_in(READER).await);
    assert_eq!(reader.get("/runs").await.status, 200);
    let page = admin.get("/keys").await;
    page.shows(&[&format!("action=\"{REVOKE}\""), "Revoke"]);
    page.hides(&[
        "action=\"/console/keys/full/revoke\"",
        "action=\"/console/keys/revoked/revoke\"",
        "action=\"/console/keys/other/revoke\"",
    ]);
    let done = admin.submit(&page, REVOKE, &[]).await;
    assert_eq!((done.status, done.header("location")), (303, "/console/keys?done=revoked"));
    let page = admin.get("/keys?done=revoked").await;
    page.shows(&["revoked", "The key was revoked."]);
    page.hides(&[REVOKE]);
    // Sessions of the key have ended, and it cannot sign in again.
    let out = reader.get("/runs").await;
    assert_eq!(out.status, 303);
    assert!(out.header("location").starts_with("/console/sign-in"), "{}", out.header("location"));
    let refused = site.visitor().sign_in(READER, "/").await;
    assert_ne!(refused.status, 303, "{}", refused.text);
    // Revoking it again changes nothing and succeeds.
    assert_eq!(admin.submit(&page, REVOKE, &[]).await.status, 303);
}

#[tokio::test]
async fn revoking_requires_the_scope_and_the_csrf_token() {
    let site = Site::open().await;
    let (admin, reader, other) =
        (site.signed_in(KEY).await, site.signed_in(READER).await, site.signed_in(OTHER).await);
    let page = admin.get("/keys").await;
    let token = page.field("csrf").to_owned();
    let readers = reader.get("/runs").await;
    for (name, fields) in [
        ("no token", vec![]),
        ("an empty token", vec![("csrf", "")]),
        ("a forged token", vec![("csrf", "0000")]),
        ("the token of another session", vec![("csrf", readers.field("csrf"))]),
    ] {
        assert_eq!(admin.post(REVOKE, &fields).await.status, 403, "{name}");
    }
    let crossed = Request::post(REVOKE)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("sec-fetch-site", "cross-site")
        .body(Body::from(format!("csrf={token}")))
        .unwrap();
    assert_eq!(admin.send(crossed).await.status, 403, "a form from another site");
    // A key that may only read sees no keys page and cannot bypass it.
    assert_eq!(reader.get("/keys").await.status, 403);
    readers.hides(&["href=\"/console/keys\""]);
    assert_eq!(reader.submit(&readers, "/keys/full/revoke", &[]).await.status, 403);
    // Keys of another tenant are not found, and a key cannot revoke itself.
    let others = other.get("/runs").await;
    assert_eq!(other.submit(&others, REVOKE, &[]).await.status, 404);
    assert_eq!(admin.submit(&page, "/keys/full/revoke", &[]).await.status, 409);
    assert_eq!(admin.submit(&page, "/keys/unknown/revoke", &[]).await.status, 404);
    assert_eq!(admin.get(REVOKE).await.status, 405, "GET revokes nothing");
    // All sessions are still valid.
    for browser in [&admin, &reader, &other] {
        assert_eq!(browser.get("/runs").await.status, 200);
    }
}
