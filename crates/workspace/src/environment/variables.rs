//! The layers of variables, and what the platform sets.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

use super::names;
use crate::manifest::vocabulary::closed;
use crate::manifest::{CompiledEnv, EnvPiece};
use crate::slot::WORKSPACE;
use crate::{Code, Error};

/// The largest value, in bytes. Kernels take four times that for one string of an environment.
pub const MAX_VALUE: usize = 32 << 10;

/// How large all names and values may be together, in bytes.
pub const MAX_TOTAL: usize = 256 << 10;

closed! {
    /// Who set a variable; a later one wins.
    Layer {
        BaseManifest => "base-manifest",
        Manifest => "manifest",
        Invocation => "invocation",
        Platform => "platform",
    }
}

/// What the platform tells every agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Whose workspace it is.
    pub org_id: String,
    /// In which project.
    pub project_id: String,
    /// The identity of the composed request.
    pub apply_id: String,
    /// What it is for.
    pub scope: Scope,
}

/// A run or a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A job of a run.
    Run {
        /// Which run.
        run_id: String,
        /// Which job of it.
        job_run_id: String,
    },
    /// A session with a person.
    Session {
        /// Which session.
        session_id: String,
    },
}

impl Platform {
    /// What a request that was composed to `apply_id` says of it. A request that composes has all of it.
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

/// A variable whose credentials are not yet filled in.
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
    /// The credentials in it, each once.
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

/// All layers together, sorted by name. Every wrong name is reported.
pub(super) fn layered(
    manifest: &[CompiledEnv],
    overlay: &[(String, String)],
    platform: &Platform,
) -> Result<Vec<Declared>, Error> {
    let mut variables: BTreeMap<String, Declared> = BTreeMap::new();
    let mut errors = Vec::new();
    // A base's variable that the manifest sets again is no longer in the list: it was merged.
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
        let message = format!("{shown} ({layer}) is no name of a variable: UPPER_SNAKE_CASE, a letter first");
        errors.push(Error::new(Code::ValidationError, message).detail("name", shown));
    } else if names::is_reserved(name) {
        let message = format!("{shown} ({layer}) is set by the platform only");
        errors.push(Error::new(Code::EnvReservedName, message).detail("name", shown));
    } else if parts.iter().any(|part| matches!(part, Part::Text(text) if text.contains('\0'))) {
        let message = format!("the value of {shown} ({layer}) has NUL in it, which no environment can hold");
        errors.push(Error::new(Code::ValidationError, message).detail("name", shown));
    } else {
        variables.insert(name.clone(), variable);
    }
}

/// What a variable adds to the size of an environment that has `total` bytes.
pub(super) fn check_size(name: &str, value: usize, total: usize) -> Result<usize, Error> {
    let refuse = |what: &str, max: usize, seen: usize| {
        let message = format!("{what}: at most {max} bytes, and there are {seen}");
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

/// The first 16 hexadecimal digits of the HMAC-SHA256: without the organisation's key nobody can try out values.
pub(super) fn digest(key: &[u8], value: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(value.as_bytes());
    canon::encoding::hex(&mac.finalize().into_bytes()[..8])
}
