//! Artifacts that amend the record: they close gaps or correct notes.
//!
//! Recorded events never change. The resolution of a gap and the correction of an output are new events, sent
//! as the artifacts `wr.gap_resolution` and `wr.notes_correction`. An invalid amendment is rejected before
//! anything is recorded, so that a caller does not wrongly assume that a gap is closed.

use std::collections::BTreeSet;

use canon::budget;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::EngineError;
use super::answers::AnsweredBy;
use super::members::{self, Member};
use super::notes::KeptNotes;
use super::{Advance, people};
use crate::interpret::visible_context;
use crate::placeholder::is_placeholder;
use crate::project::arrival::selected_at;
use crate::project::{current_output, open_gaps};
use crate::record::budgets::SUMMARY_BYTES;
use crate::record::{
    GapId, GapReason, GapSeverity, NodeId, NodeKind, OutputChannel, OutputId, OutputPayload, Pointer,
};
use crate::state::{Gap, Node, Run, SessionState};
use crate::workflow::compiled::{CompiledWorkflow, Step};
use crate::workflow::criteria;

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
/// How many characters of failed rules an error repeats.
const MAX_ISSUES: usize = 600;
/// How many open gaps an error lists.
const NAMED_GAPS: usize = 10;

const RESOLUTION_MEMBERS: [Member; 3] = [
    Member::text("gapId"),
    Member::text("summary"),
    Member::choice("answeredBy", &["user", "coordinator"]).optional(),
];
const CORRECTION_MEMBERS: [Member; 1] = [Member::text("notesMarkdown")];

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
        let sent: SentResolution = read(artifact, &RESOLUTION_MEMBERS).map_err(fault)?;
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
///
/// The corrected notes must pass what the original notes passed. Notes that a person approved, or whose citations the
/// host verified, cannot be replaced: their step has to be advanced again, so that they are approved and verified
/// again. `context` is the context after the attempt.
pub(super) fn correction(
    request: &Advance<'_>,
    node: &Node,
    context: &Map<String, Value>,
    artifacts: &[Value],
) -> Result<Option<Correction>, EngineError> {
    let state = request.state;
    let Some((index, artifact)) = of_kind(artifacts, CORRECTION_KIND).last() else { return Ok(None) };
    let fault = |reason: String| EngineError::InvalidAmendment { index, reason, example: CORRECTION_EXAMPLE };
    let sent: SentCorrection = read(artifact, &CORRECTION_MEMBERS).map_err(fault)?;
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
    if let Some((led_to, step)) = led_to.zip(led_to.and_then(|led_to| completed_step(request, led_to))) {
        let again =
            "rehydrate that step with one of its tokens and advance it again with the corrected notes";
        if people::approvals_before(state, led_to, step).next().is_some() {
            return Err(fault(format!(
                "a person approved the notes of step `{}`, so they cannot be replaced without a new approval; {again}, \
                 so that the person is asked again",
                step.step_id
            )));
        }
        if step.evidence.as_ref().is_some_and(|demand| demand.citations) {
            return Err(fault(format!(
                "the host verified the citations in the notes of step `{}`; {again}, so that they are verified again",
                step.step_id
            )));
        }
        check_criteria(request, step, notes.recap(), context).map_err(fault)?;
    }
    Ok(Some(Correction {
        node_id: earlier.node_id.clone(),
        supersedes: earlier.id.clone(),
        notes: notes.payload(),
    }))
}

/// The step whose completion led to a node.
fn completed_step<'a>(request: &Advance<'a>, led_to: &Node) -> Option<&'a Step> {
    let before = request.state.parent_of(led_to)?;
    request.workflow.step(&selected_at(request.state, before)?.step_id)
}

/// Validates corrected notes as the step validated the original ones. Only what is stored counts.
fn check_criteria(
    request: &Advance<'_>,
    step: &Step,
    notes: &str,
    context: &Map<String, Value>,
) -> Result<(), String> {
    let Some(rules) = step.validation_criteria.as_ref().filter(|_| step.output_contract.is_none()) else {
        return Ok(());
    };
    let stack = request.snapshot.progress().map(|(_, stack)| stack.as_slice()).unwrap_or_default();
    let context = visible_context(request.workflow, context, stack);
    let verdict = criteria::evaluate(rules, notes, &context)
        .map_err(|_| format!("a rule of step `{}` cannot be evaluated", step.step_id))?;
    if verdict.passed() {
        return Ok(());
    }
    let issues: Vec<String> =
        verdict.failures.iter().map(|failure| format!("{} ({})", failure.message, failure.detail)).collect();
    let issues: String = issues.join("; ").chars().take(MAX_ISSUES).collect();
    Err(format!("its `notesMarkdown` does not pass the rules of step `{}`: {issues}", step.step_id))
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

fn read<T: DeserializeOwned>(artifact: &Value, members: &[Member]) -> Result<T, String> {
    let invalid = |_| {
        let fault = artifact.as_object().map(|artifact| members::fault(artifact, members));
        format!("it is invalid: {}", fault.unwrap_or_else(|| "it is not an object".to_owned()))
    };
    serde_json::from_value(artifact.clone()).map_err(invalid)
}

fn of_kind<'v>(artifacts: &'v [Value], kind: &'static str) -> impl Iterator<Item = (usize, &'v Value)> {
    artifacts
        .iter()
        .enumerate()
        .filter(move |(_, artifact)| artifact.get("kind").and_then(Value::as_str) == Some(kind))
}
