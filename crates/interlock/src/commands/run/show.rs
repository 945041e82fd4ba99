//! Prints events and results of runs.

use anstyle::{AnsiColor, Style};
use flow::run::RunStatus;
use serde_json::Value;

use super::Started;
use crate::failure::Failure;
use crate::output::{self, BAD, DIM, GOOD};

/// Prints one event on one line: time, kind, node.
pub(super) fn event(text: &str) -> Result<(), Failure> {
    let event: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    let kind = event["type"].as_str().unwrap_or_default();
    let time = event["timestamp"].as_str().and_then(|time| time.get(11..23)).unwrap_or_default();
    let node = event["nodeId"].as_str().unwrap_or_default();
    let style = match kind {
        "run.completed" | "node.completed" => GOOD,
        "run.failed" | "node.failed" | "run.cancelled" | "cap.breached" => BAD,
        "interrupt.requested" | "node.suspended" => Style::new().fg_color(Some(AnsiColor::Yellow.into())),
        _ => DIM,
    };
    let message = event.pointer("/payload/error/message").and_then(Value::as_str).unwrap_or_default();
    output::text(&format!("{DIM}{time}{DIM:#}  {style}{kind:<24}{style:#}  {node}  {message}"))
}

/// Whether the run cannot continue without a person.
pub(super) fn needs_person(text: &str) -> bool {
    text.contains("\"interrupt.requested\"")
        && serde_json::from_str::<Value>(text).is_ok_and(|event| event["type"] == "interrupt.requested")
}

/// The status of a run, and what to do next.
pub(super) fn ending(started: &Started, followed: bool) -> String {
    let Started { run_id, status, snapshot } = started;
    let error =
        snapshot.as_ref().and_then(|snapshot| snapshot.pointer("/error/message")).and_then(Value::as_str);
    match status {
        RunStatus::Completed => format!("{GOOD}completed{GOOD:#}  {run_id}"),
        RunStatus::Failed => format!("{BAD}failed{BAD:#}  {run_id}  {}", error.unwrap_or_default()),
        RunStatus::Cancelled => format!("{BAD}cancelled{BAD:#}  {run_id}"),
        status if status.is_waiting() => {
            let node =
                snapshot.as_ref().and_then(|snapshot| snapshot["currentNodeId"].as_str()).unwrap_or("?");
            if snapshot.as_ref().is_some_and(|snapshot| snapshot.get("interrupt").is_none()) {
                return format!(
                    "{status}  {run_id}  at {node}\n  a child run waits: start `interlock serve` and see `childRuns` in GET /v1/runs/{run_id}"
                );
            }
            format!(
                "{status}  {run_id}  at {node}\n  to answer: start `interlock serve` and send {{\"resumeValue\": …}} to POST /v1/runs/{run_id}/interrupts/{node}"
            )
        }
        status if followed => format!("{status}  {run_id}"),
        status => format!(
            "{status}  {run_id}\n  to continue: start `interlock serve`; to watch: GET /v1/runs/{run_id}/events"
        ),
    }
}
