//! Sessions of agents, as people see them.

use serde_json::{Value, json};

use crate::chromium::Chromium;
use crate::server::{KEY, Server, sign_in};

/// Calls a tool over MCP, as a client without a library would.
async fn call(server: &Server, tool: &str, arguments: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    let request = reqwest::Client::new().post(format!("{}/mcp", server.url)).bearer_auth(KEY);
    let request = request
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream");
    let answer = request.body(message.to_string()).send().await.unwrap().bytes().await.unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    answer["result"]["structuredContent"].clone()
}

#[tokio::test]
async fn a_session_with_a_block_and_a_fork_is_drawn_and_told() {
    let Some(browser) = Chromium::start().await else { return };
    let server = Server::start();
    let started =
        call(&server, "start_workflow", json!({"workflowId": "demo.release_review", "goal": "look twice"}))
            .await;
    let advance = |place: &Value, notes: &str| json!({"continueToken": place["continueToken"], "intent": "advance", "output": {"notesMarkdown": notes}});
    let blocked = call(&server, "continue_workflow", advance(&started, "fine")).await;
    assert_eq!(blocked["kind"], "blocked", "{blocked}");
    let second = call(&server, "continue_workflow", advance(&blocked, "- c1: **whoever** restarts it")).await;
    assert_eq!(second["isComplete"], false, "{second}");
    call(&server, "checkpoint_workflow", json!({"checkpointToken": second["checkpointToken"]})).await;
    // From a place that was left: a second branch.
    let other = call(
        &server,
        "continue_workflow",
        json!({"stateToken": started["stateToken"], "intent": "rehydrate"}),
    )
    .await;
    call(&server, "continue_workflow", advance(&other, "- c1: nobody")).await;

    sign_in(&browser, &format!("{}/sessions", server.url), KEY).await;
    browser.picture("sessions").await;
    browser.click("main a[href^='/sessions/sess_']").await;
    browser.see("svg").await;
    browser.see_text("look twice").await;
    browser.picture("session").await;
    let drawn =
        browser.client.execute("return document.querySelectorAll('main svg').length", vec![]).await.unwrap();
    assert_ne!(drawn, 0);
}
