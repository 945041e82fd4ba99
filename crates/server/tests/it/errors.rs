//! Replies to failed calls.

use rmcp::model::{ClientRequest, CustomRequest, ReadResourceRequestParams, ServerResult};
use serde_json::{Value, json};

use crate::client::fake;

#[tokio::test]
async fn a_refusal_is_the_same_body_as_text_and_as_data() {
    let (connection, _) = fake().await;
    let reply =
        connection.call("continue_workflow", json!({"continueToken": "ct_busy", "intent": "advance"})).await;
    assert!(reply.failed);
    assert_eq!(
        reply.facts,
        json!({
            "code": "TOKEN_SESSION_LOCKED",
            "message": "The session is busy.",
            "retry": {"kind": "retryable_after_ms", "afterMs": 250},
            "details": {"suggestion": "Wait a moment and retry this call."},
        })
    );
    assert_eq!(serde_json::from_str::<Value>(&reply.text).unwrap(), reply.facts);
}

#[tokio::test]
async fn an_unknown_tool_gets_a_tool_error() {
    let (connection, _) = fake().await;
    let reply = connection.call("continue_workfow", json!({})).await;
    assert!(reply.failed);
    assert_eq!(reply.facts["code"], "VALIDATION_ERROR");
    assert_eq!(reply.facts["details"]["nearest"], "continue_workflow");
    assert_eq!(reply.facts["details"]["example"]["name"], "continue_workflow");
    let reply = connection.call("make_coffee", json!({})).await;
    assert_eq!(reply.facts["details"]["tools"].as_array().unwrap().len(), 7);
}

#[tokio::test]
async fn arguments_that_are_not_an_object_get_a_tool_error() {
    let (connection, _) = fake().await;
    for arguments in [json!("{\"continueToken\":\"ct_1\"}"), json!([1]), json!(7)] {
        let params = json!({"name": "continue_workflow", "arguments": arguments});
        let request = ClientRequest::CustomRequest(CustomRequest::new("tools/call", Some(params)));
        let result = connection.0.send_request(request).await.unwrap();
        let ServerResult::CallToolResult(result) = result else { panic!("{result:?}") };
        let reply = crate::client::reply(result);
        assert!(reply.failed);
        assert_eq!(reply.facts["code"], "VALIDATION_ERROR");
        assert_eq!(reply.facts["details"]["example"]["name"], "continue_workflow");
    }
    let nameless = CustomRequest::new("tools/call", Some(json!({"arguments": {}})));
    let result = connection.0.send_request(ClientRequest::CustomRequest(nameless)).await.unwrap();
    let ServerResult::CallToolResult(result) = result else { panic!("{result:?}") };
    assert_eq!(crate::client::reply(result).facts["details"]["tools"].as_array().unwrap().len(), 7);
}

#[tokio::test]
async fn a_service_that_panics_is_an_internal_error_and_the_connection_lives() {
    let (connection, _) = fake().await;
    let reply = connection.call("start_workflow", json!({"workflowId": "wr.x", "goal": "panic"})).await;
    assert!(reply.failed);
    assert_eq!(reply.facts["code"], "INTERNAL_ERROR");
    assert!(reply.facts["details"]["suggestion"].as_str().unwrap().contains("not the cause"));
    assert!(!connection.call("list_workflows", json!({})).await.failed);
}

#[tokio::test]
async fn the_tags_are_a_resource_and_nothing_else_is() {
    let (connection, _) = fake().await;
    let resources = connection.0.list_all_resources().await.unwrap();
    assert_eq!(resources.len(), 1);
    assert_eq!(resources[0].uri, "interlock://tags");
    let read = connection.0.read_resource(ReadResourceRequestParams::new("interlock://tags")).await.unwrap();
    let contents = json!(read.contents);
    let tags: Value = serde_json::from_str(contents[0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(tags.as_array().unwrap().len(), 9);
    assert_eq!(tags[0]["id"], "coding");
    assert!(connection.0.read_resource(ReadResourceRequestParams::new("interlock://other")).await.is_err());
}
