//! `interlock workflow`.

mod compile;
mod expand;
mod list;
mod new;
mod preview;
mod register;
mod show;
mod starter;
mod test;
mod validate;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalogue::Catalogue;
use flow::definition::{Capabilities, PackTypes};
use guide::workflow::compile::{Bindings, Validation};
use guide::workflow::ids::SourceOrigin;
use guide::workflow::problem::{Problem, ProblemCode};
use guide::workflow::source::{Format, MAX_SOURCE_BYTES};
use packs::install::InstalledPacks;

use crate::arguments::{Globals, WorkflowCommand, WorkflowSources};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, DIM, HEADING, WARNING};
use crate::service;
use crate::settings::Settings;

pub(crate) fn run(command: &WorkflowCommand, globals: &Globals) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(globals)?;
    match command {
        WorkflowCommand::List(arguments) => list::run(arguments, globals, settings),
        WorkflowCommand::Show(arguments) => show::run(arguments, globals, settings),
        WorkflowCommand::Register(arguments) => register::run(arguments, globals, &settings),
        WorkflowCommand::Validate(arguments) => validate::run(arguments, &settings),
        WorkflowCommand::Compile(arguments) => compile::run(arguments),
        WorkflowCommand::New(arguments) => new::run(arguments),
        WorkflowCommand::Expand(arguments) => expand::run(arguments, &settings),
        WorkflowCommand::Test(arguments) => test::run(arguments),
        WorkflowCommand::Preview(arguments) => preview::run(arguments),
    }
}

/// All capabilities that any host can offer: models and servers depend on a host's settings, and a
/// file is validated without them. Node types of packs in the data directory are known; others are
/// reported, because they may be misspelt.
fn servable(settings: &Settings) -> Capabilities {
    let folder = settings.data_dir.value.join("packs");
    // Checking must not create a missing folder.
    let types =
        folder.is_dir().then(|| InstalledPacks::open(&folder).and_then(|packs| packs.declared_types()));
    let pack_types = match types {
        Some(Ok(types)) => PackTypes::These(Arc::new(types)),
        Some(Err(_)) | None => PackTypes::None,
    };
    Capabilities { mock_agent: false, checked_before: false, pack_types, ..Capabilities::EVERYTHING }
}

/// The catalogue and its workspace.
fn catalogue(sources: &WorkflowSources, settings: Settings) -> (Catalogue, Option<PathBuf>) {
    let settings = settings.with_workflow_dirs(&sources.workflows);
    let workspace = sources.workspace.clone().or_else(|| std::env::current_dir().ok());
    let workspace = workspace.map(|path| std::path::absolute(&path).unwrap_or(path));
    (service::catalogue(&settings), workspace)
}

/// Reads and compiles a file, with all problems.
fn validated(path: &Path) -> Result<Validation, Failure> {
    let file = path.display().to_string();
    let mut validation = match Format::of_name(&file) {
        Some(format) => {
            let bytes = read(path).map_err(|cause| Failure::unreadable(Some(path), cause))?;
            guide::workflow::compile::validate(&bytes, format, SourceOrigin::User, &Bindings::default())
        }
        None => {
            let message = "unknown file type";
            let problem = Problem::new(
                "",
                ProblemCode::Unreadable,
                message,
                "Use a file name that ends in .json, .yaml or .yml.",
            );
            Validation { problems: vec![problem], source: None, compiled: None }
        }
    };
    validation.problems = validation.problems.into_iter().map(|problem| problem.in_file(&file)).collect();
    Ok(validation)
}

/// Reads one byte more than the limit, so that larger files are detected without reading them.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_SOURCE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A problem as text: location, message and fix.
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

fn warning_words(file: &str, code: &str, path: &str, message: &str) -> String {
    let place = if path.is_empty() { String::new() } else { format!(" at {}", output::clean(path)) };
    format!("{WARNING}warning {code}{WARNING:#} {file}{place}\n  {}\n", output::clean(message))
}

/// The wire name of an enum member.
fn wire<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
