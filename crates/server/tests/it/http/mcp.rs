//! MCP over HTTP: with the library's client, and with raw requests of other clients.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use canon::time::Timestamp;
use flow::id::Tenant;
use guide::record::SessionId;
use guided_node::SessionKeys;
use rmcp::ServiceExt as _;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpClientTransportConfig};
use runs::Scope;
use runs::keys::{self, ApiKey};
use serde_json::{Value, json};
use server::http::Settings;
use server::tool::Tool;

use super::client::Answer;
use super::service::{EXPIRED, Host, KEY, OTHER, READER, REVOKED};
use crate::client::Connection;

/// The secret of the test host.
const SECRET: [u8; 32] = [7; 32];

fn transport(host: &Host, key: &str) -> StreamableHttpClientTransport<impl StreamableHttpClient> {
    let url = format!("http://{}/mcp", host.address);
    let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(key);
    StreamableHttpClientTransport::from_config(config)
}

async fn connect(host: &Host, key: &str) -> Connection {
    Connection(().serve(transport(host, key)).await.unwrap())
}

async fn put_key(host: &Host, key: &str, scopes: &[Scope], session: Option<&str>) {
    let known = ApiKey {
        id: format!("key-{}", &key[key.len() - 4..]),
        tenant: Tenant::new("a"),
        scopes: scopes.to_vec(),
        test: false,
        created_at: 0,
        expires_at: None,
        revoked_at: None,
        session: session.map(|id| SessionId::parse(id).unwrap()),
    };
    host.runs.keys().put(keys::hash(key), &known).await.unwrap();
}

fn start() -> Value {
    json!({"workflowId": "team.two_steps", "goal": "try it"})
}

fn advance(reply: &Value) -> Value {
    let notes = json!({"notesMarkdown": "Done, and here is what was found."});
    json!({"continueToken": reply["continueToken"], "intent": "advance", "output": notes})
}

/// Starts a run and advances it to its end.
async fn walk(connection: &Connection) -> Value {
    let first = connection.call("start_workflow", start()).await;
    assert_eq!(first.facts["pending"]["stepId"], "one", "{}", first.text);
    let second = connection.call("continue_workflow", advance(&first.facts)).await;
    assert_eq!(second.facts["pending"]["stepId"], "two", "{}", second.text);
    let bookmark = json!({"checkpointToken": second.facts["checkpointToken"]});
    assert!(!connection.call("checkpoint_workflow", bookmark).await.failed);
    let last = connection.call("continue_workflow", advance(&second.facts)).await;
    assert_eq!(last.facts["isComplete"], true, "{}", last.text);
    last.facts
}

#[tokio::test]
async fn the_librarys_client_walks_a_whole_workflow_in_every_edition() {
    let host = Host::start().await;
    for version in
        [ProtocolVersion::V_2025_03_26, ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25]
    {
        let config = ClientConfig::new(ClientCapabilities::default(), Implementation::new("test", "1"))
            .with_protocol_version(version.clone());
        let client = config.serve(transport(&host, KEY)).await.unwrap();
        let server = client.peer_info().unwrap();
        assert_eq!(server.protocol_version, version);
        assert_eq!(server.instructions.as_deref(), Some(server::mcp::INSTRUCTIONS));
        assert_eq!(client.list_all_tools().await.unwrap().len(), 7);
        assert_eq!(client.list_all_resources().await.unwrap().len(), 1);
        client.cancel().await.unwrap();
    }
    walk(&connect(&host, KEY).await).await;
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let newest = ().serve_with_lifecycle(transport(&host, KEY), lifecycle).await.unwrap();
    walk(&Connection(newest)).await;
}

