//! An agent of an installed pack that uses tools, over HTTP: with a model that speaks the Messages API, and an MCP server of the library.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use ai::prompt::library::Library;
use ai::provider::http::BaseUrl;
use ai::provider::mock::Program;
use axum::body::Body;
use canon::time::Timestamp;
use executors::installed::{host_facts, load_agents};
use executors::mcp::Servers;
use executors::models::{Models, Options as ModelOptions, Provider, Wire};
use executors::{Executors, Options};
use flow::definition::Capabilities;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use packs::archive::Limits;
use packs::install::{HostFacts, Install, InstalledPacks};
use packs::path::EntryPath;
use packs::trust::TrustPolicy;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use system::secrets::NoSecrets;
use tokio::net::TcpListener;

use super::service::{Host, workflow};

const CLERK: &str = "vendor.acme.agents.clerk";
const TOOL: &str = "mcp:library:echo";

/// A server of the library with one tool, which echoes its arguments.
#[derive(Clone, Default)]
struct Echo(Arc<Mutex<Vec<Value>>>);

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema =
            json!({"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}});
        let schema = Arc::new(schema.as_object().unwrap().clone());
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo", "Gives it back.", schema)]))
    }

    async fn call_tool(
        &self,
        called: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let given = Value::Object(called.arguments.unwrap_or_default());
        let text = given["text"].as_str().unwrap_or_default().to_owned();
        self.0.lock().unwrap().push(given);
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

/// Serves HTTP with a function until the test ends.
async fn served<F, A>(answer: F) -> SocketAddr
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            let service = hyper::service::service_fn(move |request| {
                let answer = answer(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async move { drop(connection.await) });
        }
    });
    address
}

async fn library(echo: Echo) -> SocketAddr {
    let config = StreamableHttpServerConfig::default().disable_allowed_hosts().disable_allowed_origins();
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(echo.clone()), sessions, config);
    served(move |request| {
        let service = service.clone();
        async move { service.handle(request).await.map(Body::new) }
    })
    .await
}

type Asked = Arc<Mutex<Vec<Value>>>;

/// A model server for the Messages API: it returns these replies in order and records its requests.
async fn model(answers: Vec<Value>) -> (SocketAddr, Asked) {
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    let answers = Arc::new(answers);
    let address = served(move |request: Request<Incoming>| {
        let (seen, answers) = (Arc::clone(&seen), Arc::clone(&answers));
        async move {
            let body = axum::body::to_bytes(Body::new(request.into_body()), 1 << 20).await.unwrap();
            let mut seen = seen.lock().unwrap();
            seen.push(serde_json::from_slice(&body).unwrap());
            let answer = answers[(seen.len() - 1).min(answers.len() - 1)].to_string();
            Response::builder().header("content-type", "application/json").body(Body::from(answer)).unwrap()
        }
    })
    .await;
    (address, asked)
}

fn message(content: &Value, stop: &str) -> Value {
    json!({
        "id": "m", "type": "message", "role": "assistant", "model": "claude-x", "content": content, "stop_reason": stop,
        "usage": {"input_tokens": 3, "output_tokens": 2},
    })
}

/// A host with the agent, its model and the servers.
async fn equipped(provider: Option<SocketAddr>, mcp: SocketAddr) -> Host {
    let manifest = json!({
        "name": "vendor.acme.crew", "version": "1.0.0", "engines": {"openwop": ">=1.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": "https://acme.example/agents"},
        "agents": [{
            "agentId": CLERK, "persona": "Clerk", "modelClass": "general", "systemPrompt": "Be brief.", "toolAllowlist": [TOOL],
        }],
    })
    .to_string();
    let files = BTreeMap::from([(EntryPath::parse("pack.json").unwrap(), (manifest.as_bytes(), false))]);
    let archive = packs::archive::write(&files).unwrap();
    let (policy, facts) = (TrustPolicy::open(), HostFacts::everything(["fs".to_owned()]));
    let install = Install {
        archive: &archive,
        expected: None,
        policy: &policy,
        host: &facts,
        limits: Limits::DEFAULT,
        now: Timestamp(0),
    };
    let providers = provider.map(|address| Provider {
        wire: Wire::Anthropic,
        base: BaseUrl::parse(&format!("http://{address}")).unwrap(),
        secret: None,
        model: Some("claude".to_owned()),
    });
    let models = Models::new(ModelOptions {
        default: providers.as_ref().map(|_| "local".to_owned()),
        providers: providers.into_iter().map(|provider| ("local".to_owned(), provider)).collect(),
        library: Library::new("host"),
        secrets: Arc::new(NoSecrets),
        outbound: outbound::Client::new(outbound::Reach::Anywhere),
        kinds: ai::envelope::Kinds::only([]),
        mock: true,
    });
    let servers = Servers::new(Arc::new(NoSecrets));
    let servers = servers.with("library", &format!("http://{mcp}/mcp"), None, Vec::new()).unwrap();
    Host::start_executing(Capabilities::OURS, |folder| {
        let installed = InstalledPacks::open(&folder.join("packs")).unwrap();
        installed.install(&install).unwrap();
        Executors::new(Options {
            agents: Some(load_agents(&installed, &host_facts(false)).unwrap().0),
            models: Some(models),
            mcp: Some(servers),
            ..Options::default()
        })
    })
    .await
}

