//! Workflows as an MCP server: tools, resources and prompts of the caller's tenant, separate from the guided
//! sessions.
//!
//! ```text
//!  message ─► read strictly ─► what the tenant exposes ─► arguments checked ─► run ─► its end, as the answer
//!                                                             │ wrong: -32602, and there is no run
//! ```
//!
//! The protocol library serves the guided tools, which are a closed set. Here the set is whatever a tenant
//! registered, and the host protocol has requirements that a library decides by itself: arguments are
//! validated before a run exists, with all violations reported; an unknown tool and a tool of another tenant
//! get identical responses; when a client disconnects, its run is cancelled. So this is a small dispatcher
//! for one message at a time. Between messages it keeps only the waiting calls and the requests that were
//! sent to their clients.
//!
//! All input is untrusted, and the run records that (`metadata.trustBoundary`). A client that supports
//! elicitation is asked the questions of a run; no message can approve anything.

mod completion;
pub(crate) mod elicitation;
mod form;
pub(crate) mod lists;
mod message;
mod pending;
pub(crate) mod pending_requests;
pub(crate) mod progress;
mod results;
mod run;
pub(crate) mod surface;

use std::sync::Arc;
use std::time::Duration;

use ai::node::sampling::Sampling;
use flow::definition::exposed::address;
use flow::definition::exposed::form::Form;
use runs::exposed::{Exposed, Exposure};
use runs::{Caller, NewRun, Refusal, Runs, Scope};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};

use self::elicitation::{ClientChannel, ClientRequests};
pub(crate) use self::message::{Message, ParsedMessage, RpcError};
pub(crate) use self::pending::PendingCalls;
use self::pending_requests::Client;
use self::progress::Progress;
use self::run::{CallResult, End, WatchOptions};
use self::surface::AnswerUrls;

/// The protocol editions that start with `initialize`, newest first. For the methods used here, their
/// messages are the same.
pub(crate) const EDITIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// The server instructions that a client receives.
pub(crate) const INSTRUCTIONS: &str = "\
Each tool, resource and prompt is a workflow: using one starts a run and waits for its end. A run that \
needs an answer asks you if you support elicitation. Otherwise, and for approvals, the reply has the URL \
where a person answers.";
/// The methods whose runs may ask the client: the client started them for itself.
pub(crate) const ASKING: [&str; 3] = ["tools/call", "resources/read", "prompts/get"];
/// The log levels of MCP.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// One request with its caller.
pub(crate) struct Mount<'m> {
    pub(crate) runs: &'m Runs,
    pub(crate) caller: &'m Caller,
    /// How long a call waits for its run.
    pub(crate) timeout: Duration,
    /// Whether the host is shutting down.
    pub(crate) stopping: watch::Receiver<bool>,
    /// The waiting calls, and the client of this one.
    pub(crate) pending: &'m PendingCalls,
    pub(crate) client: Arc<Client>,
    /// Where people answer.
    pub(crate) urls: AnswerUrls,
    /// The progress token and channel, if the client requested progress, and the interval of reports.
    pub(crate) progress: Option<(Value, mpsc::Sender<Value>)>,
    pub(crate) progress_interval: Duration,
    /// How to ask the client, if it supports elicitation.
    pub(crate) client_channel: Option<ClientChannel>,
}

/// The answer to a request: a result, a protocol error, or an error of the host.
pub(crate) type MountReply = Result<Result<Value, RpcError>, Refusal>;

