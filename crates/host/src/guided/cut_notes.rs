//! Notes that are longer than a recap: the warning in the reply, and the whole text for people.

use guide::derive;
use guide::engine::{cut_words, stored_whole_words};
use guide::project::current_output;
use guide::record::{AdvanceOutcome, AttemptId, NodeId, OutputChannel, OutputPayload};
use guide::state::{Node, Output, SessionState};
use storage::files::SessionFiles;

use super::reply::{Ingredients, Moment};

/// The warnings of this very call, from the record: a replay tells the same.
pub(super) fn warnings(ingredients: &Ingredients<'_>) -> Vec<String> {
    let Ingredients { session, node, moment, .. } = *ingredients;
    let state = &session.state;
    if moment != Moment::Advance {
        return Vec::new();
    }
    let Some(attempt) = attempt_that_made(state, &node.id) else { return Vec::new() };
    let recap = state.output(&derive::recap_output_id(attempt)).and_then(|output| {
        let is_whole = state.output(&derive::whole_notes_output_id(attempt)).is_some();
        sent_bytes(output).map(if is_whole { stored_whole_words } else { cut_words })
    });
    let correction = state.output(&derive::correction_output_id(attempt)).and_then(warning);
    recap.into_iter().chain(correction).collect()
}

/// The warning about one output of which only the beginning is kept.
pub(super) fn warning(output: &Output) -> Option<String> {
    sent_bytes(output).map(cut_words)
}

/// The current notes of a node: whole where they were stored so, and without the mark that they were cut.
pub(super) fn notes_of(files: &SessionFiles, state: &SessionState, node: &Node) -> Option<String> {
    let recap = current_output(state, node, OutputChannel::Recap)?;
    let whole = || {
        let attempt = attempt_that_made(state, &node.id)?;
        // Notes that were corrected since are those of the correction.
        if recap.id != derive::recap_output_id(attempt) {
            return None;
        }
        let OutputPayload::ArtifactRef(stored) =
            &state.output(&derive::whole_notes_output_id(attempt))?.payload
        else {
            return None;
        };
        let bytes = files.artifact(stored.sha256).ok()?;
        let artifact: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        Some(artifact.get("notesMarkdown")?.as_str()?.to_owned())
    };
    sent_bytes(recap).and_then(|_| whole()).or_else(|| recap.notes().map(str::to_owned))
}

fn sent_bytes(output: &Output) -> Option<u64> {
    match &output.payload {
        OutputPayload::Notes { sent_bytes, .. } => *sent_bytes,
        OutputPayload::ArtifactRef(_) => None,
    }
}

pub(super) fn attempt_that_made<'s>(state: &'s SessionState, made: &NodeId) -> Option<&'s AttemptId> {
    let parent = state.parent_of(state.node(made)?)?;
    let led_there = |outcome: &AdvanceOutcome| matches!(outcome, AdvanceOutcome::Advanced { to_node_id } if to_node_id == made);
    parent.advances().find(|(_, advance)| led_there(&advance.outcome)).map(|(attempt, _)| attempt)
}
