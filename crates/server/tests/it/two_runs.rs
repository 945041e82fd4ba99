//! Two runs in one connection.

use serde_json::json;

use crate::client::fake;

#[tokio::test]
async fn starting_a_second_run_says_that_another_is_open() {
    let (connection, _) = fake().await;
    let first =
        connection.call("start_workflow", json!({"workflowId": "wr.x", "goal": "the import hangs"})).await;
    assert!(first.facts.get("warnings").is_none());
    let second = connection.call("start_workflow", json!({"workflowId": "wr.x", "goal": "the manual"})).await;
    let warning = second.facts["warnings"][0].as_str().unwrap();
    assert!(warning.contains("Investigate a bug (goal: the import hangs), step 1 of 3"), "{warning}");
    assert!(second.text.contains(warning), "the text for the model has it too");
    assert!(second.text.starts_with("Run: Investigate a bug (goal: the manual), step 1 of 3\n"));
}

#[tokio::test]
async fn a_run_that_is_complete_or_in_another_connection_is_not_open() {
    let (connection, _) = fake().await;
    connection.call("start_workflow", json!({"workflowId": "wr.x", "goal": "the import hangs"})).await;
    connection.call("continue_workflow", json!({"continueToken": "ct_done", "intent": "advance"})).await;
    let next = connection.call("start_workflow", json!({"workflowId": "wr.x", "goal": "the manual"})).await;
    assert!(next.facts.get("warnings").is_none(), "the first run was complete");
    let (other, _) = fake().await;
    let next = other.call("start_workflow", json!({"workflowId": "wr.x", "goal": "another"})).await;
    assert!(next.facts.get("warnings").is_none(), "a connection knows only its own runs");
}

#[tokio::test]
async fn a_resumed_run_counts_as_open() {
    let (connection, _) = fake().await;
    connection.call("continue_workflow", json!({"continueToken": "st.v1.r", "intent": "rehydrate"})).await;
    let next = connection.call("start_workflow", json!({"workflowId": "wr.x", "goal": "the manual"})).await;
    assert!(next.facts["warnings"][0].as_str().unwrap().contains("step 2 of 3"));
}
