//! `interlock workflow test`.

mod play;
mod script;

use std::fmt::Write as _;

use serde_json::json;

use self::play::Played;
use super::{problem_words, validated};
use crate::arguments::WorkflowTest;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, DIM, GOOD, HEADING, Layout};

pub(super) fn run(arguments: &WorkflowTest) -> Result<ExitStatus, Failure> {
    let file = &arguments.file;
    let validation = validated(file)?;
    let Some(compiled) = validation.compiled else {
        if arguments.answering.json {
            output::json(&json!({"passed": false, "problems": validation.problems}), Layout::Compact)?;
        } else {
            output::text(&validation.problems.iter().map(problem_words).collect::<String>())?;
        }
        return Ok(ExitStatus::Negative);
    };
    let paths =
        if arguments.script.is_empty() { vec![script::beside(file)?] } else { arguments.script.clone() };
    // A folder of its own: what is beside the file must not take its place.
    let unusable = |cause| Failure::Unwritable { name: "a temporary folder".to_owned(), cause };
    let folder = tempfile::tempdir().map_err(unusable)?;
    let copy = folder.path().join(file.file_name().unwrap_or_default());
    std::fs::copy(file, copy).map_err(unusable)?;
    let mut played = Vec::with_capacity(paths.len());
    for path in paths {
        let script = script::read(&path)?;
        let name = path.display().to_string();
        played.push(play::play(folder.path(), &compiled.workflow.workflow_id, name, script)?);
    }
    let passed = played.iter().all(|played| played.passed);
    if arguments.answering.json {
        let document = json!({
            "passed": passed, "workflowId": compiled.workflow.workflow_id,
            "workflowHash": compiled.workflow.hash(), "scripts": played,
        });
        output::json(&document, Layout::Compact)?;
    } else {
        output::text(&played.iter().map(words).collect::<String>())?;
    }
    Ok(ExitStatus::success_if(passed))
}

/// The calls that went as expected, and the first that did not: expected, actual, and why.
fn words(played: &Played) -> String {
    let mut words = String::new();
    let (style, verdict) = if played.passed { (GOOD, "passed") } else { (BAD, "failed") };
    let _ = writeln!(
        words,
        "{style}{verdict}{style:#} {HEADING}{}{HEADING:#}  {DIM}{} calls as expected{DIM:#}",
        output::clean(&played.script),
        played.calls.len()
    );
    let Some(difference) = &played.difference else { return words };
    for (position, call) in played.calls.iter().enumerate() {
        let skipped = match call.skipped.as_slice() {
            [] => String::new(),
            ids => format!("; skips {}", ids.join(", ")),
        };
        let line = format!("{:4}  {} {}{skipped}", position + 1, call.step, call.outcome);
        let _ = writeln!(words, "{DIM}{}{DIM:#}", output::clean(&line));
    }
    let place = difference.call.map_or_else(|| " end".to_owned(), |call| format!("{call:4}"));
    let _ = writeln!(words, "{place}  {GOOD}- expected{GOOD:#}: {}", output::clean(&difference.expected));
    let _ = writeln!(words, "      {BAD}+ actual{BAD:#}:   {}", output::clean(&difference.actual));
    for reason in &difference.reasons {
        let _ = writeln!(
            words,
            "        {BAD}{}{BAD:#}: {}",
            output::clean(&reason.code),
            output::clean(&reason.message)
        );
        if let Some(fix) = &reason.fix {
            let _ = writeln!(words, "          {DIM}fix:{DIM:#} {}", output::clean(fix));
        }
    }
    words
}
