//! The warning in a reply to notes that are longer than the limit.

use guide::engine::cut_words;
use guide::record::{AdvanceOutcome, AttemptId, NodeId, OutputPayload};
use guide::state::{Output, SessionState};

use super::reply::{Ingredients, Moment};

/// The warnings of this very call, from the record: a replay tells the same.
pub(super) fn warnings(ingredients: &Ingredients<'_>) -> Vec<String> {
    let Ingredients { session, node, moment, .. } = *ingredients;
    let state = &session.state;
    if moment != Moment::Advance {
        return Vec::new();
    }
    let Some(attempt) = attempt_that_made(state, &node.id) else { return Vec::new() };
    let notes = [guide::derive::recap_output_id(attempt), guide::derive::correction_output_id(attempt)];
    notes.iter().filter_map(|id| warning(state.output(id)?)).collect()
}

/// The warning about one output, if it was cut.
pub(super) fn warning(output: &Output) -> Option<String> {
    match &output.payload {
        OutputPayload::Notes { sent_bytes, .. } => sent_bytes.map(cut_words),
        OutputPayload::ArtifactRef(_) => None,
    }
}

fn attempt_that_made<'s>(state: &'s SessionState, made: &NodeId) -> Option<&'s AttemptId> {
    let parent = state.parent_of(state.node(made)?)?;
    let led_there = |outcome: &AdvanceOutcome| matches!(outcome, AdvanceOutcome::Advanced { to_node_id } if to_node_id == made);
    parent.advances().find(|(_, advance)| led_there(&advance.outcome)).map(|(attempt, _)| attempt)
}
