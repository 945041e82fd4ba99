//! `interlock workflow`.

mod compile;
mod expand;
mod list;
mod new;
mod show;
mod starter;
mod validate;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flow::definition::{Capabilities, PackTypes};
use guide::workflow::compile::{Bindings, Validation};
use guide::workflow::ids::SourceOrigin;
use guide::workflow::problem::{Problem, ProblemCode};
use guide::workflow::source::{Format, MAX_SOURCE_BYTES};
use host::catalogue::Catalogue;
use packs::install::InstalledPacks;

use crate::arguments::{Globals, WorkflowCommand, WorkflowSources};
use crate::failure::{Answer, Failure};
use crate::output::{self, BAD, DIM, HEADING, WARNING};
use crate::service;
use crate::settings::Settings;

/// Carries out one of the commands about workflows.
pub(crate) fn run(command: &WorkflowCommand, globals: &Globals) -> Result<Answer, Failure> {
    let settings = Settings::load(globals)?;
    match command {
        WorkflowCommand::List(arguments) => list::run(arguments, settings),
        WorkflowCommand::Show(arguments) => show::run(arguments, settings),
        WorkflowCommand::Validate(arguments) => validate::run(arguments, &settings),
        WorkflowCommand::Compile(arguments) => compile::run(arguments),
        WorkflowCommand::New(arguments) => new::run(arguments),
        WorkflowCommand::Expand(arguments) => expand::run(arguments, &settings),
    }
}

/// Whatever a host may serve: which models and servers it has stands in its settings, and a file is looked at apart from those. Of the
/// types that packs bring, those of the packs in the data directory are known; others are told, because a misspelt one looks the same.
fn servable(settings: &Settings) -> Capabilities {
    let folder = settings.data_dir.value.join("packs");
    // A folder that is not there is not made by looking.
    let types =
        folder.is_dir().then(|| InstalledPacks::open(&folder).and_then(|packs| packs.declared_types()));
    let pack_types = match types {
        Some(Ok(types)) => PackTypes::These(Arc::new(types)),
        Some(Err(_)) | None => PackTypes::None,
    };
    Capabilities { mock_agent: false, checked_before: false, pack_types, ..Capabilities::EVERYTHING }
}

/// The catalogue, and the workspace it is asked about.
fn catalogue(sources: &WorkflowSources, settings: Settings) -> (Catalogue, Option<PathBuf>) {
    let settings = settings.with_workflow_dirs(&sources.workflows);
    let workspace = sources.workspace.clone().or_else(|| std::env::current_dir().ok());
    let workspace = workspace.map(|path| std::path::absolute(&path).unwrap_or(path));
    (service::catalogue(&settings), workspace)
}

/// Reads and compiles a file as an author would have it, with every problem.
fn validated(path: &Path) -> Result<Validation, Failure> {
    let file = path.display().to_string();
    let mut validation = match Format::of_name(&file) {
        Some(format) => {
            let bytes = read(path).map_err(|cause| Failure::unreadable(Some(path), cause))?;
            guide::workflow::compile::validate(&bytes, format, SourceOrigin::User, &Bindings::default())
        }
        None => {
            let message = "its name does not say how it is written";
            let problem = Problem::new(
                "",
                ProblemCode::Unreadable,
                message,
                "Let the name end in .json, .yaml or .yml.",
            );
            Validation { problems: vec![problem], source: None, compiled: None }
        }
    };
    validation.problems = validation.problems.into_iter().map(|problem| problem.in_file(&file)).collect();
    Ok(validation)
}

/// Reads one byte more than a workflow may have, so that too much is noticed and not kept.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_SOURCE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A problem for people: where, what, and what to do.
fn problem_words(problem: &Problem) -> String {
    let place =
        if problem.path.is_empty() { String::new() } else { format!(" at {}", output::clean(&problem.path)) };
    let file = problem.file.as_deref().map(|file| output::clean(file).into_owned()).unwrap_or_default();
    format!(
        "{BAD}{}{BAD:#} {HEADING}{file}{HEADING:#}{place}\n  {}\n  {DIM}fix:{DIM:#} {}\n",
        problem.code,
        output::clean(&problem.message),
        output::clean(&problem.fix),
    )
}

/// A warning for people.
fn warning_words(file: &str, code: &str, path: &str, message: &str) -> String {
    let place = if path.is_empty() { String::new() } else { format!(" at {}", output::clean(path)) };
    format!("{WARNING}warning {code}{WARNING:#} {file}{place}\n  {}\n", output::clean(message))
}

/// The name of a closed value, as it is written in files.
fn wire<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
