//! Answers that a person gave directly, and the questions to ask.
//!
//! A caller who sends a `wr.user_answer` claims that the user said so. A host that can reach the person,
//! through the client or the console, passes the answers to this module, and the log records which of the
//! three it was. Only the engine writes the `provenance` of an answer; a value that the caller sends is
//! replaced.
//!
//! A recorded answer has the digests of the notes and artifacts that the person saw. An approval counts only for an
//! attempt with the same [output](SubmittedOutput); see [`AttemptAnswers`].

use canon::digest::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answers::AttemptAnswers;
use super::evidence::Artifact;
use super::ledger::Ledger;
use super::notes::KeptNotes;
use super::{
    Additions, Advance, EngineError, NewSnapshot, advance, answers, context, evidence, required_verification,
};
use crate::derive;
use crate::interpret::visible_context;
use crate::project::{submitted_artifacts, submitted_notes};
use crate::record::{
    ArtifactRef, Block, Blocked, BlockerCode, EngineState, EventData, EventIndex, NodeKind, OutputChannel,
    OutputPayload, Scope, UserOnlyDependency,
};
use crate::render::resolve;
use crate::state::{Node, SessionState};
use crate::workflow::compiled::{CompiledWorkflow, Step};
use crate::workflow::needs::{ANSWER_KIND, CONFIRMATION, Need, is_answer, needs};

/// The maximum length of a person's answer, in bytes. With its metadata it still fits into an event.
pub const MAX_ANSWER_BYTES: usize = 1024;
/// The maximum length of a recorded person's name, in bytes.
const MAX_PERSON_BYTES: usize = 128;

/// The member of a recorded answer with the digest of the notes that the person saw: that of their `wr.notes`
/// artifact. Answers of earlier versions do not have it, and count for any notes.
pub(super) const NOTES_MEMBER: &str = "notesSha256";
/// The member of a recorded answer with the digest of the artifacts that the person saw; see
/// [`SubmittedOutput::artifacts`]. Answers of earlier versions do not have it, and count for any artifacts.
pub(super) const ARTIFACTS_MEMBER: &str = "artifactsSha256";

/// The output of an attempt as a person approves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SubmittedOutput {
    /// The digest of the notes as an artifact.
    notes: Digest,
    /// The digest of the sorted digests of the caller's artifacts, without answers: those are what the person gives.
    artifacts: Digest,
}

impl SubmittedOutput {
    /// The output that a caller sends with an attempt.
    pub(super) fn of_attempt(notes: Option<&KeptNotes<'_>>, artifacts: &[Artifact]) -> Self {
        let seen = artifacts.iter().filter(|sent| !(sent.is_inline() && is_answer(&sent.value)));
        Self { notes: KeptNotes::digest(notes), artifacts: digest_of(seen.map(|sent| sent.sha256)) }
    }

    /// The output that is recorded with a blocked attempt.
    fn at_node(state: &SessionState, node: &Node) -> Self {
        let notes =
            submitted_notes(state, node).map_or_else(|| KeptNotes::digest(None), |notes| notes.sha256);
        Self { notes, artifacts: digest_of(submitted_artifacts(state, node).map(|seen| seen.sha256)) }
    }

    /// Whether an answer is bound to another output than this.
    pub(super) fn differs_from(&self, answer: &Map<String, Value>) -> bool {
        let differs = |member: &str, digest: Digest| {
            answer.get(member).and_then(Value::as_str).is_some_and(|seen| seen != digest.to_hex())
        };
        differs(NOTES_MEMBER, self.notes) || differs(ARTIFACTS_MEMBER, self.artifacts)
    }
}

fn digest_of(artifacts: impl Iterator<Item = Digest>) -> Digest {
    let mut digests: Vec<_> = artifacts.map(Digest::to_hex).collect();
    digests.sort_unstable();
    Digest::of_bytes(digests.concat().as_bytes())
}

/// How an answer was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerProvenance {
    /// The client asked its user with an elicitation.
    Elicited,
    /// A person who is signed in answered in the console.
    Console,
    /// The caller says that it was answered. Also the meaning of old answers without a provenance.
    Claimed,
}

/// The decision of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOutcome {
    Given,
    Refused,
}

