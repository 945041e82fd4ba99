//! A run as the API returns it.

use anstyle::{AnsiColor, Style};
use canon::time::Timestamp;
use flow::failure::FailureCode;
use flow::run::RunStatus;
use serde_json::Value;

use super::event::members;
use super::span;
use crate::output::{self, BAD, DIM, GOOD, WARNING};

/// The code of a run that ended because an approval was rejected.
const REJECTED: &str = FailureCode::InterruptRejected.as_str();
/// How many characters at the end of an id are shown. Its start is a timestamp and looks alike.
const SHORT_ID: usize = 8;

/// A snapshot of a run.
#[derive(Clone, Debug)]
pub(crate) struct Run(Value);

/// How a run is, in the words that the console uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunOutcome {
    Pending,
    Running,
    Waiting,
    Paused,
    Completed,
    Rejected,
    Failed,
    Cancelling,
    Cancelled,
}

impl RunOutcome {
    pub(crate) const ALL: [Self; 9] = [
        Self::Pending,
        Self::Running,
        Self::Waiting,
        Self::Paused,
        Self::Completed,
        Self::Rejected,
        Self::Failed,
        Self::Cancelling,
        Self::Cancelled,
    ];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Waiting => "Waiting",
            Self::Paused => "Paused",
            Self::Completed => "Completed",
            Self::Rejected => "Rejected",
            Self::Failed => "Failed",
            Self::Cancelling => "Cancelling",
            Self::Cancelled => "Cancelled",
        }
    }

    pub(crate) const fn icon(self) -> &'static str {
        match self {
            Self::Pending => "◌",
            Self::Running => "◐",
            Self::Waiting => "◷",
            Self::Paused => "‖",
            Self::Completed => "✓",
            Self::Rejected => "⊖",
            Self::Failed => "⊗",
            Self::Cancelling | Self::Cancelled => "⊘",
        }
    }

    pub(crate) const fn style(self) -> Style {
        match self {
            Self::Running => AnsiColor::Blue.on_default(),
            Self::Waiting => WARNING,
            Self::Paused | Self::Rejected => AnsiColor::Magenta.on_default(),
            Self::Completed => GOOD,
            Self::Failed => BAD,
            Self::Pending | Self::Cancelling | Self::Cancelled => DIM,
        }
    }
}

impl Run {
    pub(crate) const fn new(document: Value) -> Self {
        Self(document)
    }

    pub(crate) const fn document(&self) -> &Value {
        &self.0
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0[name].as_str()
    }

    pub(crate) fn id(&self) -> &str {
        self.text("runId").unwrap_or_default()
    }

    /// `…a203eaf0`
    pub(crate) fn short_id(&self) -> String {
        short_id(self.id())
    }

    pub(crate) fn workflow(&self) -> &str {
        self.text("workflowId").unwrap_or_default()
    }

    pub(crate) fn status(&self) -> RunStatus {
        self.text("status").and_then(RunStatus::parse).unwrap_or_default()
    }

    pub(crate) fn outcome(&self) -> RunOutcome {
        match self.status() {
            RunStatus::Pending => RunOutcome::Pending,
            RunStatus::Running => RunOutcome::Running,
            RunStatus::WaitingApproval | RunStatus::WaitingInput | RunStatus::WaitingExternal => {
                RunOutcome::Waiting
            }
            RunStatus::Paused => RunOutcome::Paused,
            RunStatus::Completed => RunOutcome::Completed,
            RunStatus::Failed if self.error_code() == Some(REJECTED) => RunOutcome::Rejected,
            RunStatus::Failed => RunOutcome::Failed,
            RunStatus::Cancelling => RunOutcome::Cancelling,
            RunStatus::Cancelled => RunOutcome::Cancelled,
        }
    }

    pub(crate) fn error_code(&self) -> Option<&str> {
        self.0.pointer("/error/code")?.as_str()
    }

    pub(crate) fn error_message(&self) -> Option<&str> {
        self.0.pointer("/error/message")?.as_str()
    }

