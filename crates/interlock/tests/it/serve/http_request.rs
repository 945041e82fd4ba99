//! `core.http.request`, with the real program and a server of its own.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{KEY, Served};

/// A request that the server received.
#[derive(Clone, Debug)]
struct Received {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Received {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Replies with one text after the other, and remembers the requests. Each connection serves one request.
struct Peer {
    port: u16,
    replies: Arc<Mutex<VecDeque<String>>>,
    received: Arc<Mutex<Vec<Received>>>,
    arrived: std::sync::mpsc::Receiver<()>,
}

/// A reply that never comes: the connection stays open.
const NEVER: &str = "never";

impl Peer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let replies = Arc::new(Mutex::new(VecDeque::new()));
        let received = Arc::new(Mutex::new(Vec::new()));
        let (arrive, arrived) = std::sync::mpsc::channel();
        let peer = Self { port, replies: Arc::clone(&replies), received: Arc::clone(&received), arrived };
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read(&stream) else { continue };
                received.lock().unwrap().push(request);
                let _ = arrive.send(());
                // Without a reply, the connection is closed after the request arrived.
                match replies.lock().unwrap().pop_front().as_deref() {
                    None => {}
                    Some(NEVER) => open.push(stream),
                    Some(reply) => stream.write_all(reply.as_bytes()).unwrap(),
                }
            }
        });
        peer
    }

    fn reply(&self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        let reply = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        self.replies.lock().unwrap().push_back(reply);
    }

    fn take(&self) -> Vec<Received> {
        std::mem::take(&mut self.received.lock().unwrap())
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

fn read(stream: &TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Received { line: line.trim_end().to_owned(), headers, body: String::from_utf8(body).unwrap() })
}

/// A server whose settings allow this machine, with a secret for it.
fn served(data: &Path, settings: &str) -> Served {
    let secrets = "[secrets]\ntoken = \"env:PEER_TOKEN\"\n";
    std::fs::write(data.join("config.toml"), format!("{settings}\n{secrets}")).unwrap();
    let workflows = data.join("workflows");
    std::fs::create_dir_all(&workflows).unwrap();
    Served::with_environment(data, &workflows, &[("PEER_TOKEN", "hunter2-hunter2")])
}

const ALLOWED: &str = "[egress]\nhttp = [\"127.0.0.1\"]\nprivate = { \"127.0.0.1/32\" = [\"http\"] }\n\
                       [http.credentials.bot]\nsecret = \"token\"\naudience = [\"127.0.0.1\"]\n\
                       [http.credentials.other]\nsecret = \"token\"\naudience = [\"api.example.com\"]\n";

fn workflow(id: &str, config: &Value, credential: Option<&str>) -> Value {
    let mut node = json!({
        "id": "call", "typeId": "core.http.request", "name": "Call", "position": {"x": 0, "y": 0}, "config": config,
        "inputs": {
            "body": {"type": "variable", "variableName": "body", "optional": true},
            "id": {"type": "variable", "variableName": "id", "optional": true},
        },
    });
    if let Some(name) = credential {
        node["credentialsRef"] = format!("credential:{name}").into();
    }
    json!({
        "id": id, "name": id, "version": "1", "nodes": [node], "edges": [], "metadata": {}, "settings": {},
        "triggers": [{"id": "t", "type": "manual"}],
        "variables": [
            {"name": "body", "type": "object", "required": false}, {"name": "id", "type": "string", "required": false},
        ],
    })
}

impl Served {
    async fn register(&self, document: &Value) -> (u16, Value) {
        self.ask("POST", "/v1/workflows", Some(document.clone()), KEY, None).await
    }

