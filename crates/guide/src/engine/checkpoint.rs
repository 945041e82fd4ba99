//! A checkpoint marks a node. The same step stays pending, and the node can be found again.

use super::ledger::Ledger;
use super::notes::KeptNotes;
use super::{Additions, EngineError};
use crate::derive;
use crate::record::{
    AttemptId, EdgeCause, EdgeCauseKind, EdgeKind, EventData, NodeId, NodeKind, OutputChannel, Scope,
};
use crate::state::SessionState;

/// The input of [`checkpoint`].
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint<'a> {
    /// The applied log.
    pub state: &'a SessionState,
    /// The node to mark.
    pub node_id: &'a NodeId,
    /// The attempt in the token.
    pub attempt_id: &'a AttemptId,
    /// Notes to record with the checkpoint.
    pub notes: Option<&'a str>,
    /// The clock time in milliseconds. Informational.
    pub now_ms: u64,
}

/// Creates a checkpoint of a node. It shares the node's snapshot.
///
/// # Errors
/// The node is not in the log.
pub fn checkpoint(request: Checkpoint<'_>) -> Result<Additions, EngineError> {
    let state = request.state;
    let node = state
        .node(request.node_id)
        .ok_or(EngineError::Inconsistent { reason: "the node is not in the log" })?;
    let run =
        state.run(&node.run_id).ok_or(EngineError::Inconsistent { reason: "the run is not in the log" })?;
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
        // The attempt is the last part of the key, so that the log can find the checkpoint by it.
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