fn document() -> Value {
    let tools = json!([{"name": TOOL, "kind": "mcp"}]);
    let mut document =
        workflow("clerk", &[("n", "core.agents.run", json!({"agentId": CLERK, "tools": tools}))], &json!([]));
    document["nodes"][0]["inputs"] = json!({"prompt": {"type": "static", "value": "Echo it."}});
    document
}

async fn ran(host: &Host) -> (Value, Vec<Value>) {
    host.register(&document()).await;
    let run_id = host.create("clerk").await;
    let run = host.end_of(&run_id).await;
    let polled =
        host.get(&format!("/v1/runs/{run_id}/events/poll?lastSequence=-1&timeout=1")).await.expect(200);
    (run, polled["events"].as_array().unwrap().clone())
}

#[tokio::test]
async fn an_agent_over_http_uses_tools_of_a_server_of_the_library() {
    let echo = Echo::default();
    let wanted = json!([
        {"type": "text", "text": "I will."},
        {"type": "tool_use", "id": "toolu_1", "name": "mcp_library_echo", "input": {"text": "hello"}},
    ]);
    let (address, asked) = model(vec![
        message(&wanted, "tool_use"),
        message(&json!([{"type": "text", "text": "It said hello."}]), "end_turn"),
    ])
    .await;
    let host = equipped(Some(address), library(echo.clone()).await).await;
    let (run, events) = ran(&host).await;
    assert_eq!(run["status"], "completed", "{run}");
    assert_eq!(*echo.0.lock().unwrap(), [json!({"text": "hello"})]);
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0]["tools"][0]["input_schema"]["required"], json!(["text"]));
    let messages = asked[1]["messages"].as_array().unwrap();
    assert_eq!(messages[1]["content"][1]["id"], "toolu_1");
    let result = &messages[2]["content"][0];
    assert_eq!((&result["type"], &result["tool_use_id"]), (&json!("tool_result"), &json!("toolu_1")));
    assert_eq!(result["content"], format!("<UNTRUSTED tool=\"{TOOL}\">hello</UNTRUSTED>"));
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).cloned().collect::<Vec<_>>();
    let (called, returned) = (of("agent.toolCalled"), of("agent.toolReturned"));
    assert_eq!((called.len(), returned.len(), of("provider.usage").len()), (1, 1, 2));
    assert_eq!(returned[0]["causationId"], called[0]["eventId"]);
    assert_eq!(run["nodeStates"]["n"]["outputs"]["output"], "It said hello.");
    assert_eq!(run["nodeStates"]["n"]["outputs"]["contentTrust"], "untrusted");
}

#[tokio::test]
async fn the_mock_provider_can_request_tools() {
    let echo = Echo::default();
    let host = equipped(None, library(echo.clone()).await).await;
    let program = json!([
        {"toolCalls": [{"name": "mcp_library_echo", "arguments": {"text": "one"}}, {"name": "other"}], "reasoning": "hm"},
        {"content": "done"},
    ]);
    host.runs
        .features()
        .executors()
        .unwrap()
        .models()
        .unwrap()
        .programs()
        .program("n", Program::read(&program).unwrap());
    let (run, events) = ran(&host).await;
    assert_eq!(run["status"], "completed", "{run}");
    assert_eq!(*echo.0.lock().unwrap(), [json!({"text": "one"})]);
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let pair = ["agent.toolCalled", "agent.toolReturned"];
    let expected =
        [&["provider.usage", "agent.reasoned"][..], &pair, &pair, &["provider.usage", "agent.decided"]]
            .concat();
    assert_eq!(kinds[2..10], expected);
    assert_eq!(events[3]["payload"]["agentId"], CLERK, "it is the agent that thinks");
    assert_eq!(events[7]["payload"]["status"], "forbidden");
}
