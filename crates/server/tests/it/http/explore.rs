//! Property test of the OpenAPI document: every operation gets requests that match its description and requests that do not, and all
//! replies must match the document.

mod generate;

use std::collections::BTreeMap;

use jsonschema::Validator;
use serde_json::{Value, json};

use self::generate::{Chance, anything, hostile, spoilt, valid};
use super::client::Answer;
use super::service::{Host, KEY, gate, noop, short, slow, workflow};

/// How many valid and invalid requests each operation gets.
const AS_DESCRIBED: usize = 10;
const OTHERWISE: usize = 20;

/// Operations that may refuse requests that match their schema, such as an answer without a question, or an empty range.
const OPINIONATED: [&str; 21] = [
    "resolveInterrupt",
    "approve",
    "resolveToken",
    "registerWorkflow",
    "seedWorkflow",
    "verifyAuditLog",
    "registerWebhook",
    "fanOut",
    "callSurface",
    "programMock",
    "acceptEnvelope",
    "wrapForPrompt",
    "checkReliabilityEvent",
    "checkUsageEvent",
    "evaluateModelGate",
    "readCacheKey",
    "judgeInstall",
    "readSurfaceFile",
    "composePrompt",
    "resolvePrompt",
    "toggleCapability",
];

/// A pack in the registry.
const PACK: &str = "vendor.acme.nodes";

/// One operation of the document.
struct Operation<'d> {
    name: &'d str,
    method: String,
    path: &'d str,
    described: &'d Value,
}

/// A request, and whether it matches the document.
struct Request {
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Value>,
    as_described: bool,
}

/// The host, and the objects on it.
struct Site {
    host: Host,
    document: Value,
    validators: BTreeMap<String, Validator>,
    /// Ended runs, and all runs.
    ended: Vec<String>,
    runs: Vec<String>,
    tokens: Vec<String>,
    webhooks: Vec<String>,
    artifact: (String, String),
}

impl Site {
    async fn open() -> Self {
        let host = Host::start_equipped(&[]).await;
        let document = host.send("GET", "/v1/openapi.json", &[], None).await.expect(200);
        let emits = workflow(
            "conformance-artifact",
            &[("emit", "conformance.artifact.emit", json!({"data": {"a": 1}}))],
            &json!([]),
        );
        for workflow in [noop(), gate(), slow(), short(), emits] {
            host.register(&workflow).await;
        }
        let made = host.create("conformance-artifact").await;
        let run = host.end_of(&made).await;
        let artifact_id = run["nodeStates"]["emit"]["outputs"]["artifactId"].as_str().unwrap().to_owned();
        let mut ended = vec![made.clone(), host.create("noop").await];
        let cancelled = host.create("slow").await;
        host.post(&format!("/v1/runs/{cancelled}/cancel"), &json!({})).await.expect(200);
        ended.push(cancelled);
        let (waiting, running) = (host.create("gate").await, host.create("slow").await);
        let token = host.get(&format!("/v1/runs/{waiting}")).await.expect(200)["interrupt"]["interruptToken"]
            .as_str()
            .unwrap()
            .to_owned();
        let hook = json!({"url": "https://example.com/", "events": ["nothing.ever"]});
        let hook = host.post("/v1/webhooks", &hook).await.expect(201);
        for version in ["1.0.0", "2.0.0", "3.0.0"] {
            let archive = super::registry::archive(PACK, version);
            for shelf in ["packs", "packs-test"] {
                let path = format!("/v1/{shelf}/{PACK}/-/{version}.tgz");
                host.put(&path, &[], &archive).await.expect(201);
            }
        }
        let validators = validators(&document);
        let runs = ended.iter().cloned().chain([waiting, running]).collect();
        Self {
            host,
            document,
            validators,
            ended,
            runs,
            tokens: vec![token],
            webhooks: vec![hook["webhookId"].as_str().unwrap().to_owned()],
            artifact: (made, artifact_id),
        }
    }

    /// A value for a path parameter: usually of an existing object.
    fn known(&self, operation: &str, name: &str, chance: &mut Chance) -> String {
        if chance.below(6) == 0 {
            return "none".to_owned();
        }
        let of = |values: &[String], chance: &mut Chance| chance.one_of(values).clone();
        match (operation, name) {
            ("readArtifact", "runId") => self.artifact.0.clone(),
            (_, "artifactId") => self.artifact.1.clone(),
            // The stream of an active run does not end.
            ("streamEvents", "runId") => of(&self.ended, chance),
            (_, "runId" | "against") => of(&self.runs, chance),
            (_, "workflowId") => (*chance.one_of(&["noop", "gate"])).to_owned(),
            (_, "token") => of(&self.tokens, chance),
            (_, "webhookId") => of(&self.webhooks, chance),
            (_, "nodeId") => "gate".to_owned(),
            (_, "name") => PACK.to_owned(),
            // A separate version, because other operations need the rest.
            ("unpublishPack" | "unpublishTestPack", "version") => "3.0.0".to_owned(),
            (_, "version") => (*chance.one_of(&["1.0.0", "2.0.0"])).to_owned(),
            _ => "x".to_owned(),
        }
    }

