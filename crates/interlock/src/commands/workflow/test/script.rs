//! A script: what an agent sends in a run, and what must come of it.

use std::path::{Path, PathBuf};

use canon::error::Envelope;
use canon::{json, yaml};
use guide::record::{Autonomy, RiskPolicy};
use guide::workflow::source::Format;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::failure::{CommandErrorCode, Failure};
use crate::input;

/// The most bytes of a script.
const SCRIPT_BYTES: usize = 4 << 20;
/// The most calls of a script: more than any run of a workflow within its limits that a person would write down.
const MAX_CALLS: usize = 10_000;
const YAML: yaml::Limits = yaml::Limits {
    max_bytes: SCRIPT_BYTES,
    max_depth: 64,
    max_nodes: 200_000,
    max_aliases: 1000,
    tags: yaml::Tags::Refused,
    booleans: yaml::Booleans::TrueFalse,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Script {
    #[serde(default = "default_goal")]
    pub(super) goal: String,
    /// The context of the start.
    #[serde(default)]
    pub(super) context: Map<String, Value>,
    #[serde(default)]
    pub(super) preferences: Preferences,
    /// In order; a step in a loop, or a blocked attempt and its retry, is there once per call.
    pub(super) calls: Vec<ScriptedAttempt>,
    #[serde(default)]
    pub(super) expect: End,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Preferences {
    pub(super) autonomy: Option<Autonomy>,
    pub(super) risk_policy: Option<RiskPolicy>,
}

/// One attempt at a step.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScriptedAttempt {
    /// The step that must be pending.
    pub(super) step: String,
    pub(super) notes: Option<String>,
    #[serde(default)]
    pub(super) artifacts: Vec<Value>,
    pub(super) context: Option<Map<String, Value>>,
    /// The codes of the blockers, if the attempt must be blocked; any order. Without it, it must be accepted.
    #[serde(default)]
    pub(super) blocked: Vec<String>,
    /// The steps and loops that this call must skip, in order. Not checked without it.
    pub(super) skips: Option<Vec<String>>,
}

/// What must be after the last call.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct End {
    /// The step that must be pending; the run must be complete without it.
    pub(super) pending: Option<String>,
    /// How many gaps must be open. Not checked without it.
    pub(super) gaps: Option<usize>,
}

fn default_goal() -> String {
    "play the script".to_owned()
}

/// The script of a workflow file: the one beside it, `release.test.yaml` for `release.yaml`.
pub(super) fn beside(workflow: &Path) -> Result<PathBuf, Failure> {
    let stem = workflow.file_stem().unwrap_or_default().to_string_lossy();
    let names = ["yaml", "yml", "json"].map(|ending| format!("{stem}.test.{ending}"));
    let found = names.iter().map(|name| workflow.with_file_name(name)).find(|path| path.exists());
    found.ok_or_else(|| {
        Envelope::new(
            CommandErrorCode::InputUnreadable,
            format!("There is no script beside {}: {} does not exist.", workflow.display(), names[0]),
        )
        .suggest("Write one, or name it with --script. `interlock help workflow test` has an example.")
        .into()
    })
}

pub(super) fn read(path: &Path) -> Result<Script, Failure> {
    let bytes = input::read(Some(path), "a script", SCRIPT_BYTES)?;
    let invalid = |reason: String| {
        Failure::from(
            Envelope::new(
                CommandErrorCode::InputUnreadable,
                format!("{} is not a script: {reason}", path.display()),
            )
            .suggest("Correct the file. `interlock help workflow test` has an example."),
        )
    };
    if bytes.len() > SCRIPT_BYTES {
        return Err(invalid(format!("it has more than {SCRIPT_BYTES} bytes, the limit")));
    }
    let value: Value = match Format::of_name(&path.display().to_string()) {
        Some(Format::Json) => {
            let limits = json::Limits::DEFAULT.max_bytes(SCRIPT_BYTES);
            json::read(&bytes, &limits).map_err(|error| invalid(error.to_string()))?
        }
        Some(Format::Yaml) => {
            let text = std::str::from_utf8(&bytes).map_err(|error| invalid(error.to_string()))?;
            yaml::read(text, &YAML).map_err(|error| invalid(error.to_string()))?
        }
        None => return Err(invalid("its name does not end in .json, .yaml or .yml".to_owned())),
    };
    let script: Script = serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
    if script.calls.len() > MAX_CALLS {
        return Err(invalid(format!("it has {} calls; the limit is {MAX_CALLS}", script.calls.len())));
    }
    Ok(script)
}
