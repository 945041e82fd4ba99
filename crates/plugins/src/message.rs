//! The messages of `ui-plugin/1`. Their shapes are closed.

use std::fmt;

use serde_json::{Map, Value, json};

/// The tag of the protocol.
pub const PROTOCOL: &str = "ui-plugin/1";
/// The maximum size of a message, in bytes of JSON. As form data it is at most three times as large.
pub const MAX_MESSAGE_BYTES: usize = 256 << 10;
/// The maximum id: the largest integer that every JSON parser represents exactly.
const MAX_ID: u64 = (1 << 53) - 1;

#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The id, which the response repeats.
    pub id: u64,
    /// The name of the method, possibly unknown.
    pub method: String,
    pub params: Map<String, Value>,
}

/// Why a message with the tag of the protocol is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The message has an unknown member.
    #[error("a request can only have the members `openwop`, `type`, `id`, `method` and `params`")]
    Members,
    /// The message is not a request.
    #[error("`type` must be \"request\"")]
    Type,
    /// The id is invalid.
    #[error("`id` must be an integer from 0 to 9007199254740991")]
    Id,
    /// The method is not a string.
    #[error("`method` must be a string")]
    Method,
    /// `params` is not an object.
    #[error("`params` must be an object")]
    Params,
}

impl Request {
    /// Reads a message. Returns `None` for a message without the tag of the protocol, which is meant for another recipient.
    ///
    /// # Errors
    /// The message has the tag, but is not a valid request.
    pub fn read(message: &Value) -> Result<Option<Self>, Malformed> {
        let Value::Object(members) = message else { return Ok(None) };
        if members.get("openwop").and_then(Value::as_str) != Some(PROTOCOL) {
            return Ok(None);
        }
        if members.keys().any(|name| !["openwop", "type", "id", "method", "params"].contains(&name.as_str()))
        {
            return Err(Malformed::Members);
        }
        if members.get("type").and_then(Value::as_str) != Some("request") {
            return Err(Malformed::Type);
        }
        let id = members.get("id").and_then(Value::as_u64).filter(|id| *id <= MAX_ID).ok_or(Malformed::Id)?;
        let method = members.get("method").and_then(Value::as_str).ok_or(Malformed::Method)?.to_owned();
        let params = match members.get("params") {
            None => Map::new(),
            Some(Value::Object(params)) => params.clone(),
            Some(_) => return Err(Malformed::Params),
        };
        Ok(Some(Self { id, method, params }))
    }
}

/// The error codes: a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The plugin did not declare the method, or the host does not offer it.
    MethodNotAllowed,
    /// The artifact has changed since the plugin read it.
    ArtifactConflict,
    /// The artifact does not exist, or the viewer may not see it.
    ArtifactNotFound,
    /// The viewer lacks the permission.
    Unauthorized,
    /// Any other error.
    Internal,
}

impl ErrorCode {
    /// The spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MethodNotAllowed => "method_not_allowed",
            Self::ArtifactConflict => "artifact_conflict",
            Self::ArtifactNotFound => "artifact_not_found",
            Self::Unauthorized => "unauthorized",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Why a request failed. Messages are fixed sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    pub code: ErrorCode,
    pub message: &'static str,
    /// The current version; only with [`ErrorCode::ArtifactConflict`].
    pub current_version: Option<String>,
}

pub fn response(id: u64, outcome: &Result<Value, RpcError>) -> Value {
    let mut response = json!({"openwop": PROTOCOL, "type": "response", "id": id, "ok": outcome.is_ok()});
    match outcome {
        Ok(result) => response["result"] = result.clone(),
        Err(error) => {
            response["error"] = json!({"code": error.code.as_str(), "message": error.message});
            if let Some(current) = &error.current_version {
                response["error"]["currentVersion"] = current.as_str().into();
            }
        }
    }
    response
}
