//! The methods that plugins call, and the list of allowed ones.

use std::collections::BTreeSet;

use packs::manifest::HostMethod;
use runs::artifacts::{ArtifactError, Held};
use serde_json::{Map, Value, json};

use super::message::{ErrorCode, Request, RpcError, response};

/// The methods that this host offers to plugins.
pub const HOST_API: [HostMethod; 4] =
    [HostMethod::ArtifactRead, HostMethod::ArtifactWrite, HostMethod::HostToast, HostMethod::HostNavigate];
/// The maximum length of a toast, in characters. Longer texts are truncated.
const MAX_TOAST: usize = 300;
/// The maximum length of a path that a plugin navigates to.
const MAX_PATH: usize = 2048;

/// The spelling of a method on the wire.
pub const fn spelt(method: HostMethod) -> &'static str {
    match method {
        HostMethod::ArtifactRead => "artifact.read",
        HostMethod::ArtifactWrite => "artifact.write",
        HostMethod::HostToast => "host.toast",
        HostMethod::HostNavigate => "host.navigate",
    }
}

/// The methods that a plugin may call: those that it declares and the host offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed(BTreeSet<HostMethod>);

impl Allowed {
    /// The declared methods that this host offers.
    pub fn of(declared: &[HostMethod]) -> Self {
        Self(HOST_API.into_iter().filter(|method| declared.contains(method)).collect())
    }

    /// All methods that this host offers.
    pub fn everything() -> Self {
        Self::of(&HOST_API)
    }

    /// The method with that name, if it is allowed.
    fn method(&self, name: &str) -> Option<HostMethod> {
        self.0.iter().copied().find(|method| spelt(*method) == name)
    }
}

/// Reads and writes artifacts with the permissions of the viewer.
pub trait Artifacts: Sync {
    /// Reads the content of an artifact.
    fn read(&self, artifact_id: &str) -> impl Future<Output = Result<Held, ArtifactError>> + Send;

    /// Replaces the content of an artifact, if its version is `version`, and returns the new version.
    fn write(
        &self,
        artifact_id: &str,
        version: Option<&str>,
        payload: &Value,
    ) -> impl Future<Output = Result<String, ArtifactError>> + Send;
}

/// What the page must do, in addition to returning the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Show a message.
    Toast {
        /// Plain text.
        message: String,
    },
    /// Navigate to a page of this console.
    Navigate { path: String },
}

#[derive(Clone, Debug, PartialEq)]
pub struct PluginResponse {
    /// The message to the plugin.
    pub response: Value,
    /// What the page must do.
    pub effect: Option<Effect>,
}

impl PluginResponse {
    /// The response to a request that failed for a reason on the side of the host.
    pub fn internal(id: u64, message: &'static str) -> Self {
        Self { response: response(id, &Err(error(ErrorCode::Internal, message))), effect: None }
    }
}

/// Executes a request, if its method is allowed.
pub async fn dispatch(request: &Request, allowed: &Allowed, artifacts: &impl Artifacts) -> PluginResponse {
    let params = &request.params;
    let mut effect = None;
    let outcome = match allowed.method(&request.method) {
        None => Err(error(ErrorCode::MethodNotAllowed, "this plugin is not allowed to call this method")),
        Some(HostMethod::ArtifactRead) => read(params, artifacts).await,
        Some(HostMethod::ArtifactWrite) => write(params, artifacts).await,
        Some(HostMethod::HostToast) => toast(params).map(|found| effect = Some(found)).map(|()| json!({})),
        Some(HostMethod::HostNavigate) => {
            navigate(params).map(|found| effect = Some(found)).map(|()| json!({}))
        }
    };
    PluginResponse { response: response(request.id, &outcome), effect }
}

async fn read(params: &Map<String, Value>, artifacts: &impl Artifacts) -> Result<Value, RpcError> {
    let held = artifacts.read(artifact_id(params)?).await.map_err(rpc_error)?;
    Ok(json!({"payload": held.payload, "version": held.version}))
}

async fn write(params: &Map<String, Value>, artifacts: &impl Artifacts) -> Result<Value, RpcError> {
    let artifact_id = artifact_id(params)?;
    let Some(payload) = params.get("payload") else {
        return Err(error(ErrorCode::Internal, "`payload` is required: the new content of the artifact"));
    };
    let version = params.get("version").and_then(Value::as_str);
    let version = artifacts.write(artifact_id, version, payload).await.map_err(rpc_error)?;
    Ok(json!({"version": version}))
}

fn toast(params: &Map<String, Value>) -> Result<Effect, RpcError> {
    let text = params.get("message").and_then(Value::as_str).map(str::trim).unwrap_or_default();
    if text.is_empty() {
        return Err(error(ErrorCode::Internal, "`message` is required: the text to show"));
    }
    Ok(Effect::Toast { message: text.chars().filter(|c| !c.is_control()).take(MAX_TOAST).collect() })
}

fn navigate(params: &Map<String, Value>) -> Result<Effect, RpcError> {
    let path = params.get("path").and_then(Value::as_str).unwrap_or_default();
    if is_local(path) {
        Ok(Effect::Navigate { path: path.to_owned() })
    } else {
        Err(error(ErrorCode::Internal, "`path` must be a path of this console, for example `/runs`"))
    }
}

/// Whether a path can only lead to a page of this console. The pages for signing in and out are excluded.
fn is_local(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && !path.strip_prefix("/console").unwrap_or(path).starts_with("/sign-")
        && path.len() <= MAX_PATH
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

fn artifact_id(params: &Map<String, Value>) -> Result<&str, RpcError> {
    params.get("artifactId").and_then(Value::as_str).ok_or_else(|| rpc_error(ArtifactError::NotFound))
}

fn error(code: ErrorCode, message: &'static str) -> RpcError {
    RpcError { code, message, current_version: None }
}

fn rpc_error(cause: ArtifactError) -> RpcError {
    match cause {
        ArtifactError::NotFound => error(ErrorCode::ArtifactNotFound, "the artifact does not exist"),
        ArtifactError::Unauthorized => {
            error(ErrorCode::Unauthorized, "the viewer of this page is not allowed to do this")
        }
        ArtifactError::Conflict { current } => RpcError {
            current_version: Some(current),
            ..error(
                ErrorCode::ArtifactConflict,
                "the artifact has changed; nothing was written. Read it again",
            )
        },
        ArtifactError::Failed => error(ErrorCode::Internal, "the host failed; nothing was written. Retry"),
    }
}
