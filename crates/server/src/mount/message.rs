//! Messages of JSON-RPC 2.0.

use host::runs::{ApiCode, Refusal};
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
pub(crate) enum Read {
    /// A request, which gets a response.
    Request(Message),
    /// A notification.
    Notification(Message),
    /// The response to a request of this host: its id, and its result if any.
    Response(Value, Option<Value>),
    /// An invalid request, with its id if any.
    Wrong(Value, RpcError),
}

/// A protocol error.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcError {
    code: i32,
    message: String,
    data: Option<Value>,
}

impl Message {
    /// Reads a message from a JSON value.
    pub(crate) fn read(body: Value) -> Read {
        let Value::Object(mut body) = body else {
            return Read::Wrong(Value::Null, RpcError::new(-32600, "a message is an object"));
        };
        let id = body.remove("id");
        let known = match &id {
            Some(Value::String(text)) if text.len() <= 256 => id.clone(),
            Some(Value::Number(_)) => id.clone(),
            _ => None,
        };
        let answered = known.clone().unwrap_or_default();
        let wrong = |message: &str| Read::Wrong(answered.clone(), RpcError::new(-32600, message));
        if body.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return wrong("`jsonrpc` has to be \"2.0\"");
        }
        let method = match body.remove("method") {
            Some(Value::String(method)) => method,
            None if body.contains_key("result") || body.contains_key("error") => {
                return Read::Response(answered, body.remove("result"));
            }
            _ => return wrong("`method`, a text, is required"),
        };
        let params = match body.remove("params") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return Read::Wrong(answered, RpcError::invalid("`params` has to be an object")),
        };
        match (id, known) {
            (None, _) => Read::Notification(Self { id: Value::Null, method, params }),
            (Some(_), Some(id)) => Read::Request(Self { id, method, params }),
            (Some(_), None) => wrong("`id` is a number, or a text of at most 256 bytes"),
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
        Self::new(-32601, "there is no such method here")
    }

    /// The tool is unknown, or belongs to another tenant. The error does not say which.
    pub(crate) fn no_tool() -> Self {
        Self::invalid("there is no tool of this name; list them with tools/list")
    }

    /// The prompt is unknown, or belongs to another tenant.
    pub(crate) fn no_prompt() -> Self {
        Self::invalid("there is no prompt of this name; list them with prompts/list")
    }

    /// The resource is unknown, or belongs to another tenant.
    pub(crate) fn no_resource() -> Self {
        Self::invalid("there is no resource of this address; list them with resources/list")
    }

    /// The arguments do not match their schema. No run was started.
    pub(crate) fn violations(violations: &[Value]) -> Self {
        let message = "the arguments are not as their schema says; nothing was run".to_owned();
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
                Ok(Self::failed("the run could not be begun", json!({"error": code.as_str()})))
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
