//! Notes that exceed the size of a recap: the warning in the reply, and the complete text for people.

use canon::digest::Digest;
use guide::derive;
use guide::engine::{stored_whole_notes_warning, truncated_notes_warning};
use guide::project::{attempt_that_made, current_output, submitted_notes};
use guide::record::{ArtifactRef, NodeKind, OutputChannel, OutputPayload};
use guide::state::{Node, Output, SessionState};
use serde_json::Value;

use super::reply::{Ingredients, Moment};

/// The warnings of this call. They are derived from the log, so a replay returns the same.
pub(super) fn warnings(ingredients: &Ingredients<'_>) -> Vec<String> {
    let Ingredients { session, node, moment, .. } = *ingredients;
    let state = &session.state;
    if moment != Moment::Advance {
        return Vec::new();
    }
    let Some(attempt) = attempt_that_made(state, &node.id) else { return Vec::new() };
    let recap = state.output(&derive::recap_output_id(attempt)).and_then(|output| {
        let is_whole = state.output(&derive::whole_notes_output_id(attempt)).is_some();
        sent_bytes(output).map(if is_whole { stored_whole_notes_warning } else { truncated_notes_warning })
    });
    let correction = state.output(&derive::correction_output_id(attempt)).and_then(warning);
    recap.into_iter().chain(correction).collect()
}

/// The warning for an output that was truncated.
pub(super) fn warning(output: &Output) -> Option<String> {
    sent_bytes(output).map(truncated_notes_warning)
}

/// The current notes of a node. They are complete if the complete notes were stored, and truncated otherwise. A blocked
/// attempt has those that a person has to approve. `artifact` returns the stored bytes of an artifact.
pub(super) fn notes_of<'b>(
    state: &SessionState,
    node: &Node,
    artifact: impl Fn(Digest) -> Option<&'b [u8]>,
) -> Option<String> {
    let read = |stored: &ArtifactRef| text_of(stored, artifact(stored.sha256));
    if node.kind == NodeKind::BlockedAttempt {
        return read(submitted_notes(state, node)?);
    }
    let recap = current_output(state, node, OutputChannel::Recap)?;
    whole_notes(state, node).and_then(read).or_else(|| recap.notes().map(str::to_owned))
}

/// The text of an artifact with notes. `stored` is its content if it is not part of the event.
pub(super) fn text_of(notes: &ArtifactRef, stored: Option<&[u8]>) -> Option<String> {
    let text = |artifact: &Value| Some(artifact.get("notesMarkdown")?.as_str()?.to_owned());
    match &notes.content {
        Some(content) => text(content),
        None => text(&serde_json::from_slice(stored?).ok()?),
    }
}

/// The artifact with the complete notes of a node, if the recap was truncated.
pub(super) fn whole_notes<'s>(state: &'s SessionState, node: &Node) -> Option<&'s ArtifactRef> {
    let recap = current_output(state, node, OutputChannel::Recap)?;
    sent_bytes(recap)?;
    let attempt = attempt_that_made(state, &node.id)?;
    // The recap was corrected, so the artifact has outdated notes.
    if recap.id != derive::recap_output_id(attempt) {
        return None;
    }
    match &state.output(&derive::whole_notes_output_id(attempt))?.payload {
        OutputPayload::ArtifactRef(stored) => Some(stored),
        OutputPayload::Notes { .. } => None,
    }
}

fn sent_bytes(output: &Output) -> Option<u64> {
    match &output.payload {
        OutputPayload::Notes { sent_bytes, .. } => *sent_bytes,
        OutputPayload::ArtifactRef(_) => None,
    }
}
