//! The layers of variables, and the platform's variables.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

use super::names;
use crate::manifest::vocabulary::closed;
use crate::manifest::{CompiledEnv, EnvPiece};
use crate::slot::WORKSPACE;
use crate::{Code, Error};

/// The largest value, in bytes. Kernels accept four times as much per string.
pub const MAX_VALUE: usize = 32 << 10;

/// The limit of all names and values together, in bytes.
pub const MAX_TOTAL: usize = 256 << 10;

closed! {
    /// The layer of a variable; later ones take precedence.
    Layer {
        BaseManifest => "base-manifest",
        Manifest => "manifest",
        Invocation => "invocation",
        Platform => "platform",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    pub org_id: String,
    pub project_id: String,
    /// The identity of the composed request.
    pub apply_id: String,
    pub scope: Scope,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A job of a run.
    Run { run_id: String, job_run_id: String },
    /// An interactive session.
    Session { session_id: String },
}

impl Platform {
    /// The scope of a request that composed to `apply_id`. A request that composes is complete.
    pub fn of_request(request: &Value, apply_id: &str) -> Option<Self> {
        let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
        let scope = match (request.get("workflowRun"), request.get("interactive")) {
            (Some(run), _) => Scope::Run { run_id: text(run, "runId")?, job_run_id: text(run, "jobRunId")? },
            (None, session) => Scope::Session { session_id: text(session?, "sessionId")? },
        };
        let (org_id, project_id) = (text(request, "orgId")?, text(request, "projectId")?);
        Some(Self { org_id, project_id, apply_id: apply_id.to_owned(), scope })
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            ("INTERLOCK_WORKSPACE", WORKSPACE.to_owned()),
            ("INTERLOCK_ORG_ID", self.org_id.clone()),
            ("INTERLOCK_PROJECT_ID", self.project_id.clone()),
            ("INTERLOCK_APPLY_ID", self.apply_id.clone()),
            ("TMPDIR", format!("{WORKSPACE}/tmp")),
        ];
        match &self.scope {
            Scope::Run { run_id, job_run_id } => {
                variables.push(("INTERLOCK_RUN_ID", run_id.clone()));
                variables.push(("INTERLOCK_JOB_RUN_ID", job_run_id.clone()));
            }
            Scope::Session { session_id } => variables.push(("INTERLOCK_SESSION_ID", session_id.clone())),
        }
        variables
    }
}

/// A variable before credentials are inserted.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) layer: Layer,
    pub(super) parts: Vec<Part>,
}

#[derive(Clone, Debug)]
pub(super) enum Part {
    Text(String),
    Credential(String),
}

impl Declared {
    /// Its distinct credentials.
    pub(super) fn credentials(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for part in &self.parts {
            if let Part::Credential(name) = part
                && !names.contains(&name.as_str())
            {
                names.push(name);
            }
        }
        names
    }
}

/// All layers merged, sorted by name. Every invalid name is reported.
pub(super) fn layered(
    manifest: &[CompiledEnv],
    overlay: &[(String, String)],
    platform: &Platform,
) -> Result<Vec<Declared>, Error> {
    let mut variables: BTreeMap<String, Declared> = BTreeMap::new();
    let mut errors = Vec::new();
    // A base variable that the manifest overrides is not in the list: it was merged.
    for item in manifest {
        let layer = if item.from_base { Layer::BaseManifest } else { Layer::Manifest };
        let parts = item.pieces.iter().map(|piece| match piece {
            EnvPiece::Text(text) => Part::Text(text.clone()),
            EnvPiece::Credential(name) => Part::Credential(name.clone()),
        });
        let variable = Declared { name: item.name.clone(), layer, parts: parts.collect() };
        set(&mut variables, &mut errors, variable);
    }
    for (name, value) in overlay {
        let parts = vec![Part::Text(value.clone())];
        set(&mut variables, &mut errors, Declared { name: name.clone(), layer: Layer::Invocation, parts });
    }
    if let Some(error) = Error::first_of(errors) {
        return Err(error);
    }
    for (name, value) in platform.variables() {
        let parts = vec![Part::Text(value)];
        let variable = Declared { name: name.to_owned(), layer: Layer::Platform, parts };
        variables.insert(name.to_owned(), variable);
    }
    Ok(variables.into_values().collect())
}

/// Sets a variable of a layer below the platform.
fn set(variables: &mut BTreeMap<String, Declared>, errors: &mut Vec<Error>, variable: Declared) {
    let Declared { name, layer, parts } = &variable;
    let shown = canon::budget::truncate(name, names::MAX_NAME).escape_debug().to_string();
    if !names::is_variable(name) {
        let message = format!(
            "{shown} ({layer}) is not a valid variable name: use UPPER_SNAKE_CASE, starting with a letter"
        );
        errors.push(Error::new(Code::ValidationError, message).detail("name", shown));
    } else if names::is_reserved(name) {
        let message = format!("{shown} ({layer}) is reserved for the platform");
        errors.push(Error::new(Code::EnvReservedName, message).detail("name", shown));
    } else if parts.iter().any(|part| matches!(part, Part::Text(text) if text.contains('\0'))) {
        let message = format!(
            "the value of {shown} ({layer}) contains NUL, which environment variables cannot contain"
        );
        errors.push(Error::new(Code::ValidationError, message).detail("name", shown));
    } else {
        variables.insert(name.clone(), variable);
    }
}

/// The size that a variable adds to an environment of `total` bytes.
pub(super) fn check_size(name: &str, value: usize, total: usize) -> Result<usize, Error> {
    let refuse = |what: &str, max: usize, seen: usize| {
        let message = format!("{what} is {seen} bytes; the limit is {max} bytes");
        let error = Error::new(Code::EnvValueTooLarge, message);
        error.detail("name", name).detail("max", max).detail("seen", seen)
    };
    if value > MAX_VALUE {
        return Err(refuse(&format!("the value of {name}"), MAX_VALUE, value));
    }
    let added = name.len() + value;
    if total + added > MAX_TOTAL {
        return Err(refuse(&format!("the environment up to {name}"), MAX_TOTAL, total + added));
    }
    Ok(added)
}

/// The first 16 hexadecimal digits of the HMAC-SHA256: values cannot be guessed without the
/// organisation's key.
pub(super) fn digest(key: &[u8], value: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(value.as_bytes());
    canon::encoding::hex(&mac.finalize().into_bytes()[..8])
}