/// Sends a message as a client of some edition.
async fn send(host: &Host, key: &str, headers: &[(&str, &str)], message: &Value) -> Answer {
    let key = format!("Bearer {key}");
    let mut all = vec![
        ("authorization", key.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    all.retain(|(name, _)| !headers.iter().any(|(given, _)| given == name));
    all.extend(headers);
    host.send("POST", "/mcp", &all, Some(message.to_string().as_bytes())).await
}

#[expect(clippy::needless_pass_by_value, reason = "literals read better by value")]
fn call(tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

#[tokio::test]
async fn clients_without_a_library_are_answered_in_every_edition() {
    let host = Host::start().await;
    // Edition 2025-03-26: a stateless handshake, and no header for the edition.
    let initialize = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}},
    });
    let begun = send(&host, KEY, &[], &initialize).await;
    assert_eq!(begun.header("mcp-session-id"), None);
    assert_eq!(begun.header("content-type"), Some("application/json"));
    assert_eq!(begun.expect(200)["result"]["protocolVersion"], "2025-03-26");
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(send(&host, KEY, &[], &initialized).await.status, 202);
    let started = send(&host, KEY, &[], &call("start_workflow", start())).await.expect(200);
    let started = &started["result"]["structuredContent"];
    assert_eq!(started["pending"]["stepId"], "one", "{started}");
    // Any session id is ignored.
    for headers in [
        &[("mcp-session-id", "of-another-process")][..],
        &[("mcp-protocol-version", "2025-06-18")],
        &[("mcp-protocol-version", "2025-11-25"), ("accept", "application/json")],
        &[("accept", "*/*")],
    ] {
        let again = json!({"continueToken": started["continueToken"], "intent": "rehydrate"});
        let again = send(&host, KEY, headers, &call("continue_workflow", again)).await.expect(200);
        assert_eq!(again["result"]["structuredContent"]["pending"]["stepId"], "one", "{headers:?} {again}");
    }
    // Edition 2026-07-28: no handshake, each message is self-contained.
    let mut newest = call("continue_workflow", advance(started));
    newest["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "new", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "continue_workflow"),
    ];
    let next = send(&host, KEY, &headers, &newest).await.expect(200);
    assert_eq!(next["result"]["structuredContent"]["pending"]["stepId"], "two", "{next}");
}

#[tokio::test]
async fn invalid_messages_get_the_error_envelope() {
    let host = Host::start_with(Settings { max_message_bytes: 2000, ..Settings::default() }).await;
    let message = call("list_workflows", json!({}));
    for key in ["", "ilk_live_unknown", REVOKED, EXPIRED, "ilk_session_a.b"] {
        let refused = send(&host, key, &[], &message).await;
        assert_eq!(refused.status, 401, "{key}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"), "{key}");
    }
    let large = call("list_workflows", json!({"workspacePath": "x".repeat(2000)}));
    let batch = json!([message]);
    for (name, headers, message, status, code) in [
        ("a list of messages", &[][..], &batch, 400, "validation_error"),
        ("too large", &[], &large, 413, "payload_too_large"),
        ("another type", &[("content-type", "text/plain")], &message, 415, "unsupported_media_type"),
        ("no JSON taken", &[("accept", "text/event-stream")], &message, 406, "validation_error"),
        ("an unknown edition", &[("mcp-protocol-version", "1999-01-01")], &message, 400, "validation_error"),
    ] {
        let refused = send(&host, KEY, headers, message).await;
        assert_eq!(refused.status, status, "{name}: {}", refused.text());
        assert_eq!(refused.json()["error"], code, "{name}");
    }
    let authorized = format!("Bearer {KEY}");
    for method in ["GET", "DELETE"] {
        let headers = [("authorization", authorized.as_str()), ("accept", "text/event-stream")];
        let refused = host.send(method, "/mcp", &headers, None).await;
        refused.refused(405, "method_not_allowed");
        assert_eq!(refused.header("allow"), Some("POST, OPTIONS"), "{method}");
        assert_eq!(host.send(method, "/mcp", &[], None).await.status, 401, "{method}");
    }
}

