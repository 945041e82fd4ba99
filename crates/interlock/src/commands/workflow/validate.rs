//! `interlock workflow validate`.
//!
//! The shape decides the kind of a file: `nodes` for run workflows, `steps` for guided workflows.

use canon::digest::Digest;
use flow::definition::{Definition, Problem};
use flow::id::WorkflowId;
use guide::workflow::compile::{Compiled, Validation};
use guide::workflow::compiled::CompiledWarning;
use guide::workflow::staleness::{Staleness, StalenessLevel, staleness};
use serde_json::{Value, json};

use super::{problem_words, servable, validated, warning_words, wire};
use crate::arguments::WorkflowValidate;
use crate::commands::serve::{WorkflowFile, read_workflow};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, GOOD, HEADING, Layout};
use crate::settings::Settings;

enum Checked {
    Guided(Box<Validation>),
    Run(Result<(WorkflowId, Digest, usize), Vec<Problem>>),
}

impl Checked {
    fn is_valid(&self) -> bool {
        match self {
            Self::Guided(validation) => validation.problems.is_empty(),
            Self::Run(checked) => checked.is_ok(),
        }
    }
}

pub(super) fn run(arguments: &WorkflowValidate, settings: &Settings) -> Result<ExitStatus, Failure> {
    let servable = servable(settings);
    let mut checked = Vec::with_capacity(arguments.files.len());
    for path in &arguments.files {
        let found = match read_workflow(path) {
            WorkflowFile::Run(document) => Checked::Run(
                Definition::check(&document, &servable)
                    .map(|definition| (definition.id, definition.digest, definition.nodes.len())),
            ),
            // Files of neither kind get the guided error, which includes a location.
            WorkflowFile::Guided | WorkflowFile::Neither(_) => Checked::Guided(Box::new(validated(path)?)),
        };
        checked.push((path.display().to_string(), found));
    }
    let valid = checked.iter().all(|(_, checked)| checked.is_valid());
    if arguments.answering.json {
        let files: Vec<Value> = checked.iter().map(|(file, checked)| document(file, checked)).collect();
        output::json(&json!({"valid": valid, "files": files}), Layout::Compact)?;
    } else {
        output::text(&checked.iter().map(|(file, checked)| words(file, checked)).collect::<String>())?;
    }
    Ok(ExitStatus::success_if(valid))
}

fn document(file: &str, checked: &Checked) -> Value {
    let validation = match checked {
        Checked::Guided(validation) => validation,
        Checked::Run(Ok((workflow_id, digest, _))) => {
            return json!({
                "file": file, "valid": true, "workflowId": workflow_id, "workflowHash": digest, "problems": [], "warnings": []
            });
        }
        Checked::Run(Err(problems)) => {
            return json!({"file": file, "valid": false, "problems": problems, "warnings": []});
        }
    };
    let compiled = validation.compiled.as_ref();
    let mut document = json!({
        "file": file,
        "valid": validation.problems.is_empty(),
        "workflowId": compiled.map(|compiled| &compiled.workflow.workflow_id),
        "workflowHash": compiled.map(|compiled| compiled.workflow.hash()),
        "problems": validation.problems,
        "warnings": compiled.map(|compiled| warnings(compiled).collect::<Vec<_>>()).unwrap_or_default(),
    });
    if let Some(stale) = stamped(validation) {
        document["staleness"] = json!(stale);
    }
    document
}

/// How the file compares with the current authoring rules, if it says against which it was reviewed.
fn stamped(validation: &Validation) -> Option<Staleness> {
    validation.source.as_ref()?.validated_against_spec_version.map(staleness)
}

/// Warnings: of the compiler, and additional ones.
fn warnings(compiled: &Compiled) -> impl Iterator<Item = &CompiledWarning> {
    compiled.workflow.compiled_warnings.iter().chain(&compiled.advice)
}

fn words(file: &str, checked: &Checked) -> String {
    let validation = match checked {
        Checked::Guided(validation) => validation,
        Checked::Run(Ok((workflow_id, _, nodes))) => {
            return format!("{GOOD}ok{GOOD:#} {file}: {workflow_id}, {nodes} nodes\n");
        }
        Checked::Run(Err(problems)) => {
            let printed = problems.iter().map(|problem| {
                let (path, message) = (output::clean(&problem.path), output::clean(&problem.message));
                format!("{BAD}error{BAD:#} {HEADING}{file}{HEADING:#} at {path}\n  {message}\n")
            });
            return printed.collect();
        }
    };
    let mut words: String = validation.problems.iter().map(problem_words).collect();
    if let Some(stale) = stamped(validation).filter(|stale| stale.level != StalenessLevel::None) {
        let code = format!("stale_{}", wire(&stale.level));
        words.push_str(&warning_words(file, &code, "/validatedAgainstSpecVersion", &stale.reason));
    }
    if let Some(compiled) = &validation.compiled {
        let workflow = &compiled.workflow;
        for warning in warnings(compiled) {
            words.push_str(&warning_words(file, &wire(&warning.code), &warning.path, &warning.message));
        }
        let steps = workflow.steps.len();
        words.push_str(&format!("{GOOD}ok{GOOD:#} {file}: {}, {steps} steps\n", workflow.workflow_id));
    }
    words
}
