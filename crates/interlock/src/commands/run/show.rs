//! Prints events and results of runs.

use anstyle::{AnsiColor, Style};
use flow::event::EventKind;
use flow::event::wire::RawEvent;
use flow::id::NodeId;
use flow::run::RunStatus;
use flow::snapshot::RunView;

use super::Started;
use crate::failure::Failure;
use crate::output::{self, BAD, DIM, GOOD};

/// What is printed of an event.
pub(super) struct Line<'e> {
    /// In RFC 3339.
    pub(super) timestamp: String,
    pub(super) kind: &'e EventKind,
    pub(super) node: &'e str,
    /// Of the error that the event reports; may be empty.
    pub(super) message: &'e str,
}

impl<'e> Line<'e> {
    pub(super) fn of(event: &'e RawEvent) -> Self {
        Self {
            timestamp: event.timestamp.to_rfc3339(),
            kind: &event.kind,
            node: event.node_id.as_ref().map_or("", NodeId::as_str),
            message: event.error_message().unwrap_or_default(),
        }
    }
}

/// Prints one event on one line: time, kind, node.
pub(super) fn event(line: &Line<'_>) -> Result<(), Failure> {
    let Line { timestamp, kind, node, message } = line;
    let time = timestamp.get(11..23).unwrap_or_default();
    let style = match kind {
        EventKind::RunCompleted | EventKind::NodeCompleted => GOOD,
        EventKind::RunFailed | EventKind::NodeFailed | EventKind::RunCancelled | EventKind::CapBreached => {
            BAD
        }
        EventKind::InterruptRequested | EventKind::NodeSuspended => {
            Style::new().fg_color(Some(AnsiColor::Yellow.into()))
        }
        _ => DIM,
    };
    let kind = kind.as_str();
    output::text(&format!("{DIM}{time}{DIM:#}  {style}{kind:<24}{style:#}  {node}  {message}"))
}

/// The status of a run, and what to do next.
pub(super) fn ending(started: &Started, followed: bool) -> String {
    let RunView { run_id, status, .. } = &started.view;
    match status {
        RunStatus::Completed => format!("{GOOD}completed{GOOD:#}  {run_id}"),
        RunStatus::Failed => {
            let message = started.view.error.as_ref().map_or("", |error| &error.message);
            format!("{BAD}failed{BAD:#}  {run_id}  {message}")
        }
        RunStatus::Cancelled => format!("{BAD}cancelled{BAD:#}  {run_id}"),
        status if status.is_waiting() => {
            let node = started.view.current_node_id.as_ref().map_or("?", NodeId::as_str);
            if started.view.interrupt.is_none() {
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