#[tokio::test]
async fn foreign_origins_and_hosts_are_rejected_before_the_key_is_checked() {
    let host = Host::start().await;
    let message = call("list_workflows", json!({}));
    for (origin, status) in [
        ("http://localhost:6274", 200),
        ("http://127.0.0.1", 200),
        ("http://host.test", 200),
        ("https://app.example", 200),
        ("https://evil.example", 403),
        ("http://host.test.evil.example", 403),
        ("null", 403),
    ] {
        let answer = send(&host, KEY, &[("origin", origin)], &message).await;
        assert_eq!(answer.status, status, "{origin}: {}", answer.text());
        let allowed = (status == 200).then_some(origin);
        assert_eq!(answer.header("access-control-allow-origin"), allowed, "{origin}");
        let keyless = send(&host, "", &[("origin", origin)], &message).await;
        assert_eq!(keyless.status, if status == 200 { 401 } else { 403 }, "{origin} without a key");
        let asks = [("origin", origin), ("access-control-request-method", "POST")];
        let permission = host.send("OPTIONS", "/mcp", &asks, None).await;
        assert_eq!(permission.status, if status == 200 { 204 } else { 403 }, "{origin} asks");
        let may = permission
            .header("access-control-allow-headers")
            .is_some_and(|may| may.contains("authorization"));
        assert_eq!(may, status == 200, "{origin}");
    }
    let body = message.to_string();
    for (name, status) in
        [("localhost:7717", 200), ("127.0.0.1", 200), ("host.test", 200), ("evil.example", 403)]
    {
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\nauthorization: Bearer {KEY}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = super::client::raw(host.address, request.as_bytes()).await.unwrap();
        assert_eq!(answer.status, status, "{name}: {}", answer.text());
    }
    let elsewhere = host.send("GET", "/healthz", &[("origin", "https://evil.example")], None).await;
    assert_eq!(
        elsewhere.header("access-control-allow-origin"),
        None,
        "other routes are not for pages of others"
    );
}

#[tokio::test]
async fn a_session_key_is_valid_only_for_its_session() {
    let host = Host::start().await;
    let owner = connect(&host, KEY).await;
    let own = owner.call("start_workflow", start()).await.facts;
    let other = owner.call("start_workflow", start()).await.facts;
    let session = own["run"]["sessionId"].as_str().unwrap();
    let recorded = "ilk_live_for-one-session";
    put_key(&host, recorded, Scope::ALL, Some(session)).await;
    let minted = host.runs.keys().session_keys().mint(&Tenant::new("a"), session, Timestamp(u64::MAX));
    for key in [recorded, minted.as_str()] {
        let agent = connect(&host, key).await;
        let offered = agent.0.list_all_tools().await.unwrap();
        let offered: Vec<&str> = offered.iter().map(|tool| &*tool.name).collect();
        assert_eq!(offered, ["continue_workflow", "checkpoint_workflow", "resume_session"]);
        let mixed =
            json!({"stateToken": own["stateToken"], "ackToken": other["ackToken"], "intent": "advance"});
        let folder = host.workspaces.display().to_string();
        for (name, tool, arguments) in [
            ("another's token", "continue_workflow", advance(&other)),
            (
                "another's place",
                "continue_workflow",
                json!({"stateToken": other["stateToken"], "intent": "rehydrate"}),
            ),
            ("a pair of both", "continue_workflow", mixed),
            (
                "another's bookmark",
                "checkpoint_workflow",
                json!({"checkpointToken": other["checkpointToken"]}),
            ),
            ("another session", "resume_session", json!({"sessionId": other["run"]["sessionId"]})),
            ("a new run", "start_workflow", start()),
            ("the workflows", "list_workflows", json!({})),
            ("a workflow", "inspect_workflow", json!({"workflowId": "team.two_steps"})),
            ("a source", "manage_workflow_source", json!({"action": "attach", "path": folder})),
        ] {
            let refused = agent.call(tool, arguments).await;
            assert!(refused.failed, "{name}: {}", refused.text);
            assert_eq!(refused.facts["code"], "FORBIDDEN", "{name}: {}", refused.text);
            assert!(!refused.text.contains(other["run"]["sessionId"].as_str().unwrap()), "{name}");
        }
        let found = agent.call("resume_session", json!({"query": "try it"})).await.facts;
        assert_eq!(found["totalEligible"], 1, "{found}");
        assert_eq!(found["candidates"][0]["sessionId"], session);
        let rehydrate = json!({"continueToken": own["continueToken"], "intent": "rehydrate"});
        assert!(!agent.call("continue_workflow", rehydrate).await.failed);
        let document = host.send("GET", "/v1/openapi.json", &[], None).await.expect(200);
        for (path, operations) in document["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                if operation["security"] == json!([]) || path == "/mcp" {
                    continue;
                }
                let path = path.replace(['{', '}'], "");
                let authorized = format!("Bearer {key}");
                let refused = host
                    .send(&method.to_uppercase(), &path, &[("authorization", &authorized)], Some(b"{}"))
                    .await;
                refused.refused(403, "forbidden");
            }
        }
    }
    let agent = connect(&host, &minted).await;
    let second = agent.call("continue_workflow", advance(&own)).await;
    assert_eq!(second.facts["pending"]["stepId"], "two", "{}", second.text);
    let bookmark = json!({"checkpointToken": second.facts["checkpointToken"]});
    assert!(!agent.call("checkpoint_workflow", bookmark).await.failed);
    let last = agent.call("continue_workflow", advance(&second.facts)).await;
    assert_eq!(last.facts["isComplete"], true, "{}", last.text);
}

