//! Resolves the tokens of a call to a position in a session.

use std::sync::Arc;

use guide::derive;
use guide::project::preferred_tip;
use guide::record::{AttemptId, NodeId, SessionId};
use guide::state::Node;
use guide::token::{
    self, CheckpointPayload, Keyring, Position, RunDescription, Token, TokenError, TokenKind,
};
use ports::sessions::{PositionKey, StoreErrorCode};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::api::Handle;
use super::refusal::{Refusal, inconsistent};
use super::sessions::Session;
use super::{Guided, reply};

/// A node, and the attempt that a token identifies.
pub(super) struct ResolvedPosition {
    pub(super) session: Arc<Mutex<Session>>,
    pub(super) session_id: SessionId,
    pub(super) node_id: NodeId,
    /// `None` for a state token alone, which cannot advance.
    pub(super) attempt_id: Option<AttemptId>,
}

impl Guided {
    /// Resolves a handle.
    pub(super) async fn place(
        &self,
        handle: &Handle,
        keyring: &Keyring,
    ) -> Result<ResolvedPosition, Refusal> {
        match handle {
            Handle::Single(text) if TokenKind::claimed_by(text) == Some(TokenKind::Continue) => {
                self.place_of_short(text, keyring).await
            }
            Handle::Single(text) if TokenKind::claimed_by(text) == Some(TokenKind::ShortCheckpoint) => {
                Err(not_for_continuing(TokenKind::ShortCheckpoint))
            }
            Handle::Single(text) => match token::verify(keyring, text)? {
                Token::State(state) => {
                    self.place_of(&state.session_id, &state.node_id, None, Some(state.workflow_hash)).await
                }
                Token::Ack(ack) => {
                    self.place_of(&ack.session_id, &ack.node_id, Some(ack.attempt_id), None).await
                }
                Token::Checkpoint(_) => Err(not_for_continuing(TokenKind::Checkpoint)),
            },
            Handle::Pair { state_token, ack_token } => {
                let state = token::verify(keyring, state_token)?.into_state()?;
                let Some(ack_token) = ack_token else {
                    let hash = Some(state.workflow_hash);
                    return self.place_of(&state.session_id, &state.node_id, None, hash).await;
                };
                let ack = token::verify(keyring, ack_token)?.into_ack()?;
                if token::check_pair(&state, &ack).is_err() {
                    return Err(self.two_runs(keyring, &state, &ack).await);
                }
                let hash = Some(state.workflow_hash);
                self.place_of(&ack.session_id, &ack.node_id, Some(ack.attempt_id), hash).await
            }
        }
    }

    /// The sessions that the tokens of a handle belong to: one, unless the caller mixes tokens of two sessions.
    ///
    /// Each token is resolved separately, so that a caller with access to one session learns nothing about another.
    ///
    /// # Errors
    /// Tokens that were not signed by this store, and positions that are in no log.
    pub async fn sessions_of(&self, handle: &Handle) -> Result<Vec<SessionId>, Refusal> {
        let keyring = self.keyring().await?;
        let mut sessions = Vec::with_capacity(2);
        match handle {
            Handle::Single(text) => sessions.push(self.session_of(text, &keyring).await?),
            Handle::Pair { state_token, ack_token } => {
                for text in std::iter::once(state_token).chain(ack_token) {
                    sessions.push(self.session_of(text, &keyring).await?);
                }
            }
        }
        Ok(sessions)
    }

    /// The session of a token, if its log has the token's node.
    ///
    /// Tokens are only issued for recorded steps. A token with a valid signature whose step is missing proves data loss.
    ///
    /// # Errors
    /// `TOKEN_UNKNOWN_NODE` for such a token, the other token errors for an invalid token, and errors of the store.
    pub async fn locate(&self, text: &str) -> Result<SessionId, Refusal> {
        // This must not create keys. Without keys, no token is valid.
        let keyring = self.store.keyring().await?;
        let kind = TokenKind::claimed_by(text).ok_or(TokenError::Shape)?;
        let keyring = keyring.ok_or(TokenError::BadSignature { kind })?;
        let (session_id, node_id) = match kind {
            TokenKind::Continue => return Ok(self.place_of_short(text, &keyring).await?.session_id),
            TokenKind::ShortCheckpoint => return Ok(self.checkpoint_of(&keyring, text).await?.session_id),
            TokenKind::State | TokenKind::Ack | TokenKind::Checkpoint => match token::verify(&keyring, text)?
            {
                Token::State(state) => (state.session_id, state.node_id),
                Token::Ack(ack) => (ack.session_id, ack.node_id),
                Token::Checkpoint(checkpoint) => (checkpoint.session_id, checkpoint.node_id),
            },
        };
        Ok(self.place_of(&session_id, &node_id, None, None).await?.session_id)
    }

