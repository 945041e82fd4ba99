//! Keyboard-only use.

use serde_json::json;

use crate::chromium::Chromium;
use crate::server::{KEY, Server, sign_in};

/// Presses Tab until the wanted element has the focus.
async fn tab_to(browser: &Chromium, css: &str) {
    for _ in 0..60 {
        let script = "return document.activeElement !== null && document.activeElement.matches(arguments[0])";
        if browser.client.execute(script, vec![css.into()]).await.unwrap() == true {
            return;
        }
        press(browser, "\u{E004}").await;
    }
    panic!("`{css}` cannot be reached with the tab key on:\n{}", browser.text().await);
}

async fn press(browser: &Chromium, keys: &str) {
    browser.client.active_element().await.unwrap().send_keys(keys).await.unwrap();
}

#[tokio::test]
async fn an_approval_works_with_the_keyboard_only() {
    let Some(browser) = Chromium::start().await else { return };
    let server = Server::start();
    let run = server.create("hello", json!({})).await;
    sign_in(&browser, &format!("{}/console/approvals", server.url), KEY).await;
    tab_to(&browser, &format!("main a[href^='/console/approvals/{run}']")).await;
    press(&browser, "\u{E007}").await;
    browser.see("button[value=accept]").await;
    tab_to(&browser, "textarea[name=reason]").await;
    press(&browser, "typed, not clicked").await;
    tab_to(&browser, "button[value=accept]").await;
    press(&browser, "\u{E007}").await;
    browser.goto(&format!("{}/console/runs/{run}", server.url)).await;
    browser.see_text("completed").await;
    assert_eq!(server.run(&run).await["status"], "completed");
}
