//! `interlock workspace env`.

use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use canon::error::Envelope;
use serde_json::{Value, json};
use workspace::environment::local::LocalSecrets;
use workspace::environment::{Missing, Platform, ResolvedVariables, Scope, SecretSource, resolve};

use super::composed::{FromManifest, from_manifest};
use super::library;
use crate::arguments::WorkspaceEnv;
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, Cell, DIM, Layout, Table, WARNING, clean};

pub(super) fn run(arguments: &WorkspaceEnv) -> Result<ExitStatus, Failure> {
    let library_path = arguments.library.as_deref();
    let opened = library_path.map(library).transpose()?;
    let made = from_manifest(&arguments.input, opened.as_ref().zip(library_path))?;
    let platform = platform(&made);
    let secrets: Arc<dyn SecretSource> = Arc::new(LocalSecrets);
    // On a single machine, organisations have no separate keys. The name makes their digests
    // differ; there is nothing to hide, because the values are printed next to their digests.
    let digest_key = platform.org_id.as_bytes();
    let outcome = resolve(&made.bound, &arguments.overlay, &platform, digest_key, &secrets)?;
    if arguments.exec {
        return Err(execute(arguments, &outcome));
    }
    if arguments.answering.json {
        let missing: Vec<Value> = outcome.missing.iter().map(Missing::details).collect();
        let document = json!({"env": outcome.env, "missing": missing, "warnings": outcome.warnings});
        output::json(&document, Layout::Compact)?;
    } else {
        output::text(&words(&outcome))?;
    }
    Ok(ExitStatus::Success)
}

/// The platform's variables, from the composed request.
fn platform(made: &FromManifest) -> Platform {
    let text =
        |pointer: &str| made.request.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let scope = if made.request.get("workflowRun").is_some() {
        Scope::Run { run_id: text("/workflowRun/runId"), job_run_id: text("/workflowRun/jobRunId") }
    } else {
        Scope::Session { session_id: text("/interactive/sessionId") }
    };
    Platform {
        org_id: text("/orgId"),
        project_id: text("/projectId"),
        apply_id: made.composed.plan.apply_id.clone(),
        scope,
    }
}

/// Replaces this process with the program. Returns only on failure.
fn execute(arguments: &WorkspaceEnv, outcome: &ResolvedVariables) -> Failure {
    let Some((program, rest)) = arguments.program.split_first() else {
        return Failure::unreadable(None, std::io::ErrorKind::NotFound.into());
    };
    let mut command = Command::new(program);
    command.args(rest);
    // Passed in memory: neither a file nor the process list contains them.
    command.envs(outcome.values().iter().map(|(name, value)| (name, value.expose())));
    if let Some(root) = &arguments.root {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.clone());
        command.env("TMPDIR", root.join("tmp")).env("INTERLOCK_WORKSPACE", &root).current_dir(root);
    }
    let cause = command.exec();
    let message = format!("cannot start {}: {cause}", Path::new(program).display());
    Envelope::new(CommandErrorCode::InputUnreadable, message)
        .suggest("Check the program name after `--`, and that it is executable.")
        .into()
}

fn words(outcome: &ResolvedVariables) -> String {
    let mut table = Table::new(&["name", "value", "layer", "digest"]);
    for variable in &outcome.env {
        let value = match (&variable.value, &variable.secret_ref) {
            (Some(value), _) => Cell::from(output::shortened(value, 60)),
            (None, names) => {
                let names = names.as_deref().unwrap_or_default().join(", ");
                Cell::styled(format!("[redacted:{names}]"), DIM)
            }
        };
        table.row([
            Cell::from(variable.name.as_str()),
            value,
            variable.layer.as_str().into(),
            variable.digest.as_deref().unwrap_or_default().into(),
        ]);
    }
    let mut out = table.to_string();
    for missing in &outcome.missing {
        let _ = writeln!(
            out,
            "\n{WARNING}missing{WARNING:#}: the credential {} ({}) at {}: {}",
            clean(&missing.name),
            missing.kind,
            clean(&missing.source_ref),
            missing.reason
        );
    }
    for warning in &outcome.warnings {
        let _ = writeln!(out, "{WARNING}warning{WARNING:#}: {}", clean(warning));
    }
    out
}
