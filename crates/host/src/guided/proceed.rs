//! Going on, replaying, and telling where a run is.

use std::sync::PoisonError;

use guide::engine::{self, Additions, Advance, EngineError, FromPeople, Output};
use guide::record::{AdvanceOutcome, AttemptId, NodeId, NodeKind};
use guide::state::Node;
use guide::token::{Keyring, TokenError};
use serde_json::json;
use storage::files::{Attachments, NewObject, NewSnapshot, Writer};

use super::Guided;
use super::api::{ContinueRequest, Intent, Reply};
use super::position::ResolvedPosition;
use super::refusal::{Refusal, inconsistent};
use super::reply::{Ingredients, Moment, rehydrate_call, reply};
use super::sessions::Session;
use super::verify;

impl Guided {
    /// Advances a node, or tells where a run is.
    ///
    /// The same handle sent again gets the recorded outcome, byte for byte, whatever is sent with it.
    ///
    /// # Errors
    /// Tokens that are not good for this, output that cannot be taken, and trouble with the store.
    pub fn proceed(&self, request: ContinueRequest) -> Result<Reply, Refusal> {
        self.proceed_with(request, FromPeople::default())
    }

    /// [`Self::proceed`], with what people said who were [asked](Self::questions) before. Both are recorded in one append.
    ///
    /// # Errors
    /// As [`Self::proceed`].
    pub fn proceed_with(&self, request: ContinueRequest, people: FromPeople) -> Result<Reply, Refusal> {
        let keyring = self.keyring()?;
        let place = self.place(&request.handle, &keyring)?;
        match request.intent {
            Intent::Rehydrate => self.rehydrate(&place, &keyring),
            Intent::Advance => self.advance(&place, &keyring, request, people),
        }
    }

    /// Where the run is at a node. Touches no file but to read.
    fn rehydrate(&self, place: &ResolvedPosition, keyring: &Keyring) -> Result<Reply, Refusal> {
        let session = place.session.lock().unwrap_or_else(PoisonError::into_inner);
        self.answer(&session, &place.node_id, keyring, Moment::Return)
    }

    fn advance(
        &self,
        place: &ResolvedPosition,
        keyring: &Keyring,
        request: ContinueRequest,
        people: FromPeople,
    ) -> Result<Reply, Refusal> {
        // Ids only: notes and context may hold anything.
        let _span = tracing::debug_span!(
            "session.advance",
            session.id = place.session_id.as_str(),
            node.id = place.node_id.as_str()
        )
        .entered();
        let Some(attempt_id) = &place.attempt_id else {
            return Err(TokenError::Misused {
                reason: "a `stateToken` alone cannot advance: send the `continueToken`, or the `ackToken` beside it",
            }
            .into());
        };
        // What is in the log already is answered without a lock: an append-only log cannot take it back.
        {
            let session = place.session.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(to) = recorded(&session, &place.node_id, attempt_id)? {
                return self.answer(&session, &to, keyring, Moment::Advance);
            }
        }
        let verification = self.verification(place, attempt_id, &request, &people)?;
        let mut session = place.session.lock().unwrap_or_else(PoisonError::into_inner);
        let mut writer = self.files.lock(&place.session_id, Some(&session.cursor))?;
        let news = writer.news().clone();
        session.take(&news)?;
        // Somebody may have made the same call in between.
        if let Some(to) = recorded(&session, &place.node_id, attempt_id)? {
            return self.answer(&session, &to, keyring, Moment::Advance);
        }
        self.check_open(&place.session_id)?;
        let node = session.state.node(&place.node_id).ok_or_else(|| TokenError::UnknownNode {
            session: place.session_id.clone(),
            node: place.node_id.clone(),
        })?;
        if !Self::attempt_exists(&session, node, attempt_id) {
            return Err(TokenError::UnknownPosition.into());
        }
        let run = session.state.run(&node.run_id).ok_or_else(|| inconsistent("A node has no run."))?;
        let workflow = self.pinned(run.workflow_hash)?;
        let snapshot = self.files.snapshot(node.snapshot_ref)?;
        let attempt = Advance {
            state: &session.state,
            node_id: &node.id,
            attempt_id,
            workflow: &workflow,
            snapshot: snapshot.state(),
            output: Output { notes_markdown: request.notes_markdown, artifacts: request.artifacts },
            context: request.context,
            preferences: request.preferences.map(|delta| delta.over(node.preferences)),
            people,
            verification,
            now_ms: self.clock.now_ms(),
        };
        // What another call changed meanwhile may have made the attempt one that has to be verified after all.
        if attempt.verification.is_none() && matches!(engine::verification_wanted(&attempt), Ok(Some(_))) {
            return Err(TokenError::SessionLocked { session: place.session_id.clone() }.into());
        }
        let additions =
            engine::advance(&attempt).map_err(|error| with_way_back(&session, node, keyring, &error))?;
        let from = node.id.clone();
        let to = additions.node_id.clone();
        self.append(&mut session, &mut writer, additions, &[from, to.clone()])?;
        drop(writer);
        self.answer(&session, &to, keyring, Moment::Advance)
    }

