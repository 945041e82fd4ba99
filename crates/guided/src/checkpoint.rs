//! Creates checkpoints.

use guide::engine::{self, Checkpoint};
use guide::record::{NodeId, OutputChannel};
use guide::token::{self, CheckpointPayload, Keyring, StatePayload, Token};
use serde_json::json;

use super::api::{CheckpointReply, NextCall};
use super::proceed::check_open;
use super::refusal::{Refusal, inconsistent};
use super::reply::run_words;
use super::sessions::Session;
use super::{Guided, cut_notes};

impl Guided {
    /// Creates a checkpoint. Sending the same token again returns the same reply.
    ///
    /// # Errors
    /// Tokens that are not valid for checkpoints, and errors of the store.
    pub async fn checkpoint(
        &self,
        checkpoint_token: &str,
        notes: Option<&str>,
    ) -> Result<CheckpointReply, Refusal> {
        let keyring = self.keyring().await?;
        let payload = self.checkpoint_of(&keyring, checkpoint_token).await?;
        let attempt_id = Some(payload.attempt_id.clone());
        let place = self.place_of(&payload.session_id, &payload.node_id, attempt_id, None).await?;
        let mut session = place.session.lock().await;
        if let Some(made) = made(&session, &payload) {
            return self.checkpoint_reply(&session, &payload.node_id, &made, &keyring).await;
        }
        let writer = self.lock(&mut session).await?;
        if let Some(made) = made(&session, &payload) {
            drop(writer);
            return self.checkpoint_reply(&session, &payload.node_id, &made, &keyring).await;
        }
        check_open(&*writer, &place.session_id)?;
        let additions = engine::checkpoint(Checkpoint {
            state: &session.state,
            node_id: &payload.node_id,
            attempt_id: &payload.attempt_id,
            notes,
            now_ms: self.clock.now_ms(),
        })?;
        let mut checkpoint = additions.node_id.clone();
        let touched = [payload.node_id.clone(), checkpoint.clone()];
        if let Err(failure) = self.append(&mut session, writer, additions, &touched).await {
            // Another writer appended first. If it recorded this same call, return its outcome.
            match made(&session, &payload) {
                Some(other) if failure.is_moved() => checkpoint = other,
                Some(_) | None => return Err(failure.into()),
            }
        }
        self.checkpoint_reply(&session, &payload.node_id, &checkpoint, &keyring).await
    }

    async fn checkpoint_reply(
        &self,
        session: &Session,
        node_id: &NodeId,
        made: &NodeId,
        keyring: &Keyring,
    ) -> Result<CheckpointReply, Refusal> {
        let node = session.state.node(node_id).ok_or_else(|| inconsistent("A recorded node is missing."))?;
        let run = session.state.run(&node.run_id).ok_or_else(|| inconsistent("A node has no run."))?;
        let workflow = self.pinned(run.workflow_hash).await?;
        let snapshot = self.store.snapshot(node.snapshot_ref).await?;
        let resume_token = token::mint(
            keyring,
            &Token::State(StatePayload {
                session_id: session.state.session_id().clone(),
                run_id: run.id.clone(),
                node_id: node.id.clone(),
                workflow_hash: run.workflow_hash,
            }),
        );
        let notes = session
            .state
            .node(made)
            .into_iter()
            .flat_map(|made| session.state.outputs_of(made, OutputChannel::Recap));
        let warnings = notes.filter_map(cut_notes::warning).collect();
        // The attempt that was next when the checkpoint was created. A replay therefore returns the same bytes however
        // far the run has advanced since.
        let made_at = session.state.node(made).map(|made| made.created_index);
        let attempts =
            node.advances().filter(|(_, advance)| made_at.is_none_or(|at| advance.index < at)).count();
        let position = token::Position {
            session_id: session.state.session_id().clone(),
            run_id: run.id.clone(),
            node_id: node.id.clone(),
            attempt_id: guide::derive::attempt_id(session.state.session_id(), &node.id, attempts as u64),
        };
        Ok(CheckpointReply {
            run: run_words(session, run, node, &workflow, snapshot.state()),
            checkpoint_node_id: made.to_string(),
            resume_token,
            resume_call: NextCall {
                tool: "continue_workflow",
                params: json!({"continueToken": token::mint_short(keyring, &position), "intent": "rehydrate"}),
            },
            next_call: NextCall {
                tool: "continue_workflow",
                params: json!({"continueToken": token::mint_short(keyring, &position), "intent": "advance"}),
            },
            warnings,
        })
    }
}

/// The checkpoint of a call that is already recorded.
fn made(session: &Session, payload: &CheckpointPayload) -> Option<NodeId> {
    session.state.checkpoint_of(&payload.node_id, &payload.attempt_id).map(|node| node.id.clone())
}
