//! `interlock runs show`.

use std::fmt::Write as _;

use canon::error::Envelope;
use canon::nearest::nearest;
use canon::time::Timestamp;
use serde_json::{Value, json};
use system::{Clock as _, SystemClock};

use crate::api::{Api, Event, NodeState, Run, RunOutcome, block_on, span};
use crate::arguments::{Globals, RunsShow};
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, BAD, DIM, HEADING, Layout};

pub(super) fn run(arguments: &RunsShow, globals: &Globals) -> Result<ExitStatus, Failure> {
    let api = Api::connect(&arguments.target, globals)?;
    let (run, events) = block_on(async {
        let run = api.find(&arguments.id).await?;
        let events = if arguments.events { api.all_events(run.id()).await? } else { Vec::new() };
        Ok((run, events))
    })?;
    let node = arguments.node.as_deref().map(|node| node_document(&run, node)).transpose()?;
    if arguments.target.answering.json {
        output::json(&document(&run, node, arguments.events.then_some(&events)), Layout::Compact)?;
    } else if let Some(node) = node {
        output::json(node, Layout::Indented)?;
    } else {
        let mut words = words(&run, Timestamp(SystemClock.now_ms()));
        for (wanted, title, name) in
            [(arguments.inputs, "inputs", "inputs"), (arguments.outputs, "outputs", "variables")]
        {
            if wanted {
                let _ = write!(words, "\n{HEADING}{title}{HEADING:#}\n{}\n", pretty(&run.document()[name]));
            }
        }
        if arguments.events {
            let _ = write!(words, "\n{HEADING}events{HEADING:#}\n");
            for event in &events {
                let _ = writeln!(words, "{}", event.line());
            }
        }
        output::text(&words)?;
    }
    Ok(ExitStatus::Success)
}

/// The snapshot as the API returns it, with what people see: outcome and duration.
fn document(run: &Run, node: Option<&Value>, events: Option<&Vec<Event>>) -> Value {
    if let Some(node) = node {
        return node.clone();
    }
    let mut document = run.document().clone();
    if let Some(members) = document.as_object_mut() {
        members.insert("outcome".to_owned(), run.outcome().word().to_lowercase().into());
        if let (Some(started), Some(ended)) = (run.started_at(), run.completed_at()) {
            members.insert("durationMs".to_owned(), ended.since(started).into());
        }
        if let Some(events) = events {
            members
                .insert("events".to_owned(), events.iter().map(|event| event.document().clone()).collect());
        }
    }
    document
}

fn node_document<'r>(run: &'r Run, id: &str) -> Result<&'r Value, Failure> {
    let mut nodes: Vec<_> = run.nodes().collect();
    if let Some(place) = nodes.iter().position(|node| node.id == id) {
        return Ok(nodes.swap_remove(place).document);
    }
    let ids: Vec<_> = nodes.iter().map(|node| node.id).collect();
    let meant = nearest(id, &ids, 1);
    let hint = meant.first().map(|meant| format!("Did you mean `{meant}`? ")).unwrap_or_default();
    Err(Envelope::new(CommandErrorCode::NodeUnknown, format!("The run has no node `{id}`."))
        .suggest(format!("{hint}Its nodes: {}.", ids.join(", ")))
        .detail("nodes", json!(ids))
        .into())
}

