//! The methods, behind the list of those that are allowed.

use std::collections::BTreeSet;

use packs::manifest::HostMethod;
use serde_json::{Map, Value, json};

use super::message::{ErrorCode, Request, RpcError, response};

/// What this host lets plugins ask for.
pub const HOST_API: [HostMethod; 4] =
    [HostMethod::ArtifactRead, HostMethod::ArtifactWrite, HostMethod::HostToast, HostMethod::HostNavigate];
/// The longest text of a toast, in characters. More is cut.
const MAX_TOAST: usize = 300;
/// The longest path that a plugin may lead to.
const MAX_PATH: usize = 2048;

/// How a method is spelt.
pub const fn spelt(method: HostMethod) -> &'static str {
    match method {
        HostMethod::ArtifactRead => "artifact.read",
        HostMethod::ArtifactWrite => "artifact.write",
        HostMethod::HostToast => "host.toast",
        HostMethod::HostNavigate => "host.navigate",
    }
}

/// The methods that a plugin may use: those that it declared and the host gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed(BTreeSet<HostMethod>);

impl Allowed {
    /// What a plugin declared, as far as this host gives it.
    pub fn of(declared: &[HostMethod]) -> Self {
        Self(HOST_API.into_iter().filter(|method| declared.contains(method)).collect())
    }

    /// Everything that this host gives.
    pub fn everything() -> Self {
        Self::of(&HOST_API)
    }

    /// The method of that name, where it is allowed. A name that no method has is on no list.
    fn method(&self, name: &str) -> Option<HostMethod> {
        self.0.iter().copied().find(|method| spelt(*method) == name)
    }
}

/// What an artifact holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The content.
    pub payload: Value,
    /// What stands for exactly this content.
    pub version: String,
}

/// Why an artifact was not read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtifactError {
    /// There is none, or it is somebody else's: which of them is not told.
    NotFound,
    /// The viewer may not.
    Unauthorized,
    /// It holds something else than was seen. Nothing was changed.
    Conflict {
        /// The version that is current.
        current: String,
    },
    /// Something failed.
    Failed,
}

/// Where artifacts are read and written, with the rights of whoever looks.
pub trait Artifacts: Sync {
    /// What an artifact holds.
    fn read(&self, artifact_id: &str) -> impl Future<Output = Result<Held, ArtifactError>> + Send;

    /// Writes what an artifact holds, if it holds what that version stands for, and gives the new version.
    fn write(
        &self,
        artifact_id: &str,
        version: Option<&str>,
        payload: &Value,
    ) -> impl Future<Output = Result<String, ArtifactError>> + Send;
}

/// What the page is to do, besides handing the answer on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Show a sentence.
    Toast {
        /// The sentence: text, and nothing else.
        message: String,
    },
    /// Go to a page of this console.
    Navigate { path: String },
}

/// What comes of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The message that goes back to the plugin.
    pub response: Value,
    /// What the page does.
    pub effect: Option<Effect>,
}

impl Answer {
    /// The answer to a request that could not be carried out for a reason that is none of the plugin's.
    pub fn internal(id: u64, message: &'static str) -> Self {
        Self { response: response(id, &Err(error(ErrorCode::Internal, message))), effect: None }
    }
}

/// Does what a request asks for, if it may.
pub async fn dispatch(request: &Request, allowed: &Allowed, artifacts: &impl Artifacts) -> Answer {
    let params = &request.params;
    let mut effect = None;
    let outcome = match allowed.method(&request.method) {
        None => Err(error(ErrorCode::MethodNotAllowed, "this plugin may not use that method here")),
        Some(HostMethod::ArtifactRead) => read(params, artifacts).await,
        Some(HostMethod::ArtifactWrite) => write(params, artifacts).await,
        Some(HostMethod::HostToast) => toast(params).map(|found| effect = Some(found)).map(|()| json!({})),
        Some(HostMethod::HostNavigate) => {
            navigate(params).map(|found| effect = Some(found)).map(|()| json!({}))
        }
    };
    Answer { response: response(request.id, &outcome), effect }
}

async fn read(params: &Map<String, Value>, artifacts: &impl Artifacts) -> Result<Value, RpcError> {
    let held = artifacts.read(artifact_id(params)?).await.map_err(told)?;
    Ok(json!({"payload": held.payload, "version": held.version}))
}

async fn write(params: &Map<String, Value>, artifacts: &impl Artifacts) -> Result<Value, RpcError> {
    let artifact_id = artifact_id(params)?;
    let Some(payload) = params.get("payload") else {
        return Err(error(ErrorCode::Internal, "`payload` is what the artifact is to hold"));
    };
    let version = params.get("version").and_then(Value::as_str);
    let version = artifacts.write(artifact_id, version, payload).await.map_err(told)?;
    Ok(json!({"version": version}))
}

fn toast(params: &Map<String, Value>) -> Result<Effect, RpcError> {
    let text = params.get("message").and_then(Value::as_str).map(str::trim).unwrap_or_default();
    if text.is_empty() {
        return Err(error(ErrorCode::Internal, "`message` is the text to show"));
    }
    Ok(Effect::Toast { message: text.chars().filter(|found| !found.is_control()).take(MAX_TOAST).collect() })
}

fn navigate(params: &Map<String, Value>) -> Result<Effect, RpcError> {
    let path = params.get("path").and_then(Value::as_str).unwrap_or_default();
    if is_local(path) {
        Ok(Effect::Navigate { path: path.to_owned() })
    } else {
        Err(error(ErrorCode::Internal, "`path` is a path of this console, such as `/runs`"))
    }
}

/// Whether a path can only lead to a page of this console. Neither do those count that end somebody's visit.
fn is_local(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && !path.starts_with("/sign-")
        && path.len() <= MAX_PATH
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

fn artifact_id(params: &Map<String, Value>) -> Result<&str, RpcError> {
    params.get("artifactId").and_then(Value::as_str).ok_or_else(|| told(ArtifactError::NotFound))
}

fn error(code: ErrorCode, message: &'static str) -> RpcError {
    RpcError { code, message, current_version: None }
}

fn told(cause: ArtifactError) -> RpcError {
    match cause {
        ArtifactError::NotFound => error(ErrorCode::ArtifactNotFound, "there is no such artifact"),
        ArtifactError::Unauthorized => {
            error(ErrorCode::Unauthorized, "whoever looks at this page may not do that to artifacts")
        }
        ArtifactError::Conflict { current } => RpcError {
            current_version: Some(current),
            ..error(
                ErrorCode::ArtifactConflict,
                "the artifact holds something else by now; nothing was written: read it again",
            )
        },
        ArtifactError::Failed => {
            error(ErrorCode::Internal, "the host failed; nothing was written, try again")
        }
    }
}