#[tokio::test]
async fn a_session_key_that_is_foreign_or_expired_is_rejected() {
    let host = Host::start().await;
    let own = connect(&host, KEY).await.call("start_workflow", start()).await.facts;
    let session = own["run"]["sessionId"].as_str().unwrap();
    let foreign = SessionKeys::new(vec![[8; 32]]).mint(&Tenant::new("a"), session, Timestamp(u64::MAX));
    let over = SessionKeys::new(vec![SECRET]).mint(&Tenant::new("a"), session, Timestamp(1));
    let message = call("continue_workflow", advance(&own));
    for key in [foreign, over] {
        send(&host, &key, &[], &message).await.refused(401, "unauthenticated");
    }
    // A session of one tenant is unknown to another.
    let strayed = SessionKeys::new(vec![SECRET]).mint(&Tenant::new("b"), session, Timestamp(u64::MAX));
    let refused = send(&host, &strayed, &[], &message).await.expect(200);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert_eq!(refused["result"]["structuredContent"]["code"], "TOKEN_BAD_SIGNATURE", "{refused}");
}

#[tokio::test]
async fn tenants_do_not_see_each_other() {
    let host = Host::start().await;
    let (one, two) = (connect(&host, KEY).await, connect(&host, OTHER).await);
    let begun = one.call("start_workflow", start()).await.facts;
    let refused = two.call("continue_workflow", advance(&begun)).await;
    assert_eq!(refused.facts["code"], "TOKEN_BAD_SIGNATURE", "{}", refused.text);
    let named = json!({"sessionId": begun["run"]["sessionId"]});
    assert_eq!(two.call("resume_session", named.clone()).await.facts["totalEligible"], 0);
    assert_eq!(one.call("resume_session", named).await.facts["totalEligible"], 1);
}

#[tokio::test]
async fn each_tool_wants_its_scope() {
    use Tool as T;
    let host = Host::start().await;
    let begun = connect(&host, KEY).await.call("start_workflow", start()).await.facts;
    let all = T::ALL.to_vec();
    let reading = vec![T::ListWorkflows, T::InspectWorkflow, T::ContinueWorkflow, T::ResumeSession];
    let driving: Vec<T> = all.iter().copied().filter(|tool| *tool != T::ManageWorkflowSource).collect();
    for (number, (scopes, offered)) in [
        (&[Scope::SessionsRead][..], reading),
        (&[Scope::SessionsDrive], driving),
        (&[Scope::Admin], vec![T::ManageWorkflowSource]),
        (Scope::ALL, all),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("ilk_live_of-some-scopes-{number}");
        put_key(&host, &key, scopes, None).await;
        let agent = connect(&host, &key).await;
        let tools = agent.0.list_all_tools().await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, offered.iter().map(|tool| tool.name()).collect::<Vec<_>>(), "{scopes:?}");
        for tool in T::ALL {
            let reply =
                agent.call(tool.name(), server::tool::definition(tool).example_arguments().into()).await;
            assert_eq!(
                reply.facts["code"] == "FORBIDDEN",
                !offered.contains(&tool) || (tool == T::ContinueWorkflow && number == 0),
                "{scopes:?} {tool:?}: {}",
                reply.text
            );
        }
        if number == 0 {
            let rehydrate = json!({"continueToken": begun["continueToken"], "intent": "rehydrate"});
            assert!(
                !agent.call("continue_workflow", rehydrate).await.failed,
                "reading is what the scope \
                                 is for"
            );
        }
    }
    let refused = send(&host, READER, &[], &call("list_workflows", json!({}))).await;
    assert_eq!(refused.refused(403, "forbidden")["details"]["scopeRequired"], "sessions:drive");
}