/// The answer of a person who was asked directly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonAnswer {
    /// The need that it answers.
    pub dependency_id: String,
    pub outcome: AnswerOutcome,
    /// The words of the answer; `None` if the decision says it all.
    pub words: Option<String>,
    /// The person's name, if known.
    pub person: Option<String>,
}

/// Why a person who was asked during a call did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The time limit was reached.
    TimedOut { seconds: u64 },
    /// The person closed the question without an answer.
    Dismissed,
    /// The client could not show the question, or its response was invalid.
    Failed,
}

/// The result of asking people during a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeopleAnswers {
    /// The answers of the client's user.
    pub answers: Vec<PersonAnswer>,
    /// Why answers are missing, if a person was asked.
    pub unanswered: Option<Unanswered>,
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The id that an answer refers to.
    pub id: String,
    /// A description of the kind of need.
    pub kind: &'static str,
    /// What is asked for.
    pub what: String,
    /// A note on how to answer; often empty.
    pub caution: &'static str,
    /// Whether the answer needs words in addition to the decision.
    pub needs_words: bool,
    /// Whether the answer approves the output of the attempt, and counts only for it.
    pub is_approval: bool,
}

impl Question {
    fn of(need: &Need<'_>, context: &Map<String, Value>) -> Self {
        Self {
            id: need.id.to_owned(),
            kind: need.kind(),
            what: resolve(need.what, context),
            caution: need.caution_for_people(),
            needs_words: need.needs_words(),
            is_approval: need.is_approval(),
        }
    }
}

impl PersonAnswer {
    /// The answer as it is recorded, bound to the output that the person saw.
    fn artifact(&self, provenance: AnswerProvenance, seen: SubmittedOutput) -> Value {
        let words = self.words.as_deref().map(str::trim).filter(|words| !words.is_empty());
        let words = words.unwrap_or(match self.outcome {
            AnswerOutcome::Given => "Approved.",
            AnswerOutcome::Refused => "Refused.",
        });
        let mut artifact = json!({
            "kind": ANSWER_KIND,
            "dependencyId": self.dependency_id,
            "answeredBy": "user",
            "outcome": self.outcome,
            "answer": canon::budget::truncate(words, MAX_ANSWER_BYTES),
            "provenance": provenance,
            NOTES_MEMBER: seen.notes.to_hex(),
            ARTIFACTS_MEMBER: seen.artifacts.to_hex(),
        });
        if let Some(person) = &self.person {
            artifact["person"] = json!(canon::budget::truncate(person, MAX_PERSON_BYTES));
        }
        artifact
    }
}

impl PeopleAnswers {
    /// The answers as they are recorded with the attempt that has this output.
    pub(super) fn artifacts(&self, seen: SubmittedOutput) -> Vec<Value> {
        self.answers.iter().map(|answer| answer.artifact(AnswerProvenance::Elicited, seen)).collect()
    }
}

/// Marks user answers that a caller sends as claimed.
pub(super) fn claimed(mut artifacts: Vec<Value>) -> Vec<Value> {
    for artifact in &mut artifacts {
        if is_answer(artifact)
            && let Some(members) = artifact.as_object_mut()
        {
            members.remove("person");
            members.remove(NOTES_MEMBER);
            members.remove(ARTIFACTS_MEMBER);
            members.insert("provenance".to_owned(), json!(AnswerProvenance::Claimed));
        }
    }
    artifacts
}

/// The direct answers about the pending step of a node, oldest first: those given with blocked attempts since
/// the step became pending, and those given in the console.
pub(super) fn recorded<'s>(state: &'s SessionState, node: &'s Node) -> Vec<&'s Value> {
    let attempts = state.lineage(node).take_while(|node| node.kind != NodeKind::Step);
    let mut found: Vec<_> = attempts.flat_map(|node| direct_answers(state, node)).collect();
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, answer)| answer).collect()
}

/// The direct answers that are recorded on one node.
fn direct_answers<'s>(
    state: &'s SessionState,
    node: &'s Node,
) -> impl Iterator<Item = (EventIndex, &'s Value)> {
    recorded_answers(state, node).filter(|(_, answer)| provenance(answer) != AnswerProvenance::Claimed)
}

