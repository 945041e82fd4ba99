//! Messages of `ui-plugin/1`, each of a closed shape.

use std::fmt;

use serde_json::{Map, Value, json};

/// The tag of the protocol.
pub const PROTOCOL: &str = "ui-plugin/1";
/// The largest message, in bytes of JSON. Sent as a form it has at most three times as many.
pub const MAX_MESSAGE_BYTES: usize = 256 << 10;
/// The greatest id: the largest integer that every reader of JSON keeps.
const MAX_ID: u64 = (1 << 53) - 1;

/// What a plugin asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its number, which the answer repeats.
    pub id: u64,
    /// The method, whatever it is.
    pub method: String,
    /// What goes with it.
    pub params: Map<String, Value>,
}

/// Why something with the tag of the protocol is no message of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There is a member that a request does not have.
    #[error("a request has `openwop`, `type`, `id`, `method` and `params`, and no other members")]
    Members,
    /// It is not a request.
    #[error("`type` is \"request\": a plugin sends nothing else")]
    Type,
    /// The number is none.
    #[error("`id` is a whole number from 0 to 9007199254740991")]
    Id,
    /// The method is no text.
    #[error("`method` is a text")]
    Method,
    /// What goes with it is no object.
    #[error("`params` is an object")]
    Params,
}

impl Request {
    /// Reads a message. Nothing comes of what does not carry the tag of the protocol: it is somebody else's.
    ///
    /// # Errors
    /// When it carries the tag and is no request.
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

/// The codes of errors. There are no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The method is not on both lists.
    MethodNotAllowed,
    /// The artifact holds something else than the plugin saw.
    ArtifactConflict,
    /// There is no such artifact, as far as the viewer may know.
    ArtifactNotFound,
    /// The viewer may not.
    Unauthorized,
    /// Anything else.
    Internal,
}

impl ErrorCode {
    /// The spelling.
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

/// Why a request was not done. Every text is one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    pub code: ErrorCode,
    /// A sentence.
    pub message: &'static str,
    /// The version that is current; with [`ErrorCode::ArtifactConflict`] alone.
    pub current_version: Option<String>,
}

/// The answer to a request.
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
