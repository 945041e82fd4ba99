//! Elicitation of an MCP client by the real program, which is killed meanwhile.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{KEY, Served, examples};

/// A client whose session outlives the server process.
struct Client {
    http: reqwest::Client,
    session: String,
}

struct Messages {
    response: reqwest::Response,
    received: String,
}

impl Client {
    async fn initialize(served: &Served) -> Self {
        let mut client = Self { http: reqwest::Client::new(), session: String::new() };
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "tests", "version": "1"},
        });
        let begun = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = client.send(served, &begun).await;
        client.session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        client
    }

    async fn send(&self, served: &Served, message: &Value) -> reqwest::Response {
        let request = self.http.post(format!("{}/v1/mcp", served.url)).bearer_auth(KEY);
        let request = request
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2025-06-18")
            .header("Mcp-Session-Id", &self.session);
        request.body(message.to_string()).send().await.unwrap()
    }

    async fn call(&self, served: &Served, tool: &str) -> Messages {
        let params = json!({"name": tool, "arguments": {}});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let response = self.send(served, &message).await;
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        Messages { response, received: String::new() }
    }

    async fn accept(&self, served: &Served, asked: &Value, content: Value) {
        let result = json!({"action": "accept", "content": content});
        let message = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
        assert_eq!(self.send(served, &message).await.status(), 202);
    }
}

impl Messages {
    /// The next message; `None` when the stream ends or breaks.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.received.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
                self.received = rest.to_owned();
                match data {
                    Some(data) => return Some(serde_json::from_str(&data).unwrap()),
                    // A keep-alive comment.
                    None => continue,
                }
            }
            let chunk = self.response.chunk().await.ok().flatten()?;
            self.received.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

fn asks() -> Value {
    let node = |id: &str, type_id: &str, config: Value| json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}});
    let question =
        json!([{"id": "who", "question": "Who is it for?", "schema": {"type": "string", "minLength": 2}}]);
    json!({
        "id": "asks", "name": "Asks", "version": "1", "metadata": {}, "settings": {}, "variables": [],
        "triggers": [{"id": "manual", "type": "manual"}],
        "nodes": [
            node("tool", "core.openwop.mcp.expose-tool", json!({"name": "asks"})),
            node("ask", "core.clarificationGate", json!({"questions": question})),
            node("gate", "core.approvalGate", json!({"title": "Send it?"})),
        ],
        "edges": [
            {"id": "1", "sourceNodeId": "tool", "targetNodeId": "ask"},
            {"id": "2", "sourceNodeId": "ask", "targetNodeId": "gate"},
        ],
    })
}

#[tokio::test]
async fn an_elicitation_survives_a_server_kill() {
    let data = TempDir::new().unwrap();
    let served = Served::on(data.path(), &examples());
    assert_eq!(served.ask("POST", "/v1/workflows", Some(asks()), KEY, None).await.0, 201);
    let client = Client::initialize(&served).await;
    let mut calling = client.call(&served, "asks").await;
    let asked = calling.next().await.unwrap();
    assert_eq!(asked["params"]["message"], "Who is it for?", "{asked}");
    client.accept(&served, &asked, json!({"who": "x"})).await;
    let again = calling.next().await.unwrap();
    assert!(again["params"]["message"].as_str().unwrap().ends_with("Who is it for?"), "{again}");
    client.accept(&served, &again, json!({"who": "Ada"})).await;
    let printed = calling.next().await.unwrap();
    let run_id = printed["params"]["_meta"]["runId"].as_str().unwrap().to_owned();
    let message = printed["params"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("{}/console/approvals/{run_id}", served.url)), "{message}");
    assert!(message.contains("Send it?"), "{message}");
    served.kill();
    assert_eq!(calling.next().await, None);

    let served = Served::on(data.path(), &examples());
    let (_, run) = served.ask("GET", &format!("/v1/runs/{run_id}"), None, KEY, None).await;
    assert_eq!((&run["status"], &run["interrupt"]["nodeId"]), (&json!("waiting-approval"), &json!("gate")));
    let path = format!("/v1/runs/{run_id}/interrupts/gate");
    let accept = json!({"resumeValue": {"action": "accept"}});
    assert_eq!(served.ask("POST", &path, Some(accept), KEY, None).await.0, 200);
    assert_eq!(served.settled(&run_id).await["status"], "completed");
    // The new process knows the client's capabilities from the session; requests of the old process
    // are over.
    let mut calling = client.call(&served, "asks").await;
    let asked = calling.next().await.unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    let late = json!({"jsonrpc": "2.0", "id": printed["id"], "result": {"action": "accept"}});
    assert_eq!(client.send(&served, &late).await.status(), 400);
    client.accept(&served, &asked, json!({"who": "Ada"})).await;
    let printed = calling.next().await.unwrap();
    let decline = json!({"jsonrpc": "2.0", "id": printed["id"], "result": {"action": "decline"}});
    assert_eq!(client.send(&served, &decline).await.status(), 202);
    let ended = calling.next().await.unwrap();
    assert_eq!((&ended["id"], &ended["result"]["isError"]), (&json!(1), &json!(true)), "{ended}");
}