    pub(crate) fn tags(&self) -> impl Iterator<Item = &str> {
        self.0["tags"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    /// Who started it.
    pub(crate) fn by(&self) -> Option<&str> {
        self.0.pointer("/owner/principal")?.as_str()
    }

    pub(crate) fn started_at(&self) -> Option<Timestamp> {
        Timestamp::parse(self.text("startedAt")?)
    }

    pub(crate) fn completed_at(&self) -> Option<Timestamp> {
        Timestamp::parse(self.text("completedAt")?)
    }

    /// How long it took, or has taken by now.
    pub(crate) fn duration_ms(&self, now: Timestamp) -> Option<u64> {
        Some(self.completed_at().unwrap_or(now).since(self.started_at()?))
    }

    /// What a run waits for.
    pub(crate) fn interrupt(&self) -> Option<Interrupt<'_>> {
        self.0["interrupt"].is_object().then(|| Interrupt(&self.0["interrupt"]))
    }

    /// Where it is, or why it ended.
    pub(crate) fn why(&self) -> String {
        if let Some(interrupt) = self.interrupt() {
            return format!("{}: {}", interrupt.node(), interrupt.question());
        }
        if let Some(message) = self.error_message() {
            let failed = self.nodes().find(|node| node.state == NodeState::Failed);
            let at = failed.map(|node| format!("{}: ", node.id)).unwrap_or_default();
            let code = self.error_code().filter(|code| *code != REJECTED);
            let code = code.map(|code| format!("{code}: ")).unwrap_or_default();
            return format!("{at}{code}{message}");
        }
        self.text("currentNodeId").map(|node| format!("at {node}")).unwrap_or_default()
    }

    /// The nodes that have begun or were skipped, in the order in which they began.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        let mut nodes: Vec<_> = self.0["nodeStates"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(id, document)| Node::new(id, document))
            .collect();
        // Nodes that never started come last.
        nodes.sort_by_key(|node| (node.started_at.is_none(), node.started_at, node.id));
        nodes.into_iter()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeState {
    Completed,
    Failed,
    Running,
    Waiting,
    Skipped,
    NotStarted,
}

impl NodeState {
    pub(crate) const fn outcome_style(self) -> (&'static str, Style) {
        match self {
            Self::Completed => ("✓", GOOD),
            Self::Failed => ("⊗", BAD),
            Self::Running => ("◐", RunOutcome::Running.style()),
            Self::Waiting => ("◷", WARNING),
            Self::Skipped => ("»", DIM),
            Self::NotStarted => ("◌", DIM),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node<'r> {
    pub(crate) id: &'r str,
    pub(crate) document: &'r Value,
    pub(crate) state: NodeState,
    started_at: Option<Timestamp>,
}

impl<'r> Node<'r> {
    fn new(id: &'r str, document: &'r Value) -> Self {
        let state = match document["status"].as_str().unwrap_or_default() {
            "completed" => NodeState::Completed,
            "failed" => NodeState::Failed,
            "running" | "retrying" => NodeState::Running,
            "suspended" => NodeState::Waiting,
            "skipped" | "cancelled" => NodeState::Skipped,
            _ => NodeState::NotStarted,
        };
        let started_at = document["startedAt"].as_str().and_then(Timestamp::parse);
        Self { id, document, state, started_at }
    }

    pub(crate) fn took(&self) -> String {
        let ended = self.document["completedAt"].as_str().and_then(Timestamp::parse);
        match (self.started_at, ended) {
            (Some(started), Some(ended)) => span(ended.since(started)),
            _ => String::new(),
        }
    }

    /// The error, the attempts or the first outputs.
    pub(crate) fn note(&self) -> String {
        let attempts = self.document["attempt"].as_u64().filter(|attempt| *attempt > 1);
        let attempts = attempts.map(|attempts| format!("{attempts} attempts"));
        let said = match self.state {
            NodeState::Failed => {
                self.document.pointer("/error/message").and_then(Value::as_str).unwrap_or_default().to_owned()
            }
            NodeState::Skipped => "skipped".to_owned(),
            NodeState::NotStarted => "not started".to_owned(),
            NodeState::Waiting => "waiting".to_owned(),
            NodeState::Running => "running".to_owned(),
            NodeState::Completed => members(&self.document["outputs"]),
        };
        attempts.into_iter().chain((!said.is_empty()).then_some(said)).collect::<Vec<_>>().join(", ")
    }
}

/// What a run waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupt<'r>(&'r Value);

impl<'r> Interrupt<'r> {
    pub(crate) fn node(self) -> &'r str {
        self.0["nodeId"].as_str().unwrap_or_default()
    }

    pub(crate) fn kind(self) -> &'r str {
        self.0["kind"].as_str().unwrap_or_default()
    }

    /// Whether a person can approve or reject.
    pub(crate) fn is_approval(self) -> bool {
        matches!(self.kind(), "approval" | "low-confidence")
    }

    /// Whether an agent, not a person, is awaited.
    pub(crate) fn is_for_agent(self) -> bool {
        self.0["session"].is_object() || self.0["connect"].is_object()
    }

    pub(crate) fn question(self) -> String {
        let texts =
            ["/data/title", "/data/question", "/data/prompt", "/data/message", "/data/questions/0/question"];
        let found = texts.iter().find_map(|at| self.0.pointer(at)?.as_str());
        found.map_or_else(|| self.kind().to_owned(), |text| output::clean(text).into_owned())
    }

    /// The values that tell one question from another.
    pub(crate) fn about(self) -> String {
        let subject = ["subject", "artifact", "context", "payload", "input"];
        let found = subject.iter().map(|name| &self.0["data"][*name]).find(|value| value.is_object());
        found.map(members).unwrap_or_default()
    }

    pub(crate) fn deadline(self) -> Option<Timestamp> {
        Timestamp::parse(self.0["deadline"].as_str()?)
    }

    pub(crate) const fn document(self) -> &'r Value {
        self.0
    }
}

/// The end of an id, which tells runs apart.
pub(crate) fn short_id(id: &str) -> String {
    let characters = id.chars().count();
    if characters <= SHORT_ID {
        return id.to_owned();
    }
    std::iter::once('…').chain(id.chars().skip(characters - SHORT_ID)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rejected_approval_is_not_a_failure() {
        let failed =
            |code: &str| Run::new(json!({"status": "failed", "error": {"code": code, "message": "m"}}));
        assert_eq!(failed("interrupt_rejected").outcome(), RunOutcome::Rejected);
        assert_eq!(failed("upstream_timeout").outcome(), RunOutcome::Failed);
        for status in RunStatus::ALL {
            let run = Run::new(json!({"status": status.as_str()}));
            assert!(RunOutcome::ALL.contains(&run.outcome()), "{status}");
        }
    }

    #[test]
    fn a_run_says_where_it_is_or_why_it_ended() {
        for (run, expected) in [
            (json!({}), ""),
            (json!({"currentNodeId": "plan"}), "at plan"),
            (
                json!({"interrupt": {"nodeId": "ask", "kind": "approval", "data": {"title": "Ship\nit?"}}}),
                "ask: Ship it?",
            ),
            (
                json!({"error": {"code": "upstream_timeout", "message": "no answer"}, "nodeStates": {"page": {"status": "failed"}}}),
                "page: upstream_timeout: no answer",
            ),
            (json!({"error": {"code": "interrupt_rejected", "message": "no"}}), "no"),
        ] {
            assert_eq!(Run::new(run).why(), expected);
        }
    }

    #[test]
    fn ids_are_shortened_to_their_end() {
        for (id, expected) in
            [("", ""), ("12345678", "12345678"), ("run_1234567890", "…34567890"), ("éééééééééé", "…éééééééé")]
        {
            assert_eq!(short_id(id), expected);
        }
    }
}