    /// The session of a checkpoint token.
    ///
    /// # Errors
    /// Tokens that were not signed by this store.
    pub async fn session_of_checkpoint(&self, checkpoint_token: &str) -> Result<SessionId, Refusal> {
        let keyring = self.keyring().await?;
        Ok(self.checkpoint_of(&keyring, checkpoint_token).await?.session_id)
    }

    /// The content of a checkpoint token, short or long.
    pub(super) async fn checkpoint_of(
        &self,
        keyring: &Keyring,
        text: &str,
    ) -> Result<CheckpointPayload, Refusal> {
        if TokenKind::claimed_by(text) != Some(TokenKind::ShortCheckpoint) {
            return Ok(token::verify_checkpoint(keyring, text)?);
        }
        let (digest, number) = token::verify_short_checkpoint(keyring, text)?;
        let (_, Position { session_id, run_id, node_id, .. }) = self.position_of(&digest).await?;
        let attempt_id = derive::checkpoint_attempt_id(&session_id, &node_id, u64::from(number));
        Ok(CheckpointPayload { session_id, run_id, node_id, attempt_id })
    }

    async fn session_of(&self, text: &str, keyring: &Keyring) -> Result<SessionId, Refusal> {
        match TokenKind::claimed_by(text) {
            Some(TokenKind::Continue) => return Ok(self.place_of_short(text, keyring).await?.session_id),
            Some(TokenKind::ShortCheckpoint) => {
                return Ok(self.checkpoint_of(keyring, text).await?.session_id);
            }
            Some(TokenKind::State | TokenKind::Ack | TokenKind::Checkpoint) | None => {}
        }
        Ok(match token::verify(keyring, text)? {
            Token::State(state) => state.session_id,
            Token::Ack(ack) => ack.session_id,
            Token::Checkpoint(checkpoint) => checkpoint.session_id,
        })
    }

    async fn place_of_short(&self, text: &str, keyring: &Keyring) -> Result<ResolvedPosition, Refusal> {
        let (session, position) = self.position_of(&token::verify_short(keyring, text)?).await?;
        let Position { session_id, node_id, attempt_id, .. } = position;
        Ok(ResolvedPosition { session, session_id, node_id, attempt_id: Some(attempt_id) })
    }

    /// The session and the position that a digest identifies.
    async fn position_of(&self, digest: &PositionKey) -> Result<(Arc<Mutex<Session>>, Position), Refusal> {
        let Some((session_id, created_by)) = self.store.position(*digest).await? else {
            return Err(TokenError::UnknownPosition.into());
        };
        let session = self.sessions.current(&*self.store, &session_id).await?;
        let position = session.lock().await.position(created_by, digest);
        position.map(|position| (session, position)).ok_or_else(|| TokenError::UnknownPosition.into())
    }

    /// The position of a node, which must be in the log.
    pub(super) async fn place_of(
        &self,
        session_id: &SessionId,
        node_id: &NodeId,
        attempt_id: Option<AttemptId>,
        workflow_hash: Option<guide::record::WorkflowHash>,
    ) -> Result<ResolvedPosition, Refusal> {
        let unknown = || TokenError::UnknownNode { session: session_id.clone(), node: node_id.clone() };
        let session = match self.sessions.current(&*self.store, session_id).await {
            Err(refusal) if refusal.envelope().has_code(StoreErrorCode::SessionUnknown) => {
                return Err(unknown().into());
            }
            other => other?,
        };
        {
            let locked = session.lock().await;
            let missing =
                || TokenError::MissingFromLog { session: session_id.clone(), node: node_id.clone() };
            let node = locked.state.node(node_id).ok_or_else(missing)?;
            let run = locked.state.run(&node.run_id).ok_or_else(|| inconsistent("A node has no run."))?;
            if let Some(token) = workflow_hash.filter(|hash| *hash != run.workflow_hash) {
                return Err(TokenError::WorkflowHashMismatch { token, pinned: run.workflow_hash }.into());
            }
        }
        Ok(ResolvedPosition { session, session_id: session_id.clone(), node_id: node_id.clone(), attempt_id })
    }

