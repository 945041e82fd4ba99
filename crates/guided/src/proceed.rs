//! Advances, replays and rehydrates a session.

use guide::engine::{self, Additions, Advance, EngineError, Output, PeopleAnswers};
use guide::record::{AdvanceOutcome, AttemptId, NodeId, NodeKind, SessionId};
use guide::state::Node;
use guide::token::{Keyring, TokenError};
use ports::sessions::{Append, NewObject, NewObjects, SessionWriter, StoreError};
use serde_json::json;
use tracing::Instrument as _;

use super::Guided;
use super::api::{ContinueRequest, Intent, Reply};
use super::position::ResolvedPosition;
use super::refusal::{self, Refusal, inconsistent};
use super::reply::{Ingredients, Moment, rehydrate_call, reply};
use super::sessions::Session;
use super::verify;

impl Guided {
    /// Advances a node, or returns the current position of a run.
    ///
    /// Sending the same handle again returns the recorded outcome, byte for byte, whatever else the request contains.
    ///
    /// # Errors
    /// Tokens that are not valid for this call, output that is not accepted, and errors of the store.
    pub async fn proceed(&self, request: ContinueRequest) -> Result<Reply, Refusal> {
        self.proceed_with(request, PeopleAnswers::default()).await
    }

    /// [`Self::proceed`], with the answers to the [questions](Self::questions) that people were asked. The step and the
    /// answers are recorded in one append.
    ///
    /// # Errors
    /// As [`Self::proceed`].
    pub async fn proceed_with(
        &self,
        request: ContinueRequest,
        people: PeopleAnswers,
    ) -> Result<Reply, Refusal> {
        let keyring = self.keyring().await?;
        let place = self.place(&request.handle, &keyring).await?;
        match request.intent {
            Intent::Rehydrate => {
                let session = place.session.lock().await;
                self.answer(&session, &place.node_id, &keyring, Moment::Return).await
            }
            Intent::Advance => {
                // Record ids only: notes and context may contain secrets.
                let span = tracing::debug_span!(
                    "session.advance",
                    session.id = place.session_id.as_str(),
                    node.id = place.node_id.as_str()
                );
                self.advance(&place, &keyring, request, people).instrument(span).await
            }
        }
    }

    async fn advance(
        &self,
        place: &ResolvedPosition,
        keyring: &Keyring,
        request: ContinueRequest,
        people: PeopleAnswers,
    ) -> Result<Reply, Refusal> {
        let Some(attempt_id) = &place.attempt_id else {
            return Err(TokenError::Misused {
                reason: "a `stateToken` alone cannot advance: send the `continueToken`, or add the \
                         `ackToken`",
            }
            .into());
        };
        // A recorded call is answered without a lock, because recorded events never change.
        {
            let session = place.session.lock().await;
            if let Some(to) = recorded(&session, &place.node_id, attempt_id)? {
                return self.answer(&session, &to, keyring, Moment::Advance).await;
            }
        }
        let verification = self.verification(place, attempt_id, &request, &people).await?;
        let mut session = place.session.lock().await;
        let writer = self.lock(&mut session).await?;
        // The same call may have been recorded in the meantime.
        if let Some(to) = recorded(&session, &place.node_id, attempt_id)? {
            drop(writer);
            return self.answer(&session, &to, keyring, Moment::Advance).await;
        }
        check_open(&*writer, &place.session_id)?;
        let node = session.state.node(&place.node_id).ok_or_else(|| TokenError::UnknownNode {
            session: place.session_id.clone(),
            node: place.node_id.clone(),
        })?;
        if !Self::attempt_exists(&session, node, attempt_id) {
            return Err(TokenError::UnknownPosition.into());
        }
        let run = session.state.run(&node.run_id).ok_or_else(|| inconsistent("A node has no run."))?;
        let workflow = self.pinned(run.workflow_hash).await?;
        let snapshot = self.store.snapshot(node.snapshot_ref).await?;
        let attempt = Advance {
            state: &session.state,
            node_id: &node.id,
            attempt_id,
            workflow: &workflow,
            snapshot: snapshot.state(),
            output: Output { notes_markdown: request.notes_markdown, artifacts: request.artifacts },
            context: request.context,
            preferences: request.preferences.map(|delta| delta.over(session.state.current_preferences(node))),
            people,
            verification,
            now_ms: self.clock.now_ms(),
        };
        // A concurrent call may have changed the session so that this attempt now needs verification.
        if attempt.verification.is_none() && matches!(engine::required_verification(&attempt), Ok(Some(_))) {
            return Err(TokenError::SessionLocked { session: place.session_id.clone() }.into());
        }
        let additions =
            engine::advance(&attempt).map_err(|error| with_way_back(&session, node, keyring, &error))?;
        let from = node.id.clone();
        let mut to = additions.node_id.clone();
        if let Err(failure) = self.append(&mut session, writer, additions, &[from, to.clone()]).await {
            // Another writer appended first. If it recorded this same call, return its outcome.
            match recorded(&session, &place.node_id, attempt_id) {
                Ok(Some(other)) if failure.is_moved() => to = other,
                Ok(_) | Err(_) => return Err(failure.into()),
            }
        }
        self.answer(&session, &to, keyring, Moment::Advance).await
    }

