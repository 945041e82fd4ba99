//! The attempt that created a node, and the notes that were submitted with it.

use crate::derive;
use crate::record::{AdvanceOutcome, ArtifactRef, AttemptId, NodeId, NodeKind, OutputPayload};
use crate::state::{Node, SessionState};

/// The attempt that created a node; `None` for the root and for checkpoints.
pub fn attempt_that_made<'s>(state: &'s SessionState, made: &NodeId) -> Option<&'s AttemptId> {
    let parent = state.parent_of(state.node(made)?)?;
    let led_there = |outcome: &AdvanceOutcome| matches!(outcome, AdvanceOutcome::Advanced { to_node_id } if to_node_id == made);
    parent.advances().find(|(_, advance)| led_there(&advance.outcome)).map(|(attempt, _)| attempt)
}

/// The notes of a blocked attempt that a person has to approve, as an artifact. A checkpoint has those of the
/// attempt that it bookmarks. Attempts without notes, and those of earlier versions, have none.
pub fn submitted_notes<'s>(state: &'s SessionState, node: &'s Node) -> Option<&'s ArtifactRef> {
    let attempted = state.bookmarked(node);
    if attempted.kind != NodeKind::BlockedAttempt {
        return None;
    }
    let attempt = attempt_that_made(state, &attempted.id)?;
    match &state.output(&derive::whole_notes_output_id(attempt))?.payload {
        OutputPayload::ArtifactRef(notes) => Some(notes),
        OutputPayload::Notes { .. } => None,
    }
}
