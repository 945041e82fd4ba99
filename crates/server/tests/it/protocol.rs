//! Every edition of the protocol, with and without `initialize`.

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
#[expect(
    deprecated,
    reason = "clients of the editions before the newest still name their folder this way"
)]
use rmcp::model::{ListRootsResult, Root};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, RequestContext, RoleClient};
use rmcp::{ClientHandler, ErrorData, ServiceExt as _, serve_server};
use serde_json::{Value, json};
use server::Mcp;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

use crate::fake::Fake;

fn serve() -> DuplexStream {
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        if let Ok(running) = serve_server(Mcp::new(Arc::new(Fake::default())), far).await {
            running.waiting().await.unwrap();
        }
    });
    near
}

fn start() -> CallToolRequestParams {
    let Value::Object(arguments) = json!({"workflowId": "wr.x", "goal": "g"}) else { panic!("an object") };
    CallToolRequestParams::new("start_workflow").with_arguments(arguments)
}

#[tokio::test]
async fn every_edition_with_initialize() {
    for version in
        [ProtocolVersion::V_2025_03_26, ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25]
    {
        let config = ClientConfig::new(ClientCapabilities::default(), Implementation::new("test", "1"))
            .with_protocol_version(version.clone());
        let client = config.serve(serve()).await.unwrap();
        let server = client.peer_info().unwrap();
        assert_eq!(server.protocol_version, version);
        assert_eq!(server.server_info.as_ref().unwrap().name, "interlock");
        assert_eq!(server.instructions.as_deref(), Some(server::mcp::INSTRUCTIONS));
        assert_eq!(client.list_all_tools().await.unwrap().len(), 7);
        let result = client.call_tool(start()).await.unwrap();
        assert_eq!(result.structured_content.unwrap()["continueToken"], "ct_next", "{version}");
    }
}

#[tokio::test]
async fn the_newest_edition_without_initialize() {
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let client = ().serve_with_lifecycle(serve(), lifecycle).await.unwrap();
    assert_eq!(client.list_all_tools().await.unwrap().len(), 7);
    let result = client.call_tool(start()).await.unwrap();
    assert_eq!(result.structured_content.unwrap()["continueToken"], "ct_next");
}

/// Raw messages: one line of JSON for each request and each reply.
#[tokio::test]
async fn a_first_request_without_initialize_is_answered() {
    let (read, mut write) = tokio::io::split(serve());
    let mut lines = BufReader::new(read).lines();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (id, arguments, failed) in [
        (1, json!({"continueToken": "ct_1", "intent": "advance"}), false),
        (2, json!({"continueTokn": "ct_1", "intent": "advance"}), true),
        (3, json!("continueToken"), true),
    ] {
        let request = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "continue_workflow", "arguments": arguments, "_meta": meta},
        });
        write.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        assert_eq!(answer["result"]["isError"], failed, "{answer}");
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        assert!(answer["result"]["structuredContent"].is_object(), "{answer}");
    }
}

/// Workflows are prompts (finding B9): declared capabilities are served, and others are not.
#[tokio::test]
async fn workflows_are_prompts() {
    let directory = tempfile::tempdir().unwrap();
    let connection = crate::real::serve(directory.path()).await;
    let client = &connection.0;
    let capabilities = &client.peer_info().unwrap().capabilities;
    assert!(capabilities.prompts.is_some() && capabilities.completions.is_none());
    let prompts = client.list_all_prompts().await.unwrap();
    let named = |name: &str| prompts.iter().find(|prompt| prompt.name == name).unwrap();
    assert_eq!(named("bug_investigation").title.as_deref(), Some("Investigate a bug"));
    let arguments = named("two_steps").arguments.as_ref().unwrap();
    assert_eq!((arguments[0].name.as_str(), arguments[0].required), ("goal", Some(true)));

    let get = |name: &str, goal: Option<&str>| {
        let request = rmcp::model::GetPromptRequestParams::new(name);
        match goal {
            Some(goal) => {
                let Value::Object(arguments) = json!({"goal": goal}) else { panic!("an object") };
                client.get_prompt(request.with_arguments(arguments))
            }
            None => client.get_prompt(request),
        }
    };
    for name in ["two_steps", "team.two_steps"] {
        let prompt = get(name, Some("try it")).await.unwrap();
        let text =
            serde_json::to_value(&prompt.messages[0].content).unwrap()["text"].as_str().unwrap().to_owned();
        // The call that the prompt tells the model to make, made verbatim, starts the run.
        let call = text.split("```json\n").nth(1).unwrap().split("\n```").next().unwrap();
        let started = connection.call("start_workflow", serde_json::from_str(call).unwrap()).await;
        assert_eq!(started.facts["run"]["goal"], "try it", "{}", started.text);
    }
    for (name, goal, says) in [
        ("no_such_workflow", Some("try it"), "There is no prompt"),
        ("two_steps", None, "`goal` is missing"),
        ("two_steps", Some("  "), "`goal` is missing"),
        ("two_steps", Some(&*"x".repeat(4097)), "4097 bytes; the limit is 4096"),
    ] {
        let refused = get(name, goal).await.unwrap_err().to_string();
        assert!(refused.contains(says), "{name}: {refused}");
    }
    let reference = rmcp::model::Reference::for_prompt("two_steps");
    let argument = serde_json::from_value(json!({"name": "goal", "value": "t"})).unwrap();
    let completed = client.complete(rmcp::model::CompleteRequestParams::new(reference, argument)).await;
    assert!(completed.unwrap_err().to_string().contains("completion/complete"));
}

/// Over standard input and output, a call without a workspace uses the folder of the client.
#[tokio::test]
async fn a_call_without_a_workspace_is_about_the_folder_of_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Arc::new(Fake::default());
    let (near, far) = tokio::io::duplex(1 << 16);
    let handler = Mcp::new(fake.clone()).in_folder(Some(folder.path().to_owned()));
    tokio::spawn(async move {
        let running = serve_server(handler, far).await.unwrap();
        running.waiting().await.unwrap();
    });
    let client = ().serve(near).await.unwrap();
    client.call_tool(start()).await.unwrap();
    assert!(fake.last().contains(&format!("workspace: Some({:?})", folder.path())), "{}", fake.last());
}

/// A client with one root, which it tells after a while.
struct Rooted(String);

#[expect(deprecated, reason = "clients of the editions before the newest still name their folder this way")]
impl ClientHandler for Rooted {
    fn get_info(&self) -> ClientConfig {
        let able = ClientCapabilities::builder().enable_roots().build();
        ClientConfig::new(able, Implementation::new("rooted", "1"))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        Ok(ListRootsResult::new(vec![Root::new(self.0.clone())]))
    }
}

/// Bug 9: the first call waits for the roots of the client. It is sent right after `initialized`.
#[tokio::test]
async fn the_first_call_is_about_the_root_of_the_client() {
    let (folder, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let fake = Arc::new(Fake::default());
    let (near, far) = tokio::io::duplex(1 << 16);
    let handler = Mcp::new(fake.clone()).in_folder(Some(folder.path().to_owned()));
    tokio::spawn(async move {
        let running = serve_server(handler, far).await.unwrap();
        running.waiting().await.unwrap();
    });
    let client = Rooted(format!("file://{}", root.path().display())).serve(near).await.unwrap();
    client.call_tool(start()).await.unwrap();
    assert!(fake.last().contains(&format!("workspace: Some({:?})", root.path())), "{}", fake.last());
}
