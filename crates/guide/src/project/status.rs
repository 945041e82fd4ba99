//! The status of a run, and the current outputs of its nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::preferred_tip;
use crate::record::{Autonomy, GapReason, GapSeverity, NodeKind, OutputChannel};
use crate::state::{Gap, Node, Output, Run, SessionState};

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// A step is pending.
    InProgress,
    /// A step is pending, and the last attempt was blocked.
    Blocked,
    /// All steps are done.
    Complete,
    /// All steps are done, but a critical gap is open.
    CompleteWithGaps,
}

impl RunStatus {
    /// All statuses.
    pub const ALL: &'static [Self] =
        &[Self::InProgress, Self::Blocked, Self::Complete, Self::CompleteWithGaps];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Blocked => "blocked",
            Self::Complete => "complete",
            Self::CompleteWithGaps => "complete_with_gaps",
        }
    }

    /// Whether the run is complete.
    pub const fn is_complete(self) -> bool {
        match self {
            Self::Complete | Self::CompleteWithGaps => true,
            Self::InProgress | Self::Blocked => false,
        }
    }
}

/// The status of a run, from its preferred tip and its recorded completions.
pub fn run_status(state: &SessionState, run: &Run) -> RunStatus {
    match preferred_tip(state, run) {
        Some(tip) => run_status_when(state, run, tip, is_complete(state, tip)),
        None => RunStatus::InProgress,
    }
}

/// The status of a run at a tip, for callers that have its snapshot and so know whether it is complete.
pub fn run_status_when(state: &SessionState, run: &Run, tip: &Node, is_complete: bool) -> RunStatus {
    if is_complete {
        return if run.open_critical_gaps > 0 { RunStatus::CompleteWithGaps } else { RunStatus::Complete };
    }
    // A checkpoint has its parent's state, so it is blocked if its parent is.
    let bookmarked = state.bookmarked(tip);
    let is_blocking = |gap: &Gap| {
        gap.is_open()
            && gap.severity == GapSeverity::Critical
            && match gap.reason {
                GapReason::UserOnlyDependency(_)
                | GapReason::ContractViolation(_)
                | GapReason::CapabilityMissing(_) => true,
                GapReason::Unexpected(_) => false,
            }
    };
    // A session that never stops discloses gaps and continues. A blocked attempt remains blocked: preferences
    // affect the next attempt, not the previous one.
    let by_gap = tip.preferences.autonomy != Autonomy::FullAutoNeverStop
        && state
            .lineage(tip)
            .take_while(|node| node.depth >= bookmarked.depth)
            .any(|node| state.gaps_of(node).any(is_blocking));
    if bookmarked.kind == NodeKind::BlockedAttempt || by_gap {
        RunStatus::Blocked
    } else {
        RunStatus::InProgress
    }
}

/// Whether the run was completed at this node, or at the node that it is a checkpoint of.
pub fn is_complete(state: &SessionState, node: &Node) -> bool {
    let bookmarked = state.bookmarked(node);
    state
        .lineage(node)
        .take_while(|node| node.depth >= bookmarked.depth)
        .any(|node| state.completion_at(node).is_some())
}

/// The current output of a node in a channel: the last one that is not superseded.
pub fn current_output<'s>(
    state: &'s SessionState,
    node: &'s Node,
    channel: OutputChannel,
) -> Option<&'s Output> {
    current_outputs(state, node, channel).next_back()
}

/// All outputs of a node in a channel that are not superseded, oldest first. One attempt may produce several
/// artifacts.
pub fn current_outputs<'s>(
    state: &'s SessionState,
    node: &'s Node,
    channel: OutputChannel,
) -> impl DoubleEndedIterator<Item = &'s Output> {
    state.outputs_of(node, channel).filter(|output| output.superseded_by.is_none())
}

/// The open gaps of a run, oldest first.
pub fn open_gaps<'s>(state: &'s SessionState, run: &'s Run) -> impl DoubleEndedIterator<Item = &'s Gap> {
    state.gaps_of_run(run).filter(|gap| gap.is_open())
}
