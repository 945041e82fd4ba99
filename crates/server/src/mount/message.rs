//! Messages of JSON-RPC 2.0.

use runs::{ApiCode, Refusal};
use serde_json::{Map, Value, json};

/// A request or a notification.
#[derive(Debug)]
pub(crate) struct Message {
    /// `Null` for a notification, which gets no response.
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
}

/// The content of a body.
#[derive(Debug)]
pub(crate) enum ParsedMessage {
    /// A request, which gets a response.
    Request(Message),
    Notification(Message),
    /// The response to a request of this host: its id, and its result if any.
    Response(Value, Option<Value>),
    /// An invalid request, with its id if any.
    Invalid(Value, RpcError),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcError {
    code: i32,
    message: String,
    data: Option<Value>,
}

impl Message {
    /// Reads a message from a JSON value.
    pub(crate) fn read(body: Value) -> ParsedMessage {
        let Value::Object(mut body) = body else {
            return ParsedMessage::Invalid(Value::Null, RpcError::new(-32600, "a message must be an object"));
        };
        let id = body.remove("id");
        let known = match &id {
            Some(Value::String(text)) if text.len() <= 256 => id.clone(),
            Some(Value::Number(_)) => id.clone(),
            _ => None,
        };
        let answered = known.clone().unwrap_or_default();
        let wrong = |message: &str| ParsedMessage::Invalid(answered.clone(), RpcError::new(-32600, message));
        if body.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return wrong("`jsonrpc` must be \"2.0\"");
        }
        let method = match body.remove("method") {
            Some(Value::String(method)) => method,
            None if body.contains_key("result") || body.contains_key("error") => {
                return ParsedMessage::Response(answered, body.remove("result"));
            }
            _ => return wrong("`method` is required and must be a string"),
        };
        let params = match body.remove("params") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => {
                return ParsedMessage::Invalid(
                    answered,
                    RpcError::invalid(
                        "`params` must be an \
                object",
                    ),
                );
            }
        };
        match (id, known) {
            (None, _) => ParsedMessage::Notification(Self { id: Value::Null, method, params }),
            (Some(_), Some(id)) => ParsedMessage::Request(Self { id, method, params }),
            (Some(_), None) => wrong("`id` must be a number, or a string of at most 256 bytes"),
        }
    }

    /// A string parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.params.get(name).and_then(Value::as_str)
    }
}

impl RpcError {
    fn new(code: i32, message: &str) -> Self {
        Self { code, message: message.to_owned(), data: None }
    }

    /// The parameters are invalid.
    pub(crate) fn invalid(message: &str) -> Self {
        Self::new(-32602, message)
    }

    /// The method is unknown.
    pub(crate) fn no_method() -> Self {
        Self::new(-32601, "method not found")
    }

    /// The tool is unknown, or belongs to another tenant. The error does not say which.
    pub(crate) fn no_tool() -> Self {
        Self::invalid("no tool has this name; tools/list lists all tools")
    }

    /// The prompt is unknown, or belongs to another tenant.
    pub(crate) fn no_prompt() -> Self {
        Self::invalid("no prompt has this name; prompts/list lists all prompts")
    }

    /// The resource is unknown, or belongs to another tenant.
    pub(crate) fn no_resource() -> Self {
        Self::invalid("no resource has this URI; resources/list lists all resources")
    }

    /// The arguments do not match their schema. No run was started.
    pub(crate) fn violations(violations: &[Value]) -> Self {
        let message = "the arguments do not match the schema; nothing was executed".to_owned();
        Self { code: -32602, message, data: Some(json!({"violations": violations})) }
    }

    /// The run did not produce the requested result.
    pub(crate) fn failed(message: &str, data: Value) -> Self {
        Self { code: -32603, message: message.to_owned(), data: Some(data) }
    }

    /// Converts an error of the host to a protocol error. A temporary error stays an error of the host, with
    /// its status and retry time.
    pub(crate) fn of(refusal: Refusal) -> Result<Self, Refusal> {
        match refusal.code {
            // The workflow was removed between the lookup and the call.
            ApiCode::WorkflowNotFound | ApiCode::RunNotFound => Ok(Self::no_tool()),
            code if !refusal.is_host_failure() && refusal.retry_after.is_none() => {
                Ok(Self::failed("the run could not be started", json!({"error": code.as_str()})))
            }
            _ => Err(refusal),
        }
    }

    /// The code, the message and the data.
    pub(crate) fn into_parts(self) -> (i32, String, Option<Value>) {
        (self.code, self.message, self.data)
    }

    pub(crate) fn answer(&self, id: &Value) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }
}
