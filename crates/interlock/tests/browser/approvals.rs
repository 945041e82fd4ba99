//! Approvals.

use serde_json::json;

use crate::chromium::Chromium;
use crate::server::{KEY, Server, sign_in};

#[tokio::test]
async fn a_rejection_records_its_reason_and_the_run_page_updates_live() {
    let Some(browser) = Chromium::start().await else { return };
    let server = Server::start();
    let run = server.create("hello", json!({"text": "good morning"})).await;
    sign_in(&browser, &format!("{}/console/runs/{run}", server.url), KEY).await;
    browser.see_text("waiting approval").await;
    browser.picture("run-waiting").await;
    // Answered through the API: the open page updates without interaction.
    let reject = json!({"resumeValue": {"action": "reject", "comment": "not today"}});
    server.ask("POST", &format!("/v1/runs/{run}/interrupts/ask"), Some(reject)).await;
    browser.see_text("failed").await;

    let run = server.create("hello", json!({})).await;
    browser.goto(&format!("{}/console/approvals/{run}", server.url)).await;
    browser.fill("textarea[name=reason]", "the tone is wrong").await;
    browser.click("button[value=reject]").await;
    // A navigation before the redirect would be replaced by it.
    browser.see_text("Your answer was recorded.").await;
    browser.goto(&format!("{}/console/runs/{run}/events", server.url)).await;
    browser.see_text("the tone is wrong").await;
    assert_eq!(server.run(&run).await["status"], "failed");
}

#[tokio::test]
async fn a_fork_from_the_console_is_a_new_run() {
    let Some(browser) = Chromium::start().await else { return };
    let server = Server::start();
    let run = server.create("hello", json!({"text": "again"})).await;
    let accept = json!({"resumeValue": {"action": "accept"}});
    server.ask("POST", &format!("/v1/runs/{run}/interrupts/ask"), Some(accept)).await;
    sign_in(&browser, &format!("{}/console/runs/{run}", server.url), KEY).await;
    browser.see_text("completed").await;
    browser.picture("run").await;
    let form = browser.see("form[action$='/fork']").await;
    browser
        .client
        .execute("for (let box of document.querySelectorAll('details')) box.open = true", vec![])
        .await
        .unwrap();
    form.find(fantoccini::Locator::Css("button[type=submit]")).await.unwrap().click().await.unwrap();
    browser.see("main").await;
    let forked = browser.client.current_url().await.unwrap();
    assert!(!forked.path().ends_with(&run), "{forked}");
    browser.goto(&format!("{}/console/runs", server.url)).await;
    browser.see(&format!("a[href='{}']", forked.path())).await;
    browser.picture("runs").await;
}
