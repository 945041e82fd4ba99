//! `interlock workflow compile`.

use std::fmt::Write as _;

use guide::workflow::compile::{Compiled, PassNote};
use serde_json::json;

use super::{problem_words, validated};
use crate::arguments::WorkflowCompile;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, DIM, HEADING, Layout};

pub(super) fn run(arguments: &WorkflowCompile) -> Result<ExitStatus, Failure> {
    let validation = validated(&arguments.file)?;
    let json = arguments.answering.json;
    let Some(compiled) = validation.compiled else {
        if json {
            output::json(&json!({"valid": false, "problems": validation.problems}), Layout::Compact)?;
        } else {
            output::text(&validation.problems.iter().map(problem_words).collect::<String>())?;
        }
        return Ok(ExitStatus::Negative);
    };
    if arguments.explain && !json {
        output::text(&explained(&compiled))?;
        return Ok(ExitStatus::Success);
    }
    let mut document = json!({"workflowHash": compiled.workflow.hash(), "workflow": compiled.workflow});
    if arguments.explain {
        document["explanation"] = json!(compiled.explanation);
    }
    output::json(&document, if json { Layout::Compact } else { Layout::Indented })?;
    Ok(ExitStatus::Success)
}

/// Every prompt, each line with its compiler pass, followed by notes without a line.
fn explained(compiled: &Compiled) -> String {
    const GUTTER: usize = 13;
    let mut words = String::new();
    for step in &compiled.workflow.steps {
        let id = step.step_id.as_str();
        let of_step = |note: &&PassNote| note.step_id.as_deref() == Some(id);
        let _ = writeln!(words, "{HEADING}{id}{HEADING:#}  {}", output::clean(&step.title));
        let mut above = None;
        for (index, line) in step.prompt.lines().enumerate() {
            let number = index + 1;
            let covers =
                |note: &&PassNote| note.lines.is_some_and(|(first, last)| (first..=last).contains(&number));
            // The narrowest range is the most specific; of two equal ranges, the later pass wins.
            let behind = compiled.explanation.iter().filter(of_step).filter(covers).min_by_key(|note| {
                let (first, last) = note.lines.unwrap_or_default();
                (last - first, std::cmp::Reverse(note.pass))
            });
            // An empty line belongs to the line above.
            let behind = behind.or(above.filter(|_| line.is_empty()));
            above = behind;
            let pass = behind.map_or("authored", |note| note.pass.as_str());
            let origin = behind.and_then(|note| note.origin_id.as_deref()).filter(|_| !line.is_empty());
            let origin = origin.map(|origin| format!("  {DIM}({origin}){DIM:#}")).unwrap_or_default();
            let _ = writeln!(words, "  {DIM}{pass:GUTTER$} |{DIM:#} {}{origin}", output::clean(line));
        }
        for note in compiled.explanation.iter().filter(of_step).filter(|note| note.lines.is_none()) {
            let _ = writeln!(
                words,
                "  {DIM}{:GUTTER$} -{DIM:#} {}",
                note.pass.as_str(),
                output::clean(&note.note)
            );
        }
    }
    let steps = &compiled.workflow.steps;
    let elsewhere = |note: &&PassNote| {
        note.step_id.as_deref().is_none_or(|id| !steps.iter().any(|step| step.step_id.as_str() == id))
    };
    for note in compiled.explanation.iter().filter(elsewhere) {
        let _ = writeln!(words, "{}", output::clean(&note.to_string()));
    }
    let _ = writeln!(words, "\nworkflowHash {}", compiled.workflow.hash());
    words
}