impl Mount<'_> {
    pub(crate) async fn answer(&self, message: &Message) -> MountReply {
        let params = &message.params;
        match message.method.as_str() {
            "initialize" => Ok(Ok(initialized(params))),
            "ping" => Ok(Ok(json!({}))),
            "logging/setLevel" => Ok(set_level(params)),
            "tools/list" => self.list(params, lists::tools).await,
            "resources/list" => self.list(params, lists::resources).await,
            "resources/templates/list" => self.list(params, lists::templates).await,
            "prompts/list" => self.list(params, lists::prompts).await,
            "tools/call" => self.call_tool(message).await,
            "resources/read" => self.read_resource(message).await,
            "prompts/get" => self.get_prompt(message).await,
            "completion/complete" => self.complete(params).await,
            "elicitation/create" => self.elicit(message).await,
            "sampling/createMessage" => self.sample(message).await,
            _ => Ok(Err(RpcError::no_method())),
        }
    }

    /// Handles the notification that a client cancels an earlier request.
    pub(crate) fn notified(&self, message: &Message) {
        if message.method == "notifications/cancelled" && !self.client.session.is_empty() {
            let id = message.params.get("requestId").map(ToString::to_string).unwrap_or_default();
            self.pending.cancel(&self.client, &id);
        }
    }

    /// A page of a list. A key without permission to read workflows gets an empty list.
    async fn list(&self, params: &Map<String, Value>, of: fn(&Exposed, Option<&str>) -> Value) -> MountReply {
        let cursor = match params.get("cursor") {
            None | Some(Value::Null) => None,
            Some(Value::String(cursor)) => Some(cursor.as_str()),
            Some(_) => {
                return Ok(Err(RpcError::invalid(
                    "`cursor` must be the `nextCursor` of the previous \
                                                        page",
                )));
            }
        };
        if !self.caller.may(Scope::ManifestRead) {
            return Ok(Ok(of(&Exposed::default(), None)));
        }
        let exposed = self.runs.definitions().exposed(&self.caller.tenant).await?;
        Ok(Ok(of(&exposed, cursor)))
    }

    /// Completes an argument. A key without permission to read workflows sees no prompts and gets no
    /// completions.
    async fn complete(&self, params: &Map<String, Value>) -> MountReply {
        if !self.caller.may(Scope::ManifestRead) {
            return Ok(completion::complete(&Exposed::default(), params));
        }
        Ok(completion::complete(&*self.runs.definitions().exposed(&self.caller.tenant).await?, params))
    }

    async fn call_tool(&self, message: &Message) -> MountReply {
        let exposed = self.runs.definitions().exposed(&self.caller.tenant).await?;
        let tool = message.text("name").and_then(|name| exposed.tools.get_key_value(name));
        let Some((name, tool)) = tool else { return Ok(Err(RpcError::no_tool())) };
        let arguments = match message.params.get("arguments") {
            None | Some(Value::Null) => json!({}),
            Some(given) => given.clone(),
        };
        let violations = match &arguments {
            Value::Object(_) => tool.violations(&arguments),
            _ => vec![json!({"path": "", "message": "the arguments must be an object"})],
        };
        if !violations.is_empty() {
            return Ok(Err(RpcError::violations(&violations)));
        }
        let end = match self.run(message, tool, name, arguments).await? {
            Ok(end) => end,
            Err(error) => return Ok(Err(error)),
        };
        Ok(Ok(results::of_tool(&self.urls, tool, end)))
    }

    async fn read_resource(&self, message: &Message) -> MountReply {
        let Some(uri) = message.text("uri") else {
            return Ok(Err(RpcError::invalid("`uri` is required and must be a string")));
        };
        if let Err(wrong) = address::check(uri) {
            return Ok(Err(RpcError::invalid(wrong)));
        }
        let exposed = self.runs.definitions().exposed(&self.caller.tenant).await?;
        let mut inputs = json!({"uri": uri});
        let exact = exposed.resources.get(uri);
        let found = exact.or_else(|| {
            let mut all = exposed.templates.values();
            let (found, exposure) =
                all.find_map(|(template, exposure)| Some((template.matches(uri)?, exposure)))?;
            inputs["arguments"] =
                found.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect();
            Some(exposure)
        });
        let Some(resource) = found else { return Ok(Err(RpcError::no_resource())) };
        let end = match self.run(message, resource, uri, inputs).await? {
            Ok(end) => end,
            Err(error) => return Ok(Err(error)),
        };
        Ok(results::of_resource(&self.urls, uri, resource.text("mimeType"), end))
    }

    async fn get_prompt(&self, message: &Message) -> MountReply {
        let exposed = self.runs.definitions().exposed(&self.caller.tenant).await?;
        let prompt = message.text("name").and_then(|name| exposed.prompts.get_key_value(name));
        let Some((name, prompt)) = prompt else { return Ok(Err(RpcError::no_prompt())) };
        let given = match message.params.get("arguments") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(given)) if given.values().all(Value::is_string) => given.clone(),
            Some(_) => {
                return Ok(Err(RpcError::invalid(
                    "the arguments of a prompt must be an object of \
                                                        strings",
                )));
            }
        };
        let declared = prompt.config.get("arguments").and_then(Value::as_array).into_iter().flatten();
        let required = declared.filter(|argument| argument["required"] == true);
        let missing = required
            .filter_map(|argument| argument["name"].as_str())
            .filter(|name| !given.contains_key(*name));
        let violations: Vec<_> =
            missing.map(|name| json!({"path": format!("/{name}"), "message": "required"})).collect();
        if !violations.is_empty() {
            return Ok(Err(RpcError::violations(&violations)));
        }
        // They are inputs of the run, and never part of a template.
        let inputs = json!({"arguments": given});
        let end = match self.run(message, prompt, name, inputs).await? {
            Ok(end) => end,
            Err(error) => return Ok(Err(error)),
        };
        let template = results::filled(prompt, &given);
        Ok(results::of_prompt(&self.urls, &prompt.workflow.name, &template, end))
    }

    /// Handles a client's elicitation: a workflow asks a person on this host.
    async fn elicit(&self, message: &Message) -> MountReply {
        let exposed = self.runs.definitions().exposed(&self.caller.tenant).await?;
        let Some(handler) = &exposed.elicitation else { return Ok(Err(RpcError::no_method())) };
        let request = Value::Object(message.params.clone());
        if let Err(wrong) = Form::read(&request) {
            return Ok(Err(RpcError::invalid(&wrong)));
        }
        let end = match self.run(message, handler, "elicitation", json!({"request": request})).await? {
            Ok(end) => end,
            Err(error) => return Ok(Err(error)),
        };
        Ok(results::of_elicitation(end))
    }

    /// Handles a client's sampling request: a workflow calls a model that its author chose, at the host's
    /// expense.
    async fn sample(&self, message: &Message) -> MountReply {
        if !self.runs.features().capabilities().mcp_sampling {
            return Ok(Err(RpcError::no_method()));
        }
        let exposed = self.runs.definitions().exposed(&self.caller.tenant).await?;
        let Some(handler) = &exposed.sampling else { return Ok(Err(RpcError::no_method())) };
        let request = Value::Object(message.params.clone());
        if let Err(wrong) = Sampling::read(&request) {
            let violation = json!({"path": wrong.pointer, "message": wrong.message});
            return Ok(Err(RpcError::violations(&[violation])));
        }
        let end = match self.run(message, handler, "sampling", json!({"request": request})).await? {
            Ok(end) => end,
            Err(error) => return Ok(Err(error)),
        };
        Ok(results::of_sampling(&self.urls, end))
    }

    /// Runs the exposed workflow, and waits for its end.
    async fn run(
        &self,
        message: &Message,
        exposure: &Exposure,
        name: &str,
        inputs: Value,
    ) -> Result<Result<End, RpcError>, Refusal> {
        let Value::Object(inputs) = inputs else {
            return Ok(Err(RpcError::invalid("the arguments must be an object")));
        };
        let waits = self.pending.enter(&self.client, &message.id.to_string());
        let named: String = name.chars().take(256).collect();
        let metadata = Map::from_iter([
            ("trustBoundary".to_owned(), "untrusted".into()),
            ("mcp".to_owned(), json!({"method": message.method, "name": named})),
        ]);
        let new = NewRun { inputs, metadata, ..NewRun::of(exposure.workflow.id.clone()) };
        let progress = self.progress.clone();
        let progress = progress.map(|(token, to)| Progress::new(token, to, exposure.workflow.nodes.len()));
        let client_channel =
            self.client_channel.clone().filter(|_| ASKING.contains(&message.method.as_str()));
        let client_requests = client_channel.map(|client_channel| {
            ClientRequests::new(client_channel, self.runs, self.caller, self.urls.clone())
        });
        let (timeout, progress_interval, stopping) =
            (self.timeout, self.progress_interval, self.stopping.clone());
        let watch = WatchOptions { timeout, progress_interval, stopping, waits, progress, client_requests };
        match run::run(self.runs, self.caller, new, watch).await {
            Ok(CallResult::Ended(end)) => Ok(Ok(end)),
            Ok(CallResult::Refused(violations)) => Ok(Err(RpcError::violations(&violations))),
            Err(refusal) => RpcError::of(refusal).map(Err),
        }
    }
}

/// The requested edition if it is supported, otherwise the newest one that starts with `initialize`.
fn initialized(params: &Map<String, Value>) -> Value {
    let named = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let edition = EDITIONS.into_iter().find(|known| *known == named).unwrap_or(EDITIONS[0]);
    json!({
        "protocolVersion": edition,
        "capabilities": {
            "tools": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": false},
            "prompts": {"listChanged": true},
            "completions": {},
            "logging": {},
        },
        "serverInfo": {"name": "interlock", "title": "Interlock: workflows", "version": env!("CARGO_PKG_VERSION")},
        "instructions": INSTRUCTIONS,
    })
}

/// No log messages are sent, so there is nothing to filter: the level is only validated.
fn set_level(params: &Map<String, Value>) -> Result<Value, RpcError> {
    match params.get("level").and_then(Value::as_str) {
        Some(level) if LEVELS.contains(&level) => Ok(json!({})),
        _ => Err(RpcError::invalid(
            "`level` must be one of debug, info, notice, warning, error, critical, alert, emergency",
        )),
    }
}