    /// Locks a session for appending, and folds events that others appended in the meantime.
    pub(super) async fn lock(&self, session: &mut Session) -> Result<Box<dyn SessionWriter>, Refusal> {
        let id = session.state.session_id().clone();
        let writer = self.store.lock(id, Some(session.cursor.clone())).await?;
        session.take(writer.news())?;
        Ok(writer)
    }

    /// Appends the events of a decision, and updates the session in memory and the index.
    ///
    /// The events are folded before they are written, into the session in memory instead of a copy. The cost depends on
    /// the number of new events, not on the length of the session. If something fails, the session is read again.
    pub(super) async fn append(
        &self,
        session: &mut Session,
        writer: Box<dyn SessionWriter>,
        additions: Additions,
        touched: &[NodeId],
    ) -> Result<(), AppendFailure> {
        let before = session.cursor.clone();
        let mut ahead = session.set_aside();
        if let Err(failure) = self.commit(&mut ahead, writer, additions, touched).await {
            session.reread(&*self.store).await;
            return Err(failure);
        }
        *session = ahead;
        if session.cursor != before {
            self.advanced.notify_one();
        }
        Ok(())
    }

    /// Folds the events of a decision, then writes them.
    async fn commit(
        &self,
        ahead: &mut Session,
        writer: Box<dyn SessionWriter>,
        additions: Additions,
        touched: &[NodeId],
    ) -> Result<(), AppendFailure> {
        let Some(plan) = ahead.plan(additions.events)? else { return Ok(()) };
        let names = self.workflow_names(&ahead.state).await;
        let artifacts = additions.artifacts.into_iter();
        let append = Append {
            plan,
            objects: NewObjects {
                snapshots: additions.snapshots,
                workflows: Vec::new(),
                artifacts: artifacts
                    .map(|new| NewObject { digest: new.sha256, bytes: new.bytes.into() })
                    .collect(),
            },
            projection: ahead.projection(Some(touched), |run| names.of(run)),
        };
        ahead.cursor = writer.append(append).await?.cursor;
        Ok(())
    }

    /// Builds the reply for a node from recorded facts.
    pub(super) async fn answer(
        &self,
        session: &Session,
        node_id: &NodeId,
        keyring: &Keyring,
        moment: Moment,
    ) -> Result<Reply, Refusal> {
        let node = session.state.node(node_id).ok_or_else(|| inconsistent("A recorded node is missing."))?;
        let run = session.state.run(&node.run_id).ok_or_else(|| inconsistent("A node has no run."))?;
        let workflow = self.pinned(run.workflow_hash).await?;
        let snapshot = self.store.snapshot(node.snapshot_ref).await?;
        let mut reply = reply(&Ingredients {
            session,
            run,
            node,
            workflow: &workflow,
            snapshot: &snapshot,
            keyring,
            moment,
        });
        if moment == Moment::Return {
            for delegated in &mut reply.delegations {
                if let Ok(child) = delegated.session_id.parse() {
                    delegated.status = Some(self.child_status(&child).await);
                }
            }
        }
        reply.verification = verify::recorded_verification(&*self.store, &session.state, node).await;
        Ok(reply)
    }
}

/// Why an append failed.
#[derive(Debug)]
pub(super) enum AppendFailure {
    /// The store failed, or another writer appended first.
    Store(StoreError),
    Refused(Refusal),
}

impl AppendFailure {
    /// Whether another writer appended first. In that case nothing was recorded.
    pub(super) const fn is_moved(&self) -> bool {
        matches!(self, Self::Store(StoreError::Moved { .. }))
    }
}

impl From<StoreError> for AppendFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Refusal> for AppendFailure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<AppendFailure> for Refusal {
    fn from(failure: AppendFailure) -> Self {
        match failure {
            AppendFailure::Store(error) => error.into(),
            AppendFailure::Refused(refusal) => refusal,
        }
    }
}

/// Refuses to append to a session that was marked as ended.
pub(super) fn check_open(writer: &dyn SessionWriter, session_id: &SessionId) -> Result<(), Refusal> {
    match writer.ended() {
        Some(ended) => Err(refusal::session_ended(session_id, ended)),
        None => Ok(()),
    }
}

/// Converts an engine error. After too many blocked attempts, and at a step that stays blocked, the error contains the
/// call that returns to the node before the first blocked attempt.
fn with_way_back(session: &Session, node: &Node, keyring: &Keyring, error: &EngineError) -> Refusal {
    let envelope = error.envelope();
    let leads_back = matches!(error, EngineError::TooManyBlocks { .. } | EngineError::TerminalBlock);
    let unblocked = || session.state.lineage(node).find(|node| node.kind == NodeKind::Step);
    match leads_back.then(unblocked).flatten().and_then(|node| rehydrate_call(session, keyring, node)) {
        Some(call) => envelope.detail("nextCall", json!(call)).into(),
        None => envelope.into(),
    }
}

/// The node that a recorded attempt created.
pub(super) fn recorded(
    session: &Session,
    node_id: &NodeId,
    attempt_id: &AttemptId,
) -> Result<Option<NodeId>, Refusal> {
    match session.state.advance(node_id, attempt_id).map(|advance| &advance.outcome) {
        None => Ok(None),
        Some(AdvanceOutcome::Advanced { to_node_id }) => Ok(Some(to_node_id.clone())),
        Some(AdvanceOutcome::Blocked { .. }) => Err(inconsistent(
            "The attempt was recorded as blocked without a node, which this program never writes.",
        )),
    }
}

#[cfg(test)]
mod tests;