    fn request(&self, operation: &Operation<'_>, as_described: bool, chance: &mut Chance) -> Request {
        let parameters = operation.described["parameters"].as_array().unwrap();
        // One thing is invalid at a time: a parameter or the body.
        let has_body = operation.described["requestBody"]["content"]["application/json"].is_object();
        let places = parameters.len() + usize::from(has_body) * 3;
        let wrong = (!as_described).then(|| chance.below(places.max(1)));
        let (mut path, mut query, mut headers) = (operation.path.to_owned(), Vec::new(), Vec::new());
        let mut is_valid = true;
        for (place, parameter) in parameters.iter().enumerate() {
            let name = parameter["name"].as_str().unwrap();
            let spoil = wrong == Some(place);
            is_valid &= !spoil;
            let value = if spoil { hostile(chance) } else { self.value(operation, parameter, chance) };
            match parameter["in"].as_str().unwrap() {
                "path" => path = path.replace(&format!("{{{name}}}"), &escaped(&value)),
                // Cursors cannot be generated.
                "query" if name == "cursor" && !spoil => {}
                "query" if spoil || parameter["required"] == true || chance.coin() || name == "timeout" => {
                    query.push(format!("{name}={}", escaped(&value)));
                }
                // Characters that are invalid in a header make a malformed request; `hostile.rs` sends those.
                "header" if spoil && value.chars().any(|character| !(' '..='~').contains(&character)) => {}
                "header" if spoil || chance.coin() => headers.push((name.to_owned(), value)),
                _ => {}
            }
        }
        let body = has_body
            .then(|| self.body(operation, wrong.is_some_and(|wrong| wrong >= parameters.len()), chance));
        if let Some(body) = &body {
            let name =
                schema_name(&operation.described["requestBody"]["content"]["application/json"]["schema"]);
            is_valid &= self.validators[name].is_valid(body);
        }
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        Request { path: path + &query, headers, body, as_described: is_valid }
    }

    fn value(&self, operation: &Operation<'_>, parameter: &Value, chance: &mut Chance) -> String {
        let name = parameter["name"].as_str().unwrap();
        match (parameter["in"].as_str().unwrap(), name) {
            ("path", _) | (_, "against" | "workflowId") => self.known(operation.name, name, chance),
            // Polls must not wait here.
            (_, "timeout") => "0".to_owned(),
            (_, "X-Force-Engine-Version") => "1".to_owned(),
            (_, "tenantId") => "a".to_owned(),
            _ => match valid(&parameter["schema"], &self.document["components"], chance) {
                Value::String(text) => text,
                other => other.to_string(),
            },
        }
    }

    fn body(&self, operation: &Operation<'_>, spoil: bool, chance: &mut Chance) -> Value {
        let schema = &operation.described["requestBody"]["content"]["application/json"]["schema"];
        let mut body = match operation.name {
            "registerWorkflow" | "seedWorkflow" => chance.one_of(&[noop(), gate(), short()]).clone(),
            "fanOut" => json!({"nextWorkerIds": ["a", "b"], "config": {"fanOutPolicy": "parallel"}}),
            _ => valid(schema, &self.document["components"], chance),
        };
        for (name, value) in [("workflowId", "noop"), ("tenantId", "a"), ("runId", self.ended[0].as_str())] {
            if body.get(name).is_some_and(Value::is_string) {
                body[name] = value.into();
            }
        }
        if body.get("runIds").is_some() {
            body["runIds"] = json!([self.ended[0], "none"]);
        }
        if !spoil {
            return body;
        }
        if chance.below(8) == 0 { anything(chance) } else { spoilt(&body, chance) }
    }

