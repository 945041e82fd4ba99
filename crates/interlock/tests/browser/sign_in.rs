//! Signing in and out.

use std::fs;

use fantoccini::Locator;

use crate::chromium::Chromium;
use crate::server::{KEY, Server, sign_in};

#[tokio::test]
async fn pages_require_a_key_and_signing_out_ends_the_session() {
    let Some(browser) = Chromium::start().await else { return };
    let server = Server::start();
    browser.goto(&format!("{}/console/runs", server.url)).await;
    browser.see("form.sign-in").await;
    browser.picture("sign-in").await;
    browser.fill("input[name=key]", "no-key-of-this-host-000").await;
    browser.click("form.sign-in button[type=submit]").await;
    browser.see("[role=alert]").await;
    sign_in(&browser, &format!("{}/console/runs", server.url), KEY).await;
    assert_eq!(
        browser.client.current_url().await.unwrap().path(),
        "/console/runs",
        "back to the requested page"
    );
    let cookies = browser.client.execute("return document.cookie", vec![]).await.unwrap();
    assert_eq!(cookies, "", "no script can read the cookie");
    browser.click("form[action='/console/sign-out'] button").await;
    browser.see("form.sign-in").await;
    browser.goto(&format!("{}/console/runs", server.url)).await;
    browser.see("form.sign-in").await;
}

#[tokio::test]
async fn a_broken_policy_shows_its_errors_and_the_built_in_pages() {
    let Some(browser) = Chromium::start().await else { return };
    let server = Server::start();
    let folder = server.data().join("console");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("policy.json"), r#"{"operations": 7}"#).unwrap();
    sign_in(&browser, &format!("{}/console/diagnostics", server.url), KEY).await;
    browser.see_text("WCP_").await;
    browser.picture("diagnostics").await;
    browser.goto(&server.url).await;
    assert!(browser.client.find(Locator::Css("nav a[href='/console/runs']")).await.is_ok());
    browser.picture("overview").await;
}
