//! The attempt that created a node, and the output that was submitted with it.

use crate::derive;
use crate::record::{AdvanceOutcome, ArtifactRef, AttemptId, NodeId, NodeKind, OutputChannel, OutputPayload};
use crate::state::{Node, SessionState};
use crate::workflow::needs::is_answer;

/// The attempt that created a node; `None` for the root and for checkpoints.
pub fn attempt_that_made<'s>(state: &'s SessionState, made: &NodeId) -> Option<&'s AttemptId> {
    let parent = state.parent_of(state.node(made)?)?;
    let led_there = |outcome: &AdvanceOutcome| matches!(outcome, AdvanceOutcome::Advanced { to_node_id } if to_node_id == made);
    parent.advances().find(|(_, advance)| led_there(&advance.outcome)).map(|(attempt, _)| attempt)
}

/// The notes of a blocked attempt that a person has to approve, as an artifact. A checkpoint has those of the
/// attempt that it bookmarks. Attempts without notes, and those of earlier versions, have none.
pub fn submitted_notes<'s>(state: &'s SessionState, node: &'s Node) -> Option<&'s ArtifactRef> {
    let (_, attempt) = blocked_attempt(state, node)?;
    match &state.output(&derive::whole_notes_output_id(attempt))?.payload {
        OutputPayload::ArtifactRef(notes) => Some(notes),
        OutputPayload::Notes { .. } => None,
    }
}

/// The artifacts that the caller submitted with a blocked attempt, without answers of the user: with the notes, what a
/// person approves. A checkpoint has those of the attempt that it bookmarks.
pub fn submitted_artifacts<'s>(
    state: &'s SessionState,
    node: &'s Node,
) -> impl Iterator<Item = &'s ArtifactRef> {
    let attempt = blocked_attempt(state, node);
    attempt.into_iter().flat_map(move |(attempted, attempt)| {
        // The engine writes these.
        let own = [derive::whole_notes_output_id(attempt), derive::verification_output_id(attempt)];
        let outputs = state.outputs_of(attempted, OutputChannel::Artifact);
        outputs.filter(move |output| !own.contains(&output.id)).filter_map(|output| match &output.payload {
            OutputPayload::ArtifactRef(artifact) if !artifact.content.as_ref().is_some_and(is_answer) => {
                Some(artifact)
            }
            OutputPayload::ArtifactRef(_) | OutputPayload::Notes { .. } => None,
        })
    })
}

/// The blocked attempt at a node, or at the node that a checkpoint bookmarks.
fn blocked_attempt<'s>(state: &'s SessionState, node: &'s Node) -> Option<(&'s Node, &'s AttemptId)> {
    let attempted = state.bookmarked(node);
    if attempted.kind != NodeKind::BlockedAttempt {
        return None;
    }
    Some((attempted, attempt_that_made(state, &attempted.id)?))
}