/// All answers that are recorded on one node, claimed or direct.
fn recorded_answers<'s>(
    state: &'s SessionState,
    node: &'s Node,
) -> impl Iterator<Item = (EventIndex, &'s Value)> {
    let artifacts = state.outputs_of(node, OutputChannel::Artifact);
    artifacts.filter_map(|output| match &output.payload {
        OutputPayload::ArtifactRef(ArtifactRef { content: Some(content), .. }) if is_answer(content) => {
            Some((output.index, content))
        }
        OutputPayload::ArtifactRef(_) | OutputPayload::Notes { .. } => None,
    })
}

/// The approvals that a person is recorded to have given before the run arrived at a node, claimed or direct.
pub(super) fn approvals_before<'s>(
    state: &'s SessionState,
    node: &'s Node,
    step: &'s Step,
) -> impl Iterator<Item = &'s Value> {
    let attempts = state.lineage(node).skip(1).take_while(|node| node.kind != NodeKind::Step);
    let answers = std::iter::once(node).chain(attempts).flat_map(|node| recorded_answers(state, node));
    answers.map(|(_, answer)| answer).filter(|answer| {
        let id = answer.get("dependencyId").and_then(Value::as_str).unwrap_or_default();
        answer.get("outcome") == Some(&json!(AnswerOutcome::Given)) && is_approval(step, id)
    })
}

/// Whether an answer with this id approves what a step did, in contrast to giving what it needs.
fn is_approval(step: &Step, id: &str) -> bool {
    let declared = step.user_dependencies.iter().find(|dependency| dependency.id == id);
    declared.map_or(id == CONFIRMATION, |need| need.reason == UserOnlyDependency::NeedsUserApproval)
}

fn provenance(answer: &Value) -> AnswerProvenance {
    let recorded =
        answer.get("provenance").and_then(|recorded| serde_json::from_value(recorded.clone()).ok());
    recorded.unwrap_or(AnswerProvenance::Claimed)
}

/// The questions to ask a person before this attempt. Empty if the attempt would be rejected or blocked for
/// another reason, or if the session does not stop for it.
///
/// # Errors
/// The errors of [`advance`]: the attempt cannot be recorded at all.
pub fn questions(request: &Advance<'_>) -> Result<Vec<Question>, EngineError> {
    let state = request.state;
    let Some((node, step)) = pending(state, request) else { return Ok(Vec::new()) };
    let preferences = request.effective_preferences(node);
    let before = state.context(&node.run_id);
    let merged = request.context.as_ref().map(|delta| context::merge(before, delta)).transpose()?;
    let stack = request.snapshot.progress().map(|(_, stack)| stack.as_slice()).unwrap_or_default();
    let visible = visible_context(request.workflow, merged.as_ref().unwrap_or(before), stack);
    let sent = evidence::measure(claimed(request.output.artifacts.clone()))?;
    let notes = request.output.notes_markdown.as_deref().and_then(KeptNotes::of);
    let answered = AttemptAnswers {
        sent: sent.iter().map(|artifact| &artifact.value).collect(),
        recorded: recorded(state, node),
        unanswered: None,
        session_id: state.session_id(),
        output: Some(SubmittedOutput::of_attempt(notes.as_ref(), &sent)),
    };
    let open: Vec<Need<'_>> = needs(step, &visible)
        .into_iter()
        .filter(|need| need.stops(preferences.autonomy) && !answered.is_settled(step, need))
        .collect();
    if open.is_empty() {
        return Ok(Vec::new());
    }
    // Do not ask about a step that is blocked regardless of the answer.
    let yes = |need: &Need<'_>| PersonAnswer {
        dependency_id: need.id.to_owned(),
        outcome: AnswerOutcome::Given,
        words: None,
        person: None,
    };
    let people = PeopleAnswers { answers: open.iter().map(yes).collect(), unanswered: None };
    let trial = Advance { people, ..request.clone() };
    // The host verifies the rest after the answers.
    if trial.verification.is_none() && required_verification(&trial)?.is_some() {
        return Ok(open.iter().map(|need| Question::of(need, &visible)).collect());
    }
    let tried = advance(&trial)?;
    let blocked = |new: &NewSnapshot| matches!(new.named.snapshot().state(), EngineState::Blocked(_));
    let is_blocked = tried.snapshots.iter().any(blocked);
    let questions = open.iter().map(|need| Question::of(need, &visible));
    Ok(if is_blocked { Vec::new() } else { questions.collect() })
}