    /// Registers and runs a workflow of one request. Returns the outputs of the node, or its error, and all events.
    async fn call(&self, document: &Value, inputs: Value) -> (Result<Value, Value>, Vec<Value>) {
        let (status, printed) = self.register(document).await;
        assert!(status == 201 || status == 200, "{printed}");
        let run_id = self.create(document["id"].as_str().unwrap(), inputs).await;
        self.settled(&run_id).await;
        let (_, log) = self.ask("GET", &format!("/v1/runs/{run_id}/events/poll"), None, KEY, None).await;
        let events = log["events"].as_array().unwrap().clone();
        let of =
            |kind: &str| events.iter().find(|event| event["type"] == kind).map(|event| &event["payload"]);
        let outcome = match (of("node.completed"), of("node.failed")) {
            (Some(completed), _) => Ok(completed["outputs"].clone()),
            (None, Some(failed)) => Err(failed["error"].clone()),
            (None, None) => panic!("the node did not end: {events:?}"),
        };
        (outcome, events)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_sends_a_request_with_its_body_credential_and_key() {
    let (data, peer) = (TempDir::new().unwrap(), Peer::start());
    let served = served(data.path(), ALLOWED);
    peer.reply(
        "201 Created",
        "content-type: application/json\r\nset-cookie: session=1\r\nx-id: 7\r\n",
        r#"{"number": 7}"#,
    );
    let config = json!({"method": "POST", "url": peer.url("/items/{{id}}?q={{id}}"), "headers": {"Accept": "application/json"}});
    let document = workflow("create-item", &config, Some("bot"));
    let (outcome, events) = served.call(&document, json!({"id": "a/b", "body": {"title": "x"}})).await;
    let outputs = outcome.unwrap();
    assert_eq!(
        (&outputs["status"], &outputs["body"], &outputs["attempts"]),
        (&json!(201), &json!({"number": 7}), &json!(1))
    );
    assert_eq!((&outputs["headers"]["x-id"], &outputs["contentTrust"]), (&json!("7"), &json!("untrusted")));
    assert!(outputs["headers"].get("set-cookie").is_none(), "cookies are not recorded: {outputs}");

    let [request] = &peer.take()[..] else { panic!("one request") };
    assert_eq!(request.line, "POST /items/a%2Fb?q=a%2Fb HTTP/1.1");
    assert_eq!(request.body, r#"{"title":"x"}"#);
    assert_eq!(request.header("authorization"), Some("Bearer hunter2-hunter2"));
    assert_eq!(request.header("idempotency-key"), outputs["idempotencyKey"].as_str());
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert!(!json!(events).to_string().contains("hunter2"), "no event has the credential");
    let decided = events.iter().find(|event| event["payload"]["fields"]["decision"] == "allowed").unwrap();
    assert_eq!(decided["payload"]["fields"]["credentialId"], "bot");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_requests_that_can_be_repeated_are_repeated() {
    let (data, peer) = (TempDir::new().unwrap(), Peer::start());
    let served = served(data.path(), ALLOWED);
    let quick = json!({"maxAttempts": 3, "initialDelayMs": 10});
    let config = |method: &str, honoured: bool| json!({"method": method, "url": peer.url("/"), "retry": quick, "idempotency": {"honoured": honoured}});

    peer.reply("503 Busy", "retry-after: 0\r\n", "");
    peer.reply("200 OK", "", "done");
    let (outcome, _) = served.call(&workflow("read", &config("GET", false), None), json!({})).await;
    assert_eq!(outcome.unwrap()["attempts"], 2);
    assert_eq!(peer.take().len(), 2);

    peer.reply("503 Busy", "", "");
    let (outcome, _) =
        served.call(&workflow("write", &config("POST", false), None), json!({"body": {}})).await;
    let error = outcome.unwrap_err();
    assert_eq!((&error["code"], &error["details"]["status"]), (&json!("http_status"), &json!(503)));
    assert_eq!(peer.take().len(), 1, "a POST may have been executed");

    // The connection is closed after the request arrived.
    let (outcome, _) = served.call(&workflow("cut", &config("POST", false), None), json!({"body": {}})).await;
    assert_eq!(outcome.unwrap_err()["code"], "http_connect");
    assert_eq!(peer.take().len(), 1);

    peer.reply("503 Busy", "", "");
    peer.reply("200 OK", "", "");
    let (outcome, _) =
        served.call(&workflow("keyed", &config("POST", true), None), json!({"body": {}})).await;
    assert_eq!(outcome.unwrap()["attempts"], 2);
    let keys: Vec<_> =
        peer.take().iter().map(|one| one.header("idempotency-key").map(str::to_owned)).collect();
    assert!(keys.len() == 2 && keys[0].is_some() && keys[0] == keys[1], "{keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_only_where_the_operator_allows_it() {
    let (data, peer) = (TempDir::new().unwrap(), Peer::start());
    let served = served(data.path(), ALLOWED);
    let config = json!({"url": peer.url("/"), "followRedirects": 5});

    let elsewhere = workflow("elsewhere", &json!({"url": "https://api.example.com/"}), None);
    let (status, problem) = served.register(&elsewhere).await;
    assert_eq!(status, 400, "{problem}");
    assert!(problem.to_string().contains("egress.http"), "{problem}");
    let (status, problem) = served.register(&workflow("unknown", &config, Some("nobody"))).await;
    assert_eq!(status, 400, "{problem}");
    assert!(problem.to_string().contains("http.credentials"), "{problem}");

    // A credential for another host.
    let (outcome, events) = served.call(&workflow("audience", &config, Some("other")), json!({})).await;
    let error = outcome.unwrap_err();
    assert_eq!(
        (&error["code"], &error["details"]["reason"]),
        (&json!("egress_denied"), &json!("out-of-audience"))
    );
    assert!(events.iter().any(|event| event["payload"]["fields"]["decision"] == "denied"), "{events:?}");
    assert!(peer.take().is_empty(), "nothing was sent");

    // Redirects to other hosts, to metadata services and to other schemes.
    for location in [
        "https://api.example.com/",
        "http://169.254.169.254/latest",
        "http://localhost/",
        "file:///etc/passwd",
    ] {
        peer.reply("302 Found", &format!("location: {location}\r\n"), "");
        let (outcome, _) = served.call(&workflow("away", &config, Some("bot")), json!({})).await;
        let code = outcome.unwrap_err()["code"].clone();
        assert!(code == "egress_denied" || code == "invalid_url", "{location}: {code}");
        assert_eq!(peer.take().len(), 1, "{location}");
    }
    peer.reply("302 Found", "location: /next?a=1\r\n", "");
    peer.reply("200 OK", "content-type: text/plain\r\n", "here");
    let (outcome, _) = served.call(&workflow("near", &config, None), json!({})).await;
    assert_eq!(outcome.unwrap()["body"], "here");
    assert_eq!(peer.take()[1].line, "GET /next?a=1 HTTP/1.1");
}

/// After a crash it is unknown whether a request was executed.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_only_a_request_that_can_be_repeated_is_sent_again() {
    for (method, status) in [("GET", "completed"), ("POST", "failed")] {
        let (data, peer) = (TempDir::new().unwrap(), Peer::start());
        let first = served(data.path(), ALLOWED);
        peer.replies.lock().unwrap().push_back(NEVER.to_owned());
        let document = workflow("interrupted", &json!({"method": method, "url": peer.url("/")}), None);
        assert_eq!(first.register(&document).await.0, 201);
        let run_id = first.create("interrupted", json!({})).await;
        peer.arrived.recv().unwrap();
        first.kill();

        peer.reply("200 OK", "", "done");
        let second = served(data.path(), ALLOWED);
        let run = second.settled(&run_id).await;
        assert_eq!(run["status"], status, "{method}: {run}");
        assert_eq!(peer.take().len(), if method == "GET" { 2 } else { 1 }, "{method}");
        if method == "POST" {
            assert_eq!(run["error"]["code"], "effect_outcome_unknown", "{run}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_are_limited_and_read_as_the_node_says() {
    let (data, peer) = (TempDir::new().unwrap(), Peer::start());
    let served = served(data.path(), ALLOWED);
    let config = |response: Value, accept: Value| json!({"url": peer.url("/"), "response": response, "accept": accept});

    peer.reply("200 OK", "", &"x".repeat(2000));
    let (outcome, _) = served
        .call(&workflow("large", &config(json!({"maxBytes": 1000}), json!(["2xx"])), None), json!({}))
        .await;
    assert_eq!(outcome.unwrap_err()["code"], "http_response_too_large");

    peer.reply("200 OK", "", "{");
    let (outcome, _) = served
        .call(&workflow("broken", &config(json!({"as": "json"}), json!(["2xx"])), None), json!({}))
        .await;
    assert_eq!(outcome.unwrap_err()["code"], "http_response_invalid");

    peer.reply("404 Not Found", "", "nothing here");
    let (outcome, _) =
        served.call(&workflow("missing", &config(json!({}), json!(["2xx", "404"])), None), json!({})).await;
    let outputs = outcome.unwrap();
    assert_eq!((&outputs["status"], &outputs["body"]), (&json!(404), &json!("nothing here")));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_allowed_hosts_the_node_is_not_available() {
    let data = TempDir::new().unwrap();
    let served = served(data.path(), "");
    let (status, problem) =
        served.register(&workflow("x", &json!({"url": "https://api.example.com/"}), None)).await;
    assert_eq!(status, 400, "{problem}");
    assert!(problem.to_string().contains("httpClient.supported"), "{problem}");
    let (_, discovery) = served.ask("GET", "/.well-known/openwop", None, KEY, None).await;
    assert!(!discovery.to_string().contains("httpClient"), "{discovery}");
}