    /// Whether an attempt on a node is recorded, or is the next one.
    pub(super) fn attempt_exists(session: &Session, node: &Node, attempt_id: &AttemptId) -> bool {
        let next = derive::attempt_id(session.state.session_id(), &node.id, node.attempts() as u64);
        *attempt_id == next || node.advances().any(|(recorded, _)| recorded == attempt_id)
    }

    /// The error for tokens of two different runs, which describes both with the call for each, or of two positions of one
    /// run.
    async fn two_runs(
        &self,
        keyring: &Keyring,
        state: &token::StatePayload,
        ack: &token::AckPayload,
    ) -> Refusal {
        let first = self.describe(keyring, &state.session_id, &state.node_id).await;
        let second = self.describe(keyring, &ack.session_id, &ack.node_id).await;
        let is_one_run = (&state.session_id, &state.run_id) == (&ack.session_id, &ack.run_id);
        match (first, second) {
            (Ok(first), Ok(second)) if is_one_run => {
                match self.latest_call(keyring, &state.session_id, &state.node_id).await {
                    Ok(latest) => token::position_mismatch(&first, &second, &latest).into(),
                    Err(refusal) => refusal,
                }
            }
            (Ok(first), Ok(second)) => token::scope_mismatch(&first, &second).into(),
            _ => TokenError::ScopeMismatch {
                first: (state.session_id.clone(), state.run_id.clone()),
                second: (ack.session_id.clone(), ack.run_id.clone()),
            }
            .into(),
        }
    }

    /// The call that returns the latest position of the run of a node.
    async fn latest_call(
        &self,
        keyring: &Keyring,
        session_id: &SessionId,
        node_id: &NodeId,
    ) -> Result<Value, Refusal> {
        let place = self.place_of(session_id, node_id, None, None).await?;
        let session = place.session.lock().await;
        let node = session.state.node(node_id).ok_or_else(|| inconsistent("A node is missing."))?;
        let run = session.state.run(&node.run_id).ok_or_else(|| inconsistent("A node has no run."))?;
        let tip = preferred_tip(&session.state, run).unwrap_or(node);
        let call = reply::rehydrate_call(&session, keyring, tip);
        Ok(json!(call.ok_or_else(|| inconsistent("A node has no position."))?))
    }

    async fn describe(
        &self,
        keyring: &Keyring,
        session_id: &SessionId,
        node_id: &NodeId,
    ) -> Result<RunDescription, Refusal> {
        let place = self.place_of(session_id, node_id, None, None).await?;
        let session = place.session.lock().await;
        let node = session.state.node(node_id).ok_or_else(|| inconsistent("A node is missing."))?;
        let run = session.state.run(&node.run_id).ok_or_else(|| inconsistent("A node has no run."))?;
        let workflow = self.pinned(run.workflow_hash).await?;
        let snapshot = self.store.snapshot(node.snapshot_ref).await?;
        let words = reply::run_words(&session, run, node, &workflow, snapshot.state());
        let position =
            session.positions_of(node).pop().ok_or_else(|| inconsistent("A node has no position."))?;
        let token = token::mint_short(keyring, &position);
        Ok(RunDescription {
            workflow: words.workflow_name,
            goal: words.goal,
            step: words.step,
            steps: words.steps,
            call: json!({"tool": "continue_workflow", "params": {"continueToken": token, "intent": "advance"}}),
        })
    }
}

/// The error for a checkpoint token in a call that continues a run.
fn not_for_continuing(given: TokenKind) -> Refusal {
    TokenError::OtherKind { wanted: TokenKind::Continue, given }.into()
}
