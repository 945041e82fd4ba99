//! Errors of applying an event.

use canon::error::Envelope;

use super::SESSION_EVENTS;
use crate::record::{
    AttemptId, EventId, EventIndex, GapId, NodeId, OutputChannel, OutputId, RunId, SessionId,
};

canon::error_codes! {
    /// Why a log is invalid.
    pub enum FoldErrorCode {
        /// An event is missing, repeated or out of order.
        IndexGap => "EVENT_INDEX_GAP",
        /// An event belongs to another session.
        OtherSession => "EVENT_OTHER_SESSION",
        /// A dedupe key or an id occurs twice.
        Duplicate => "EVENT_DUPLICATE",
        /// An event refers to something that does not exist yet.
        UnknownReference => "EVENT_UNKNOWN_REFERENCE",
        /// An event of this kind is not allowed here.
        WrongPlace => "EVENT_WRONG_PLACE",
        /// An event contradicts an earlier one, or itself.
        Contradiction => "EVENT_CONTRADICTION",
        /// The limit of events is exceeded.
        Limit => "SESSION_EVENT_LIMIT",
    }
}

/// Why an event is not valid after the previous ones. The state is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// Indexes must be dense.
    #[error("expected event {}, found event {}", expected.0, found.0)]
    Index { expected: EventIndex, found: EventIndex },
    /// All events must belong to one session.
    #[error("the log belongs to session {expected}, but the event belongs to session {found}")]
    Session { expected: SessionId, found: SessionId },
    /// `session_created` must be the first event and must not occur again.
    #[error("`session_created` must be the first event of a session and must not be repeated; event {} is `{kind}`", index.0)]
    Creation { index: EventIndex, kind: &'static str },
    /// A dedupe key must be unique.
    #[error("the dedupe key {key:?} was already used by event {}", first.0)]
    DedupeKey { key: String, first: EventIndex },
    /// An event id must be unique.
    #[error("the event id {event_id} was already used by event {}", first.0)]
    EventId { event_id: EventId, first: EventIndex },
    /// Ids must be unique.
    #[error("a {what} with the id {id} already exists")]
    Duplicate { what: &'static str, id: String },
    /// Each kind allows certain scopes.
    #[error("the scope is not allowed for an event `{kind}`")]
    Scope { kind: &'static str },
    /// A run must start before other events refer to it.
    #[error("run {run_id} does not exist")]
    UnknownRun { run_id: RunId },
    /// A node must exist before other events refer to it.
    #[error("node {node_id} does not exist in run {run_id}")]
    UnknownNode { run_id: RunId, node_id: NodeId },
    /// A run must have one root, which is a step.
    #[error("a run has exactly one root, which is a step; node {node_id} would be another")]
    Root { node_id: NodeId },
    /// All nodes of a run must have its workflow.
    #[error("node {node_id} has a different workflow than its run")]
    WorkflowHash { node_id: NodeId },
    /// The parent of a node must be the node of the attempt that created it.
    #[error("the parent of node {node_id} must be {expected}, whose attempt created it")]
    AdvanceParent { node_id: NodeId, expected: NodeId },
    /// An attempt must have one outcome.
    #[error("attempt {attempt_id} on node {node_id} already has an outcome")]
    Attempt { node_id: NodeId, attempt_id: AttemptId },
    /// Every attempt must lead to its own node.
    #[error("node {node_id} is the outcome of another attempt, or has a different parent")]
    AdvanceTarget { node_id: NodeId },
    /// An edge must go from parent to child, once.
    #[error("invalid edge from {from} to {to}: {rule}")]
    Edge { from: NodeId, to: NodeId, rule: &'static str },
    /// The cause of an edge must be an earlier event of the session.
    #[error("the cause of an edge, event {event_id}, is not an earlier event")]
    UnknownCause { event_id: EventId },
    /// A corrected output must exist.
    #[error("the superseded output {output_id} does not exist")]
    UnknownOutput { output_id: OutputId },
    /// A correction must be on the same node.
    #[error("output {output_id} belongs to another node and can be superseded only there")]
    SupersedesOtherNode { output_id: OutputId },
    /// A correction must be in the same channel.
    #[error("output {output_id} is not in the channel {channel:?}")]
    SupersedesOtherChannel { output_id: OutputId, channel: OutputChannel },
    /// A resolved gap must exist in the same run.
    #[error("the resolved gap {gap_id} does not exist in this run")]
    UnknownGap { gap_id: GapId },
    /// The resulting preferences must contain the change.
    #[error("the effective preferences of change {change_id:?} do not contain the change")]
    Preferences { change_id: String },
    /// The grade of an observation must match its provenance.
    #[error("the grade of capability observation {cap_obs_id:?} does not match its provenance")]
    Grade { cap_obs_id: String },
    /// A run must be completed by one of its nodes.
    #[error("node {node_id} cannot complete run {run_id}: it does not belong to the run")]
    Completion { run_id: RunId, node_id: NodeId },
    /// The number of events is limited.
    #[error("the session has reached its limit of {SESSION_EVENTS} events")]
    Limit,
}

impl FoldError {
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

    /// The error envelope, with what to do next.
    pub fn envelope(&self) -> Envelope {
        let next = match self.code() {
            FoldErrorCode::Limit => "Start a new session; this one stays readable.",
            FoldErrorCode::IndexGap
            | FoldErrorCode::OtherSession
            | FoldErrorCode::Duplicate
            | FoldErrorCode::UnknownReference
            | FoldErrorCode::WrongPlace
            | FoldErrorCode::Contradiction => {
                "Do not continue this session. Run `interlock session verify`, export its intact part with `interlock session export --salvage`, and start a new session."
            }
        };
        Envelope::new(self.code(), self.to_string()).suggest(next)
    }
}
