//! `interlock workspace`.

mod apply;
mod composed;
mod drift;
mod env;
mod plan;
mod release;
mod snapshot;
mod tree;

use std::path::Path;

use workspace::apply::{Lease, LeaseScope};
use workspace::library::Library;
use workspace::rooted::Dir;
use workspace::{Code, Error};

use crate::arguments::WorkspaceCommand;
use crate::failure::{ExitStatus, Failure};

pub(crate) fn run(command: &WorkspaceCommand) -> Result<ExitStatus, Failure> {
    match command {
        WorkspaceCommand::Plan(arguments) => plan::run(arguments),
        WorkspaceCommand::Apply(arguments) => apply::run(arguments),
        WorkspaceCommand::Drift(arguments) => drift::run(arguments),
        WorkspaceCommand::Snapshot(arguments) => snapshot::run(arguments),
        WorkspaceCommand::Restore(arguments) => apply::restore(arguments),
        WorkspaceCommand::Env(arguments) => env::run(arguments),
        WorkspaceCommand::Release(arguments) => release::run(arguments),
    }
}

/// Opens a library. A missing folder is a usage error, not a library error.
fn library(path: &Path) -> Result<Library, Failure> {
    std::fs::read_dir(path).map_err(|cause| Failure::unreadable(Some(path), cause))?;
    Ok(Library::open(path)?)
}

fn root(path: &Path) -> Result<Dir, Failure> {
    Dir::open_root(path).map_err(|cause| Failure::unreadable(Some(path), cause))
}

/// The lease of a root with an applied plan.
fn lease(root: &Dir) -> Result<Lease, Failure> {
    let none = || Error::new(Code::LeaseNotFound, "no plan was applied to this root");
    Ok(Lease::read(root)?.ok_or_else(none)?)
}

/// The owner of a workspace as text.
fn scope_in_words(scope: &LeaseScope) -> String {
    match scope {
        LeaseScope::Run { run_id, job_run_id } => format!("run {run_id}, job {job_run_id}"),
        LeaseScope::Session { session_id, turn_gen } => format!("session {session_id}, turn {turn_gen}"),
        LeaseScope::Plan { apply_id } => format!("plan {apply_id}"),
    }
}

/// The wire name of an enum member.
fn word(member: &impl serde::Serialize) -> String {
    match serde_json::to_value(member) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
