//! Artifacts that amend the record: they close gaps or correct notes.
//!
//! Recorded events never change. The resolution of a gap and the correction of an output are new events, sent
//! as the artifacts `wr.gap_resolution` and `wr.notes_correction`. An invalid amendment is rejected before
//! anything is recorded, so that a caller does not wrongly assume that a gap is closed.

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
/// The kind of an artifact that corrects the notes of the previous step.
pub(super) const CORRECTION_KIND: &str = "wr.notes_correction";
/// An example of a resolution. `answeredBy` is required only for gaps that only the user can close.
const RESOLUTION_EXAMPLE: &str = r#"{"kind":"wr.gap_resolution","gapId":"gap_…","summary":"<how the gap was closed>","answeredBy":"user"}"#;
const CORRECTION_EXAMPLE: &str =
    r#"{"kind":"wr.notes_correction","notesMarkdown":"<the notes of the step before, corrected>"}"#;
/// How many characters of a caller's text an error repeats.
const QUOTED: usize = 160;
/// How many open gaps an error lists.
const NAMED_GAPS: usize = 10;

/// A gap to close.
pub(super) struct Resolution {
    pub(super) resolves: GapId,
    pub(super) severity: GapSeverity,
    pub(super) reason: GapReason,
    pub(super) pointer: Option<Pointer>,
    pub(super) summary: String,
    /// The index of the artifact in the call.
    pub(super) artifact: usize,
}

/// Notes that replace earlier ones.
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

/// The gaps that a call closes, without duplicates. Gaps that are already closed are ignored.
pub(super) fn resolutions(
    state: &SessionState,
    run: &Run,
    workflow: &CompiledWorkflow,
    artifacts: &[Value],
) -> Result<Vec<Resolution>, EngineError> {
    let mut closed = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, artifact) in of_kind(artifacts, RESOLUTION_KIND) {
        let fault =
            |reason: String| EngineError::InvalidAmendment { index, reason, example: RESOLUTION_EXAMPLE };
        let sent: SentResolution = read(artifact).map_err(fault)?;
        let words = sent.summary.trim();
        if words.is_empty() || is_placeholder(words) {
            return Err(fault("its `summary` is empty or still the placeholder".to_owned()));
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
                "this gap needs a person's answer, which a caller cannot send; rehydrate the step with one of its tokens \
                 and advance it again with `autonomy` \"guided\", so that the person is asked"
                    .to_owned(),
            ));
        }
        let by_user = sent.answered_by == Some(AnsweredBy::User);
        if matches!(gap.reason, GapReason::UserOnlyDependency(_)) && !by_user {
            return Err(fault(
                "only the user can close this gap; ask the user, then send `answeredBy` and the user's answer as `summary`"
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

/// The corrected notes of the previous step; the last correction of a call counts.
pub(super) fn correction(
    state: &SessionState,
    node: &Node,
    artifacts: &[Value],
) -> Result<Option<Correction>, EngineError> {
    let Some((index, artifact)) = of_kind(artifacts, CORRECTION_KIND).last() else { return Ok(None) };
    let fault = |reason: String| EngineError::InvalidAmendment { index, reason, example: CORRECTION_EXAMPLE };
    let sent: SentCorrection = read(artifact).map_err(fault)?;
    let Some(notes) = KeptNotes::of(&sent.notes_markdown) else {
        return Err(fault("its `notesMarkdown` is empty or still the placeholder".to_owned()));
    };
    // Notes are recorded on the node that they led to. Blocked attempts and checkpoints have no notes of
    // their own.
    let led_to = state.lineage(node).find(|node| node.kind == NodeKind::Step);
    let earlier = led_to.and_then(|node| current_output(state, node, OutputChannel::Recap));
    let Some(earlier) = earlier else {
        return Err(fault("the previous step has no notes to correct".to_owned()));
    };
    Ok(Some(Correction {
        node_id: earlier.node_id.clone(),
        supersedes: earlier.id.clone(),
        notes: notes.payload(),
    }))
}

/// Whether a gap belongs to a step that accepts answers only from people.
fn needs_a_person(workflow: &CompiledWorkflow, gap: &Gap) -> bool {
    let Some(Pointer::WorkflowStep { step_id }) = &gap.pointer else { return false };
    matches!(gap.reason, GapReason::UserOnlyDependency(_))
        && gap.severity == GapSeverity::Critical
        && workflow.step(step_id).is_some_and(|step| step.require_person)
}

/// Whether a gap record only closes another gap. Such a record cannot be closed itself.
const fn closes_another(gap: &Gap) -> bool {
    matches!(gap.resolution, crate::record::GapResolution::Resolves { .. })
}

fn read<T: DeserializeOwned>(artifact: &Value) -> Result<T, String> {
    serde_json::from_value(artifact.clone()).map_err(|cause| {
        format!("it is invalid: {}", cause.to_string().chars().take(QUOTED).collect::<String>())
    })
}

fn of_kind<'v>(artifacts: &'v [Value], kind: &'static str) -> impl Iterator<Item = (usize, &'v Value)> {
    artifacts
        .iter()
        .enumerate()
        .filter(move |(_, artifact)| artifact.get("kind").and_then(Value::as_str) == Some(kind))
}