#[tokio::test]
async fn a_workspace_is_opened_below_a_root_and_is_a_label_elsewhere() {
    let host = Host::start().await;
    let agent = connect(&host, KEY).await;
    let outside = tempfile::tempdir().unwrap();
    let inside = host.workspaces.join("project");
    for folder in [&inside, &outside.path().to_owned()] {
        fs::create_dir_all(folder.join("workflows")).unwrap();
        let flow = json!({
            "id": "team.project_only", "name": "Of the project", "description": "Only there.", "version": "1.0.0",
            "steps": [{"id": "one", "title": "One", "prompt": "Do it."}],
        });
        fs::write(folder.join("workflows/flow.json"), flow.to_string()).unwrap();
    }
    symlink(outside.path(), host.workspaces.join("escape")).unwrap();
    let escape = host.workspaces.join("escape");
    for (name, path, opened) in [
        ("below a root", inside.clone(), true),
        ("elsewhere", outside.path().to_owned(), false),
        ("a link that leads out", escape, false),
        ("a path that climbs out", host.workspaces.join("..").join("data"), false),
        ("nowhere", "/nowhere/at/all".into(), false),
    ] {
        let path = json!(path);
        let listed = agent.call("list_workflows", json!({"workspacePath": path})).await;
        assert_eq!(listed.text.contains("team.project_only"), opened, "{name}: {}", listed.text);
        let project = json!({"workflowId": "team.project_only", "goal": "g", "workspacePath": path});
        let started = agent.call("start_workflow", project).await;
        assert_eq!(started.failed, !opened, "{name}: {}", started.text);
        let anywhere = json!({"workflowId": "team.two_steps", "goal": "g", "workspacePath": path});
        let started = agent.call("start_workflow", anywhere).await;
        let inspected = json!({"workflowId": "team.two_steps", "workspacePath": path});
        let inspected = agent.call("inspect_workflow", inspected).await;
        let resumed = agent.call("resume_session", json!({"workspacePath": path})).await;
        for reply in [listed, started, inspected, resumed] {
            assert!(!reply.failed, "{name}: {}", reply.text);
            assert_eq!(
                reply.facts["warnings"].to_string().contains("label"),
                !opened,
                "{name}: {}",
                reply.facts
            );
            assert_eq!(reply.text.contains("label"), !opened, "{name}: {}", reply.text);
        }
    }
}

#[tokio::test]
async fn messages_over_the_limit_get_retry_after() {
    let host = Host::start_with(Settings { max_messages: 0, ..Settings::default() }).await;
    let refused = send(&host, KEY, &[], &call("list_workflows", json!({}))).await;
    refused.refused(503, "service_unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn messages_are_counted_and_logged_with_their_route() {
    let host = Host::start().await;
    send(&host, KEY, &[], &call("list_workflows", json!({}))).await.expect(200);
    let metrics = host.get("/metrics").await.text();
    assert!(metrics.contains("route=\"/mcp\",method=\"POST\",status=\"2xx\""), "{metrics}");
    let discovered = host.send("GET", "/.well-known/openwop", &[], None).await.expect(200);
    assert_eq!(discovered["extensions"]["interlock"]["mcp"]["url"], "http://host.test/mcp");
}

#[tokio::test]
async fn many_agents_at_once_each_get_their_own_answer() {
    let host = Arc::new(Host::start().await);
    let walks = (0..8).map(|_| {
        let host = Arc::clone(&host);
        async move { walk(&connect(&host, KEY).await).await["run"]["sessionId"].clone() }
    });
    let mut sessions = futures_util::future::join_all(walks).await;
    sessions.sort_by_key(ToString::to_string);
    sessions.dedup();
    assert_eq!(sessions.len(), 8);
}
