//! A bookmark: the same step stays pending, and the place can be found again.

use super::ledger::Ledger;
use super::notes::KeptNotes;
use super::{Additions, EngineError};
use crate::derive;
use crate::record::{
    AttemptId, EdgeCause, EdgeCauseKind, EdgeKind, EventData, NodeId, NodeKind, OutputChannel, Scope,
};
use crate::state::SessionState;

/// What a checkpoint needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint<'a> {
    /// The folded log.
    pub state: &'a SessionState,
    /// The node to bookmark.
    pub node_id: &'a NodeId,
    /// The attempt of the token.
    pub attempt_id: &'a AttemptId,
    /// What to remember with it.
    pub notes: Option<&'a str>,
    /// When, by the clock. Informational.
    pub now_ms: u64,
}

/// Makes a checkpoint of a node; it shares the node's snapshot.
///
/// # Errors
/// A node that is not in the log.
pub fn checkpoint(request: Checkpoint<'_>) -> Result<Additions, EngineError> {
    let state = request.state;
    let node =
        state.node(request.node_id).ok_or(EngineError::Inconsistent { reason: "the node is not there" })?;
    let run = state.run(&node.run_id).ok_or(EngineError::Inconsistent { reason: "the run is not there" })?;
    let session = state.session_id().clone();
    let made = derive::checkpoint_node_id(&session, &run.id, &node.id, request.attempt_id);
    let mut ledger = Ledger::new(session, state.next_index(), request.now_ms);
    let created = ledger.add(
        Scope::Node(run.id.clone(), made.clone()),
        &[run.id.as_str(), made.as_str()],
        EventData::NodeCreated {
            node_kind: NodeKind::Checkpoint,
            parent_node_id: Some(node.id.clone()),
            workflow_hash: run.workflow_hash,
            snapshot_ref: node.snapshot_ref,
        },
    );
    ledger.add(
        Scope::Run(run.id.clone()),
        // The attempt stands at the end: the log finds a checkpoint again by it.
        &[
            run.id.as_str(),
            &format!("{}->{made}", node.id),
            EdgeKind::Checkpoint.as_str(),
            request.attempt_id.as_str(),
        ],
        EventData::EdgeCreated {
            edge_kind: EdgeKind::Checkpoint,
            from_node_id: node.id.clone(),
            to_node_id: made.clone(),
            cause: EdgeCause { kind: EdgeCauseKind::CheckpointCreated, event_id: created },
        },
    );
    if let Some(notes) = request.notes.and_then(KeptNotes::of) {
        let output_id = derive::recap_output_id(request.attempt_id);
        ledger.add(
            Scope::Node(run.id.clone(), made.clone()),
            &[output_id.as_str()],
            EventData::NodeOutputAppended {
                output_id: output_id.clone(),
                supersedes_output_id: None,
                output_channel: OutputChannel::Recap,
                payload: notes.payload(),
            },
        );
    }
    Ok(Additions {
        events: ledger.into_events(),
        snapshots: Vec::new(),
        artifacts: Vec::new(),
        node_id: made,
    })
}
