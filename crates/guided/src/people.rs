//! Questions to people, and their answers.
//!
//! A person can be asked in two ways. The client of a call may ask its user: [`Guided::questions`] returns the questions
//! before the call is made, and the answers are recorded with the call in one append. Or a person answers in the console
//! about a blocked node. That answer is one event, which the next attempt uses.

use canon::error::{Envelope, Retry};
use guide::engine::{
    self, Advance, AnswerOutcome, MAX_ANSWER_BYTES, Output, PeopleAnswers, PersonAnswer, Question,
};
use guide::project::{preferred_tip, submitted_artifacts, submitted_notes};
use guide::record::{NodeId, OutputChannel, RunId, SessionId};
use guide::state::{Node, Run};
use serde_json::Value;

use super::Guided;
use super::api::{ContinueRequest, Intent};
use super::cut_notes::text_of;
use super::proceed::{check_open, recorded};
use super::refusal::{GuidedErrorCode, Refusal, inconsistent};
use super::reply::{Ingredients, Moment};
use super::sessions::Session;

/// The maximum number of artifacts of a node. At this number the console accepts no more answers for the node.
const MAX_ARTIFACTS: usize = 64;

/// The questions to ask a person before a call is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Questions {
    /// A description of the run.
    pub run: String,
    /// The step that the answers are for.
    pub step_title: String,
    /// The questions in the author's order. Never empty.
    pub questions: Vec<Question>,
}

/// A run that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingRun {
    pub run_id: RunId,
    /// The blocked attempt. An answer names it, so that the answer cannot be applied to a later question.
    pub node_id: NodeId,
    /// The complete notes of the attempt, which an approval is about. `None` if it has none, or was made with an earlier
    /// version, which did not keep them.
    pub notes: Option<String>,
    /// The artifacts of the attempt, which an approval is about too.
    pub artifacts: Vec<Value>,
    /// Each question, with the answer that a person gave since the attempt was blocked.
    pub questions: Vec<(Question, Option<AnswerOutcome>)>,
}

impl Guided {
    /// The questions that a person has to answer before a call can advance its run. `None` if answers would not unblock
    /// it.
    ///
    /// # Errors
    /// Tokens that are not valid for this call, output that is not accepted, and errors of the store.
    pub async fn questions(&self, request: &ContinueRequest) -> Result<Option<Questions>, Refusal> {
        if request.intent != Intent::Advance {
            return Ok(None);
        }
        let keyring = self.keyring().await?;
        let place = self.place(&request.handle, &keyring).await?;
        let Some(attempt_id) = &place.attempt_id else { return Ok(None) };
        let session = place.session.lock().await;
        if recorded(&session, &place.node_id, attempt_id)?.is_some() {
            return Ok(None);
        }
        let Some(node) = session.state.node(&place.node_id) else { return Ok(None) };
        let run = session.state.run(&node.run_id).ok_or_else(|| inconsistent("A node has no run."))?;
        let workflow = self.pinned(run.workflow_hash).await?;
        let snapshot = self.store.snapshot(node.snapshot_ref).await?;
        let questions = engine::questions(&Advance {
            state: &session.state,
            node_id: &node.id,
            attempt_id,
            workflow: &workflow,
            snapshot: snapshot.state(),
            output: Output {
                notes_markdown: request.notes_markdown.clone(),
                artifacts: request.artifacts.clone(),
            },
            context: request.context.clone(),
            preferences: request.preferences.map(|delta| delta.over(session.state.current_preferences(node))),
            people: PeopleAnswers::default(),
            verification: None,
            now_ms: 0,
        })?;
        if questions.is_empty() {
            return Ok(None);
        }
        let words = super::reply::run_words(&session, run, node, &workflow, snapshot.state());
        let step = snapshot.state().pending().and_then(|pending| workflow.step(&pending.step_id));
        let context = session.state.context(&run.id);
        let title = step.map(|step| super::reply::step_title(&workflow, snapshot.state(), step, context));
        Ok(Some(Questions { run: words.description, step_title: title.unwrap_or_default(), questions }))
    }

    /// The runs of a session that wait for a person.
    ///
    /// # Errors
    /// An unknown session, and errors of the store.
    pub async fn waiting_for_people(&self, session_id: &SessionId) -> Result<Vec<WaitingRun>, Refusal> {
        let session = self.sessions.current(&*self.store, session_id).await?;
        let session = session.lock().await;
        let mut waiting = Vec::new();
        for run in session.state.runs() {
            let Some(node) = preferred_tip(&session.state, run) else { continue };
            let questions = self.open_questions(&session, run, node).await?;
            if !questions.is_empty() {
                waiting.push(WaitingRun {
                    run_id: run.id.clone(),
                    node_id: node.id.clone(),
                    notes: self.submitted_notes(&session, node).await?,
                    artifacts: self.submitted_artifacts(&session, node).await?,
                    questions,
                });
            }
        }
        Ok(waiting)
    }

