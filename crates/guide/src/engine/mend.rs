//! What a caller mends of what is recorded: gaps that are closed, notes that were wrong.
//!
//! Nothing is ever changed. A gap that closes another and an output that stands for an earlier one
//! are facts of their own, and both come as artifacts: `wr.gap_resolution` and `wr.notes_correction`.
//! What cannot be mended is refused before anything is recorded: somebody who believes that a gap
//! is closed must not be wrong about it.

use std::collections::BTreeSet;

use canon::budget;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::EngineError;
use super::answers::AnsweredBy;
use super::notes::KeptNotes;
use crate::placeholder::is_placeholder;
use crate::project::{current_output, open_gaps};
use crate::record::budgets::SUMMARY_BYTES;
use crate::record::{
    GapId, GapReason, GapSeverity, NodeId, NodeKind, OutputChannel, OutputId, OutputPayload, Pointer,
};
use crate::state::{Gap, Node, Run, SessionState};
use crate::workflow::compiled::CompiledWorkflow;

/// The kind of an artifact that closes a gap.
pub(super) const RESOLUTION_KIND: &str = "wr.gap_resolution";
/// The kind of an artifact that corrects the notes of the step before.
pub(super) const CORRECTION_KIND: &str = "wr.notes_correction";
/// A resolution, for pasting. `answeredBy` is only for what the user alone could give.
const RESOLUTION_EXAMPLE: &str = r#"{"kind":"wr.gap_resolution","gapId":"gap_…","summary":"<how the gap was closed>","answeredBy":"user"}"#;
/// A correction, for pasting.
const CORRECTION_EXAMPLE: &str =
    r#"{"kind":"wr.notes_correction","notesMarkdown":"<the notes of the step before, corrected>"}"#;
/// How much of a caller's text an error repeats, in characters.
const QUOTED: usize = 160;
/// How many open gaps an error names.
const NAMED_GAPS: usize = 10;

/// A gap that is closed.
pub(super) struct Resolution {
    pub(super) resolves: GapId,
    pub(super) severity: GapSeverity,
    pub(super) reason: GapReason,
    pub(super) pointer: Option<Pointer>,
    pub(super) summary: String,
    /// Which artifact says so, by its place in the call.
    pub(super) artifact: usize,
}

/// Notes that stand for earlier ones.
pub(super) struct Correction {
    pub(super) node_id: NodeId,
    pub(super) supersedes: OutputId,
    pub(super) notes: OutputPayload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SentResolution {
    #[serde(rename = "kind")]
    _kind: String,
    gap_id: String,
    summary: String,
    #[serde(default)]
    answered_by: Option<AnsweredBy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SentCorrection {
    #[serde(rename = "kind")]
    _kind: String,
    notes_markdown: String,
}

/// The gaps that a call closes, each once. One that is closed already stays as it is.
pub(super) fn resolutions(
    state: &SessionState,
    run: &Run,
    workflow: &CompiledWorkflow,
    artifacts: &[Value],
) -> Result<Vec<Resolution>, EngineError> {
    let mut closed = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, artifact) in of_kind(artifacts, RESOLUTION_KIND) {
        let fault = |reason: String| EngineError::CannotMend { index, reason, example: RESOLUTION_EXAMPLE };
        let sent: SentResolution = read(artifact).map_err(fault)?;
        let words = sent.summary.trim();
        if words.is_empty() || is_placeholder(words) {
            return Err(fault("its `summary` does not say how the gap was closed".to_owned()));
        }
        let gap = GapId::parse(&sent.gap_id).ok().and_then(|id| state.gap(&id));
        let Some(gap) = gap.filter(|gap| gap.run_id == run.id && !closes_another(gap)) else {
            let open = open_gaps(state, run).rev().take(NAMED_GAPS).map(|gap| gap.id.clone()).collect();
            let gap_id = sent.gap_id.chars().take(QUOTED).collect();
            return Err(EngineError::UnknownGap { gap_id, open });
        };
        if !gap.is_open() || !seen.insert(gap.id.clone()) {
            continue;
        }
        if needs_a_person(workflow, gap) {
            return Err(fault(
                "this gap needs the answer of a person, which a caller cannot send; go back to the step with a token of it, \
                 and advance it again with `autonomy` \"guided\", so that the person is asked"
                    .to_owned(),
            ));
        }
        let by_user = sent.answered_by == Some(AnsweredBy::User);
        if matches!(gap.reason, GapReason::UserOnlyDependency(_)) && !by_user {
            return Err(fault(
                "only the user can close this gap; ask, and send `answeredBy` with what the user said as `summary`"
                    .to_owned(),
            ));
        }
        let summary = if by_user { format!("The user answered: {words}") } else { words.to_owned() };
        closed.push(Resolution {
            resolves: gap.id.clone(),
            severity: gap.severity,
            reason: gap.reason,
            pointer: gap.pointer.clone(),
            summary: budget::truncate(&summary, SUMMARY_BYTES).into_owned(),
            artifact: index,
        });
    }
    Ok(closed)
}

/// The notes of the step before, in new words; the last correction of a call counts.
pub(super) fn correction(
    state: &SessionState,
    node: &Node,
    artifacts: &[Value],
) -> Result<Option<Correction>, EngineError> {
    let Some((index, artifact)) = of_kind(artifacts, CORRECTION_KIND).last() else { return Ok(None) };
    let fault = |reason: String| EngineError::CannotMend { index, reason, example: CORRECTION_EXAMPLE };
    let sent: SentCorrection = read(artifact).map_err(fault)?;
    let Some(notes) = KeptNotes::of(&sent.notes_markdown) else {
        return Err(fault("its `notesMarkdown` is empty, or still the placeholder".to_owned()));
    };
    // Notes stand on the node that they led to. Blocked attempts and bookmarks lead nowhere.
    let led_to = state.lineage(node).find(|node| node.kind == NodeKind::Step);
    let earlier = led_to.and_then(|node| current_output(state, node, OutputChannel::Recap));
    let Some(earlier) = earlier else {
        return Err(fault("the step before this one left no notes that could be corrected".to_owned()));
    };
    Ok(Some(Correction {
        node_id: earlier.node_id.clone(),
        supersedes: earlier.id.clone(),
        notes: notes.payload(),
    }))
}

/// Whether a gap is that of a step which takes answers from people only.
fn needs_a_person(workflow: &CompiledWorkflow, gap: &Gap) -> bool {
    let Some(Pointer::WorkflowStep { step_id }) = &gap.pointer else { return false };
    matches!(gap.reason, GapReason::UserOnlyDependency(_))
        && gap.severity == GapSeverity::Critical
        && workflow.step(step_id).is_some_and(|step| step.require_person)
}

/// A record that only says that another gap is closed is nothing that could be closed.
const fn closes_another(gap: &Gap) -> bool {
    matches!(gap.resolution, crate::record::GapResolution::Resolves { .. })
}

fn read<T: DeserializeOwned>(artifact: &Value) -> Result<T, String> {
    serde_json::from_value(artifact.clone()).map_err(|cause| {
        format!("it cannot be read: {}", cause.to_string().chars().take(QUOTED).collect::<String>())
    })
}

fn of_kind<'v>(artifacts: &'v [Value], kind: &'static str) -> impl Iterator<Item = (usize, &'v Value)> {
    artifacts
        .iter()
        .enumerate()
        .filter(move |(_, artifact)| artifact.get("kind").and_then(Value::as_str) == Some(kind))
}