    /// Appends what a decision adds, and takes it over into memory and index.
    ///
    /// It is folded before it is written, on the session in memory and not on a copy: that costs as much as
    /// the events do, however long the session is. Only when something fails is the session read again.
    pub(super) fn append(
        &self,
        session: &mut Session,
        writer: &mut Writer<'_>,
        additions: Additions,
        touched: &[NodeId],
    ) -> Result<(), Refusal> {
        let before = session.cursor.clone();
        let mut ahead = session.set_aside();
        if let Err(refusal) = Self::commit(&mut ahead, writer, additions) {
            session.reread(&self.files);
            return Err(refusal);
        }
        *session = ahead;
        if session.cursor != before {
            // The step is durable whatever becomes of the index, which reads the session when it is asked for.
            let projection = session.projection(Some(touched), |run| self.workflow_name(run));
            let _ = self.index.record(Some(&before), &session.cursor, projection);
            self.tell_listener();
        }
        Ok(())
    }

    /// Folds what a decision adds, then writes it.
    fn commit(ahead: &mut Session, writer: &mut Writer<'_>, additions: Additions) -> Result<(), Refusal> {
        let Some(plan) = ahead.plan(additions.events)? else { return Ok(()) };
        let attachments = Attachments {
            snapshots: additions
                .snapshots
                .iter()
                .map(|new| NewSnapshot { named: &new.named, parent: new.parent })
                .collect(),
            workflows: Vec::new(),
            artifacts: additions
                .artifacts
                .iter()
                .map(|new| NewObject { digest: new.sha256, bytes: &new.bytes })
                .collect(),
        };
        ahead.cursor = writer.append(&plan, &attachments)?.cursor;
        Ok(())
    }

    /// The answer about a node, from recorded facts.
    pub(super) fn answer(
        &self,
        session: &Session,
        node_id: &NodeId,
        keyring: &Keyring,
        moment: Moment,
    ) -> Result<Reply, Refusal> {
        let node = session.state.node(node_id).ok_or_else(|| inconsistent("A recorded node is missing."))?;
        let run = session.state.run(&node.run_id).ok_or_else(|| inconsistent("A node has no run."))?;
        let workflow = self.pinned(run.workflow_hash)?;
        let snapshot = self.files.snapshot(node.snapshot_ref)?;
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
                delegated.status = delegated.session_id.parse().ok().map(|child| self.child_status(&child));
            }
        }
        reply.verification = verify::verification_of(&self.files, &session.state, node);
        Ok(reply)
    }
}

/// An error, with the call that leads out of it where one does: after too many blocked attempts, and at a step
/// that is blocked for good, that is the place before the first of them.
fn with_way_back(session: &Session, node: &Node, keyring: &Keyring, error: &EngineError) -> Refusal {
    let envelope = error.envelope();
    let leads_back = matches!(error, EngineError::TooManyBlocks { .. } | EngineError::TerminalBlock);
    let unblocked = || session.state.lineage(node).find(|node| node.kind == NodeKind::Step);
    match leads_back.then(unblocked).flatten().and_then(|node| rehydrate_call(session, keyring, node)) {
        Some(call) => envelope.detail("nextCall", json!(call)).into(),
        None => envelope.into(),
    }
}

/// The node that a recorded attempt led to.
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