    async fn send(&self, operation: &Operation<'_>, request: &Request) -> Answer {
        let key = format!("Bearer {KEY}");
        let mut headers = vec![("authorization", key.as_str()), ("content-type", "application/json")];
        headers.extend(request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let body = request.body.as_ref().map(|body| body.to_string().into_bytes());
        self.host.send(&operation.method.to_uppercase(), &request.path, &headers, body.as_deref()).await
    }

    /// Returns what in a reply does not match the document.
    fn check(&self, operation: &Operation<'_>, request: &Request, answer: &Answer) -> Result<(), String> {
        let insist = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        insist(answer.status < 500, "the host failed")?;
        let described = &operation.described["responses"][answer.status.to_string()];
        insist(described.is_object(), "the status is not described")?;
        if let Some(body) = &request.body {
            // An unusual parameter may still be valid; a body that does not match its schema must be refused.
            let schema = &operation.described["requestBody"]["content"]["application/json"]["schema"];
            let is_valid = self.validators[schema_name(schema)].is_valid(body);
            insist(is_valid || answer.status >= 400, "the body is not as described, and was taken")?;
        }
        // Names and versions in registry paths have a syntax beyond their schema.
        let meant = request.as_described
            && !OPINIONATED.contains(&operation.name)
            && !operation.name.contains("Pack");
        let refused = [400, 413, 415].contains(&answer.status);
        insist(!(meant && refused), "the request is as described, and was refused")?;
        let Some(content) = described["content"].as_object() else {
            return insist(answer.body.is_empty(), "there is a body, and none is described");
        };
        let media = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
        let content = content.get(media).ok_or_else(|| format!("{media} is not described"))?;
        if media == "application/json" {
            let validator = &self.validators[schema_name(&content["schema"])];
            if let Some(error) = validator.iter_errors(&answer.json()).next() {
                return Err(format!("{error} at {}", error.instance_path()));
            }
        }
        Ok(())
    }
}

/// A request and its reply in a few lines.
fn shown(operation: &Operation<'_>, request: &Request, answer: &Answer) -> String {
    let cut = |text: &str| text.chars().take(400).collect::<String>();
    let body = request.body.as_ref().map(ToString::to_string).unwrap_or_default();
    let (path, body, text) = (cut(&request.path), cut(&body), cut(&String::from_utf8_lossy(&answer.body)));
    format!("{} {path} {:?} {body}\n  {} {text}", operation.method, request.headers, answer.status)
}

fn schema_name(schema: &Value) -> &str {
    schema["$ref"].as_str().unwrap().strip_prefix("#/components/schemas/").unwrap()
}

/// A validator for each schema of the document.
fn validators(document: &Value) -> BTreeMap<String, Validator> {
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let build = |name: &String| {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": format!("#/components/schemas/{name}"),
            "components": document["components"],
        });
        (name.clone(), jsonschema::options().should_validate_formats(true).build(&schema).unwrap())
    };
    schemas.keys().map(build).collect()
}

/// Percent-encodes a text for a path. Dots are encoded too, so that no client resolves them.
fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_answers_as_it_is_described_whatever_it_is_asked() {
    let site = Site::open().await;
    let before = site.host.get(&format!("/v1/runs/{}", site.ended[0])).await.expect(200);
    let (mut answered, mut found) = (BTreeMap::<u16, usize>::new(), Vec::new());
    for (path, operations) in site.document["paths"].as_object().unwrap() {
        for (method, described) in operations.as_object().unwrap() {
            let name = described["operationId"].as_str().unwrap().trim_end_matches("ByColon");
            let operation = Operation { name, method: method.clone(), path, described };
            // `fanOut` is slow because it waits for its children.
            let (well, badly) = match name {
                // MCP messages have their own specification; `mcp.rs` tests them.
                "callMcp" | "callMount" | "callSampleMount" | "listenMount" => continue,
                "fanOut" => (1, OTHERWISE),
                _ => (AS_DESCRIBED, OTHERWISE),
            };
            for number in 0..well + badly {
                let mut chance = Chance::new(number as u64);
                let request = site.request(&operation, number < well, &mut chance);
                let answer = site.send(&operation, &request).await;
                if let Err(wrong) = site.check(&operation, &request, &answer) {
                    found.push(format!("{wrong}: {}", shown(&operation, &request, &answer)));
                }
                *answered.entry(answer.status).or_default() += 1;
            }
        }
    }
    assert!(found.is_empty(), "{} of {answered:?}:\n{}", found.len(), found.join("\n"));
    for status in [200, 201, 400, 404, 409] {
        assert!(answered.contains_key(&status), "{answered:?}");
    }
    // None of the requests did any damage.
    assert_eq!(site.host.get(&format!("/v1/runs/{}", site.ended[0])).await.expect(200), before);
    let listed = site.host.get("/v1/runs?limit=200").await.expect(200);
    assert!(listed["runs"].as_array().unwrap().len() >= site.runs.len());
    assert_eq!(site.host.get("/v1/audit/verify").await.expect(200)["chainValid"], true);
    assert_eq!(site.host.get("/readyz").await.expect(200)["status"], "ready");
}