fn words(run: &Run, now: Timestamp) -> String {
    let outcome = run.outcome();
    let style = outcome.style();
    let mut words = format!(
        "{HEADING}{}{HEADING:#} · {style}{} {}{style:#}  {DIM}{}{DIM:#}\n",
        output::clean(run.workflow()),
        outcome.icon(),
        outcome.word(),
        output::clean(run.id()),
    );
    let mut fact = |name: &str, value: String| {
        let _ = writeln!(words, "  {DIM}{name:<8}{DIM:#}  {value}");
    };
    if let Some(started) = run.started_at() {
        let by = run.by().map(|by| format!(" by {}", output::clean(by))).unwrap_or_default();
        fact("started", format!("{}{by}", started.to_rfc3339_seconds()));
    }
    if let Some(took) = run.duration_ms(now) {
        fact("took", span(took));
    }
    let tags: Vec<_> = run.tags().map(output::clean).collect();
    if !tags.is_empty() {
        fact("tags", tags.join(", "));
    }
    if let Some(message) = run.error_message() {
        let code = run.error_code().unwrap_or_default();
        fact("error", format!("{BAD}{}{BAD:#}: {}", output::clean(code), output::clean(message)));
    }
    if let Some(interrupt) = run.interrupt() {
        fact("question", format!("{} ({})", interrupt.question(), output::clean(interrupt.kind())));
    }
    let nodes: Vec<_> = run.nodes().collect();
    let name_width = nodes.iter().map(|node| node.id.chars().count()).max().unwrap_or_default().min(32);
    for node in &nodes {
        let (icon, style) = node.state.outcome_style();
        let id = output::shortened(node.id, 32);
        let line =
            format!("  {style}{icon}{style:#} {id:<name_width$}  {:>12}  {}", node.took(), node.note());
        let _ = writeln!(words, "{}", line.trim_end());
    }
    if let Some(next) = next(run) {
        let _ = writeln!(words, "next: {HEADING}{next}{HEADING:#}");
    }
    words
}

/// The command that a person would run next.
fn next(run: &Run) -> Option<String> {
    let id: String = run.id().chars().skip(run.id().chars().count().saturating_sub(8)).collect();
    match run.outcome() {
        RunOutcome::Failed => {
            let failed = run.nodes().find(|node| node.state == NodeState::Failed)?;
            Some(format!("interlock runs fork {id} --from {}", failed.id))
        }
        RunOutcome::Waiting => {
            let interrupt = run.interrupt()?;
            match interrupt.is_approval() {
                true => Some(format!("interlock approvals approve {id}")),
                false => Some(format!("interlock runs answer {id} --value JSON")),
            }
        }
        RunOutcome::Paused => Some(format!("interlock runs resume {id}")),
        RunOutcome::Pending | RunOutcome::Running | RunOutcome::Cancelling => {
            Some(format!("interlock runs tail {id}"))
        }
        RunOutcome::Completed | RunOutcome::Rejected | RunOutcome::Cancelled => None,
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_run_shows_its_nodes_and_what_to_do() {
        let run = Run::new(json!({
            "runId": "run_01a1e48d4cdd1a8726240ecea203eaf0", "workflowId": "incident", "status": "failed",
            "startedAt": "2026-11-16T13:02:11.204Z", "completedAt": "2026-11-16T13:07:00.821Z",
            "owner": {"principal": "Grace"}, "tags": [],
            "error": {"code": "upstream_timeout", "message": "no answer"},
            "nodeStates": {
                "page": {"status": "failed", "attempt": 3, "startedAt": "2026-11-16T13:06:00.000Z", "completedAt": "2026-11-16T13:06:38.400Z", "error": {"message": "no answer"}},
                "plan": {"status": "completed", "attempt": 1, "startedAt": "2026-11-16T13:02:11.300Z", "completedAt": "2026-11-16T13:02:11.306Z", "outputs": {"n": 2}},
                "keep": {"status": "pending", "attempt": 0},
            },
        }));
        let words = anstream::adapter::strip_str(&words(&run, Timestamp(0))).to_string();
        assert_eq!(
            words,
            "incident · ⊗ Failed  run_01a1e48d4cdd1a8726240ecea203eaf0\n  started   2026-11-16T13:02:11Z by Grace\n  took      4 min 49 s\n  error     upstream_timeout: no answer\n  ✓ plan          6 ms  n = 2\n  ⊗ page        38.4 s  3 attempts, no answer\n  ◌ keep                not started\nnext: interlock runs fork a203eaf0 --from page\n"
        );
    }
}