fn pending<'a>(state: &'a SessionState, request: &Advance<'a>) -> Option<(&'a Node, &'a Step)> {
    let node = state.node(request.node_id)?;
    Some((node, request.workflow.step(&request.snapshot.pending()?.step_id)?))
}

/// What a person can answer about a blocked node: each question with the newest direct answer to it.
pub fn waiting_for_people(
    state: &SessionState,
    node: &Node,
    workflow: &CompiledWorkflow,
    snapshot: &EngineState,
) -> Vec<(Question, Option<AnswerOutcome>)> {
    let EngineState::Blocked(Blocked { blocked: Block::RetryableBlock { blockers, .. }, .. }) = snapshot
    else {
        return Vec::new();
    };
    let has = |code: BlockerCode| blockers.blockers().iter().any(|blocker| blocker.code == code);
    let awaits = has(BlockerCode::UserOnlyDependency);
    let lacks_notes = has(BlockerCode::MissingRequiredNotes);
    let step = snapshot.pending().and_then(|pending| workflow.step(&pending.step_id));
    let Some(step) = step.filter(|_| awaits) else { return Vec::new() };
    let stack = snapshot.progress().map(|(_, stack)| stack.as_slice()).unwrap_or_default();
    let visible = visible_context(workflow, state.context(&node.run_id), stack);
    let recorded = recorded(state, node);
    let here: Vec<&Value> = direct_answers(state, node)
        .map(|(_, answer)| answer)
        .filter(|answer| provenance(answer) == AnswerProvenance::Console)
        .collect();
    let output = SubmittedOutput::at_node(state, node);
    // There is nothing to approve yet in an attempt that lacks its notes.
    let open = needs(step, &visible)
        .into_iter()
        .filter(|need| need.stops(node.preferences.autonomy) && !(lacks_notes && need.is_approval()));
    open.map(|need| {
        let newest = |answers: &[&Value]| -> Option<AnswerOutcome> {
            let about =
                |answer: &&&Value| answer.get("dependencyId").and_then(Value::as_str) == Some(need.id);
            let answer = answers.iter().rev().find(about)?;
            if answers::is_outdated(&need, answer, output) {
                return None;
            }
            serde_json::from_value(answer.get("outcome")?.clone()).ok()
        };
        // A refusal that led to this block applied to the previous output. The question is open again.
        let earlier = newest(&recorded).filter(|outcome| *outcome == AnswerOutcome::Given);
        (Question::of(&need, &visible), newest(&here).or(earlier))
    })
    .collect()
}

/// Records an answer given in the console about a blocked node. It is one event, which the next attempt of
/// the step uses.
///
/// The caller has checked that the node [waits](waiting_for_people) for it.
///
/// # Errors
/// The answer cannot be written as canonical JSON. Text from a form never causes this.
pub fn answer_in_console(
    state: &SessionState,
    node: &Node,
    answer: &PersonAnswer,
    now_ms: u64,
) -> Result<Additions, EngineError> {
    let value = answer.artifact(AnswerProvenance::Console, SubmittedOutput::at_node(state, node));
    let measured = evidence::measure(vec![value])?;
    let mut ledger = Ledger::new(state.session_id().clone(), state.next_index(), now_ms);
    for artifact in measured {
        let output_id =
            derive::console_answer_id(&node.id, state.outputs_of(node, OutputChannel::Artifact).count());
        ledger.add(
            Scope::Node(node.run_id.clone(), node.id.clone()),
            &[output_id.as_str()],
            EventData::NodeOutputAppended {
                output_id: output_id.clone(),
                supersedes_output_id: None,
                output_channel: OutputChannel::Artifact,
                payload: OutputPayload::ArtifactRef(ArtifactRef {
                    sha256: artifact.sha256,
                    content_type: "application/json".to_owned(),
                    byte_length: artifact.bytes.len() as u64,
                    content: Some(artifact.value),
                }),
            },
        );
    }
    Ok(Additions {
        events: ledger.into_events(),
        snapshots: Vec::new(),
        artifacts: Vec::new(),
        node_id: node.id.clone(),
    })
}