    /// The notes of a blocked attempt.
    async fn submitted_notes(&self, session: &Session, node: &Node) -> Result<Option<String>, Refusal> {
        let Some(notes) = submitted_notes(&session.state, node) else { return Ok(None) };
        let stored = match notes.content {
            Some(_) => None,
            None => Some(self.store.artifact(notes.sha256).await?),
        };
        Ok(text_of(notes, stored.as_deref()))
    }

    /// The artifacts of a blocked attempt.
    async fn submitted_artifacts(&self, session: &Session, node: &Node) -> Result<Vec<Value>, Refusal> {
        let mut values = Vec::new();
        for artifact in submitted_artifacts(&session.state, node) {
            values.push(match &artifact.content {
                Some(content) => content.clone(),
                None => serde_json::from_slice(&self.store.artifact(artifact.sha256).await?)
                    .map_err(|_| inconsistent("A stored artifact is not JSON."))?,
            });
        }
        Ok(values)
    }

    async fn open_questions(
        &self,
        session: &Session,
        run: &Run,
        node: &Node,
    ) -> Result<Vec<(Question, Option<AnswerOutcome>)>, Refusal> {
        // Skip nodes that are not blocked, without reading their workflow.
        if node.blocked_chain == 0 {
            return Ok(Vec::new());
        }
        let workflow = self.pinned(run.workflow_hash).await?;
        let snapshot = self.store.snapshot(node.snapshot_ref).await?;
        Ok(engine::waiting_for_people(&session.state, node, &workflow, snapshot.state()))
    }

    /// Records the answer of a person who is signed in to the console.
    ///
    /// # Errors
    /// `QUESTION_CLOSED` if the node no longer waits for this answer; an answer that is too long or empty; errors of the
    /// store.
    pub async fn answer_in_console(
        &self,
        session_id: &SessionId,
        node_id: &NodeId,
        answer: &PersonAnswer,
    ) -> Result<(), Refusal> {
        let words = answer.words.as_deref().map_or(0, |words| words.trim().len());
        if words > MAX_ANSWER_BYTES {
            return Err(invalid_answer(&format!(
                "The answer is {words} bytes; the limit is {MAX_ANSWER_BYTES}."
            )));
        }
        let session = self.sessions.current(&*self.store, session_id).await?;
        let mut session = session.lock().await;
        let writer = self.lock(&mut session).await?;
        check_open(&*writer, session_id)?;
        let additions = {
            let state = &session.state;
            let node = state.node(node_id).ok_or_else(|| closed(session_id))?;
            let run = state.run(&node.run_id).ok_or_else(|| inconsistent("A node has no run."))?;
            if preferred_tip(state, run).is_none_or(|tip| tip.id != node.id) {
                return Err(closed(session_id));
            }
            let open = self.open_questions(&session, run, node).await?;
            let question = open.iter().find(|(question, _)| question.id == answer.dependency_id);
            let (question, _) = question.ok_or_else(|| closed(session_id))?;
            if question.needs_words && words == 0 {
                return Err(invalid_answer("The answer is empty. Write the answer to the question."));
            }
            if state.outputs_of(node, OutputChannel::Artifact).count() >= MAX_ARTIFACTS {
                return Err(closed(session_id));
            }
            engine::answer_in_console(state, node, answer, self.clock.now_ms())?
        };
        self.append(&mut session, writer, additions, std::slice::from_ref(node_id)).await?;
        Ok(())
    }
}

/// Warnings that name the questions answered in the console. Only rehydrate replies have them, because a reply to an
/// advance must not change.
pub(super) fn answered_since(ingredients: &Ingredients<'_>) -> Vec<String> {
    let Ingredients { session, node, workflow, snapshot, moment, .. } = *ingredients;
    if moment != Moment::Return {
        return Vec::new();
    }
    let questions = engine::waiting_for_people(&session.state, node, workflow, snapshot.state());
    let answered = questions.into_iter().filter_map(|(question, outcome)| Some((question, outcome?)));
    let words = answered.map(|(question, outcome)| match outcome {
        AnswerOutcome::Given => format!(
            "A person gave `{}` since this attempt was blocked. Advance again with {}; do not send an answer.",
            question.id,
            if question.is_approval { "the same notes and artifacts" } else { "the step's output" }
        ),
        AnswerOutcome::Refused => format!(
            "A person refused `{}` since this attempt was blocked. Change what was refused, then advance \
             again: the person is asked again.",
            question.id
        ),
    });
    words.collect()
}

fn closed(session_id: &SessionId) -> Refusal {
    let message = format!("Session {session_id} no longer waits for this answer.");
    Envelope::new(GuidedErrorCode::QuestionClosed, message)
        .suggest("Reload the page of the session: it shows what the run waits for now. Nothing was recorded.")
        .retry(Retry::NotRetryable)
        .into()
}

fn invalid_answer(message: &str) -> Refusal {
    Envelope::new(GuidedErrorCode::AnswerInvalid, message)
        .suggest("Change the answer and send it again. Nothing was recorded.")
        .retry(Retry::NotRetryable)
        .into()
}
