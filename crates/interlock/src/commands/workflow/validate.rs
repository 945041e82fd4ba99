//! `interlock workflow validate`.

use guide::workflow::compile::Validation;
use serde_json::{Value, json};

use super::{problem_words, validated, warning_words, wire};
use crate::arguments::WorkflowValidate;
use crate::failure::{Answer, Failure};
use crate::output::{self, GOOD, Layout};

pub(super) fn run(arguments: &WorkflowValidate) -> Result<Answer, Failure> {
    let mut checked = Vec::with_capacity(arguments.files.len());
    for path in &arguments.files {
        checked.push((path.display().to_string(), validated(path)?));
    }
    let valid = checked.iter().all(|(_, validation)| validation.problems.is_empty());
    if arguments.answering.json {
        let files: Vec<Value> = checked.iter().map(|(file, validation)| document(file, validation)).collect();
        output::json(&json!({"valid": valid, "files": files}), Layout::Compact)?;
    } else {
        output::text(&checked.iter().map(|(file, validation)| words(file, validation)).collect::<String>())?;
    }
    Ok(Answer::yes_if(valid))
}

fn document(file: &str, validation: &Validation) -> Value {
    let compiled = validation.compiled.as_ref();
    json!({
        "file": file,
        "valid": validation.problems.is_empty(),
        "workflowId": compiled.map(|compiled| &compiled.workflow.workflow_id),
        "workflowHash": compiled.map(|compiled| compiled.workflow.hash()),
        "problems": validation.problems,
        "warnings": compiled.map(|compiled| &compiled.workflow.compiled_warnings[..]).unwrap_or_default(),
    })
}

fn words(file: &str, validation: &Validation) -> String {
    let mut words: String = validation.problems.iter().map(problem_words).collect();
    if let Some(compiled) = &validation.compiled {
        let workflow = &compiled.workflow;
        for warning in &workflow.compiled_warnings {
            words.push_str(&warning_words(file, &wire(&warning.code), &warning.path, &warning.message));
        }
        let steps = workflow.steps.len();
        words.push_str(&format!("{GOOD}ok{GOOD:#} {file}: {}, {steps} steps\n", workflow.workflow_id));
    }
    words
}
