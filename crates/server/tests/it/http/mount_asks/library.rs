//! The library's client.

use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability,
};
use rmcp::service::{RequestContext, RoleClient};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ErrorData, ServiceExt as _};
use serde_json::json;

use super::super::service::{Host, KEY};
use super::client::PATH;
use super::{colour, tool, waiting_run};

/// A client of the library whose user answers `blue`.
#[derive(Clone)]
struct Blue;

impl ClientHandler for Blue {
    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        info.capabilities = ClientCapabilities::default();
        info.capabilities.elicitation = Some(ElicitationCapability::default());
        info
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let request = serde_json::to_value(request).unwrap();
        if request["requestedSchema"]["properties"]["colour"].is_object() {
            return Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"colour": "blue"})));
        }
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }
}

#[tokio::test]
async fn the_librarys_client_answers_what_it_is_asked_and_approves_nothing() {
    let host = Host::start().await;
    host.register(&colour()).await;
    host.register(&tool("approval", &[("gate", "core.approvalGate", json!({}))])).await;
    let url = format!("http://{}{PATH}", host.address);
    let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(KEY);
    let client = Blue.serve(StreamableHttpClientTransport::from_config(config)).await.unwrap();
    let called = client.call_tool(CallToolRequestParams::new("colour")).await.unwrap();
    let called = serde_json::to_value(called).unwrap();
    assert_eq!(called["isError"], false, "{called}");
    let run = host.get("/v1/runs?workflowId=colour").await.expect(200)["runs"][0].clone();
    let run = host.end_of(run["runId"].as_str().unwrap()).await;
    assert_eq!(run["nodeStates"]["ask"]["outputs"]["answers"], json!({"colour": "blue"}));
    let called = client.call_tool(CallToolRequestParams::new("approval")).await.unwrap();
    let called = serde_json::to_value(called).unwrap();
    assert!(called["content"][0]["text"].as_str().unwrap().contains("run_waiting"), "{called}");
    waiting_run(&host, "approval").await;
    client.cancel().await.unwrap();
}
