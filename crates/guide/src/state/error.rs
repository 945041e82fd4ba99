//! Why an event cannot follow the ones before it.

use canon::error::Envelope;

use super::SESSION_EVENTS;
use crate::record::{
    AttemptId, EventId, EventIndex, GapId, NodeId, OutputChannel, OutputId, RunId, SessionId,
};

canon::error_codes! {
    /// Why a log is not the log of a session.
    pub enum FoldErrorCode {
        /// An event is missing, repeated or out of place.
        IndexGap => "EVENT_INDEX_GAP",
        /// An event of another session.
        OtherSession => "EVENT_OTHER_SESSION",
        /// A dedupe key or an id for the second time.
        Duplicate => "EVENT_DUPLICATE",
        /// An event about nothing that exists yet.
        UnknownReference => "EVENT_UNKNOWN_REFERENCE",
        /// An event that its kind does not allow here.
        WrongPlace => "EVENT_WRONG_PLACE",
        /// An event that contradicts an earlier one, or itself.
        Contradiction => "EVENT_CONTRADICTION",
        /// More events than a session holds.
        Limit => "SESSION_EVENT_LIMIT",
    }
}

/// Why an event cannot follow the ones before it. The state is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// Positions are dense.
    #[error("event {} was expected, not event {}", expected.0, found.0)]
    Index { expected: EventIndex, found: EventIndex },
    /// A log has one session.
    #[error("the log is of session {expected}, and the event of session {found}")]
    Session { expected: SessionId, found: SessionId },
    /// A session says first that it exists, and only once.
    #[error("`session_created` is the first event of a session and no other, and event {} is `{kind}`", index.0)]
    Creation { index: EventIndex, kind: &'static str },
    /// A key happens at most once.
    #[error("the dedupe key {key:?} was used by event {} already", first.0)]
    DedupeKey { key: String, first: EventIndex },
    /// An event id is used once.
    #[error("the event id {event_id} was used by event {} already", first.0)]
    EventId { event_id: EventId, first: EventIndex },
    /// Ids are used once.
    #[error("there is a {what} with the id {id} already")]
    Duplicate { what: &'static str, id: String },
    /// Kinds have scopes.
    #[error("an event `{kind}` does not have this scope")]
    Scope { kind: &'static str },
    /// Runs start before anything happens in them.
    #[error("there is no run {run_id}")]
    UnknownRun { run_id: RunId },
    /// Nodes exist before anything happens to them.
    #[error("there is no node {node_id} in run {run_id}")]
    UnknownNode { run_id: RunId, node_id: NodeId },
    /// A run has one root, which is a step.
    #[error("a run has one root, which is a step; node {node_id} would be another")]
    Root { node_id: NodeId },
    /// A run executes one workflow.
    #[error("node {node_id} is of another workflow than its run")]
    WorkflowHash { node_id: NodeId },
    /// A node hangs below the node whose attempt made it.
    #[error("node {node_id} was made by an attempt on {expected}, and cannot hang elsewhere")]
    AdvanceParent { node_id: NodeId, expected: NodeId },
    /// An attempt has one outcome.
    #[error("attempt {attempt_id} on node {node_id} has an outcome already")]
    Attempt { node_id: NodeId, attempt_id: AttemptId },
    /// An attempt leads to a node of its own.
    #[error("node {node_id} is the outcome of another attempt, or hangs elsewhere")]
    AdvanceTarget { node_id: NodeId },
    /// An edge goes from parent to child, once.
    #[error("no edge can lead from {from} to {to}: {rule}")]
    Edge { from: NodeId, to: NodeId, rule: &'static str },
    /// A cause is an event of the session.
    #[error("the cause of an edge, event {event_id}, is not in the log before it")]
    UnknownCause { event_id: EventId },
    /// What is corrected exists.
    #[error("there is no output {output_id} to supersede")]
    UnknownOutput { output_id: OutputId },
    /// A correction stays on its node.
    #[error("output {output_id} belongs to another node, and can be superseded only there")]
    SupersedesOtherNode { output_id: OutputId },
    /// A correction stays in its channel.
    #[error("output {output_id} is in another channel than {channel:?}")]
    SupersedesOtherChannel { output_id: OutputId, channel: OutputChannel },
    /// What is resolved exists, in the same run.
    #[error("there is no gap {gap_id} in this run to resolve")]
    UnknownGap { gap_id: GapId },
    /// A change is part of what it leads to.
    #[error("the effective preferences of change {change_id:?} do not contain the change")]
    Preferences { change_id: String },
    /// How much an observation is worth follows from how it was made.
    #[error("the grade of capability observation {cap_obs_id:?} does not follow from its provenance")]
    Grade { cap_obs_id: String },
    /// A run is completed by one of its nodes.
    #[error("node {node_id} cannot complete run {run_id}: it is no node of it, nor about to be")]
    Completion { run_id: RunId, node_id: NodeId },
    /// Sessions are bounded.
    #[error("a session holds at most {SESSION_EVENTS} events")]
    Limit,
}

impl FoldError {
    /// The closed code of this refusal.
    pub const fn code(&self) -> FoldErrorCode {
        use FoldErrorCode as C;
        match self {
            Self::Index { .. } => C::IndexGap,
            Self::Session { .. } => C::OtherSession,
            Self::DedupeKey { .. } | Self::EventId { .. } | Self::Duplicate { .. } | Self::Attempt { .. } => {
                C::Duplicate
            }
            Self::UnknownRun { .. }
            | Self::UnknownNode { .. }
            | Self::UnknownCause { .. }
            | Self::UnknownOutput { .. }
            | Self::UnknownGap { .. } => C::UnknownReference,
            Self::Creation { .. } | Self::Scope { .. } | Self::Root { .. } => C::WrongPlace,
            Self::WorkflowHash { .. }
            | Self::AdvanceParent { .. }
            | Self::AdvanceTarget { .. }
            | Self::Edge { .. }
            | Self::SupersedesOtherNode { .. }
            | Self::SupersedesOtherChannel { .. }
            | Self::Preferences { .. }
            | Self::Grade { .. }
            | Self::Completion { .. } => C::Contradiction,
            Self::Limit => C::Limit,
        }
    }

    /// The refusal as the one error envelope, with what to do next.
    pub fn envelope(&self) -> Envelope {
        let next = match self.code() {
            FoldErrorCode::Limit => "Start a new session; this one stays readable.",
            FoldErrorCode::IndexGap
            | FoldErrorCode::OtherSession
            | FoldErrorCode::Duplicate
            | FoldErrorCode::UnknownReference
            | FoldErrorCode::WrongPlace
            | FoldErrorCode::Contradiction => {
                "Do not go on with this session. Verify it, export its sound part with `interlock session export --salvage`, and start a new one."
            }
        };
        Envelope::new(self.code(), self.to_string()).suggest(next)
    }
}
