//! Guided sessions in the console.

use serde_json::{Value, json};

use crate::chromium::Chromium;
use crate::server::{KEY, Server, sign_in};

#[tokio::test]
async fn a_session_with_a_block_and_a_fork_is_shown() {
    let Some(browser) = Chromium::start().await else { return };
    let server = Server::start();
    let started = server
        .tool("start_workflow", json!({"workflowId": "demo.release_review", "goal": "look twice"}))
        .await;
    let advance = |place: &Value, notes: &str| json!({"continueToken": place["continueToken"], "intent": "advance", "output": {"notesMarkdown": notes}});
    let blocked = server.tool("continue_workflow", advance(&started, "fine")).await;
    assert_eq!(blocked["kind"], "blocked", "{blocked}");
    let second =
        server.tool("continue_workflow", advance(&blocked, "- c1: **operators** who restart it")).await;
    assert_eq!(second["isComplete"], false, "{second}");
    server.tool("checkpoint_workflow", json!({"checkpointToken": second["checkpointToken"]})).await;
    // A fork: a second branch from an earlier node.
    let other = server
        .tool("continue_workflow", json!({"stateToken": started["stateToken"], "intent": "rehydrate"}))
        .await;
    server.tool("continue_workflow", advance(&other, "- c1: no users")).await;

    sign_in(&browser, &format!("{}/console/sessions", server.url), KEY).await;
    browser.picture("sessions").await;
    browser.click("main a[href^='/console/sessions/sess_']").await;
    browser.see("svg").await;
    browser.see_text("look twice").await;
    browser.picture("session").await;
    let drawn =
        browser.client.execute("return document.querySelectorAll('main svg').length", vec![]).await.unwrap();
    assert_ne!(drawn, 0);
}
