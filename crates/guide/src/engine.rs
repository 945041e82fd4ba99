//! Decides which events a call adds.
//!
//! [`start`], [`advance`] and [`checkpoint`] are pure. They read the applied log, the pinned workflow and the
//! snapshot of the node, and return the events of one append with the snapshots and artifacts that it needs.
//! The caller looks for the call in the log first: a recorded call is answered from the log and never decided
//! again.

mod advance;
mod amend;
mod answers;
mod checkpoint;
pub mod context;
mod error;
mod evidence;
mod ledger;
mod members;
mod notes;
mod people;
mod reasons;
mod start;
mod verify;

use canon::digest::Digest;

pub use advance::{Advance, Output, advance};
pub use checkpoint::{Checkpoint, checkpoint};
pub use error::{EngineError, EngineErrorCode};
pub use notes::{WHOLE_NOTES_KIND, stored_whole_notes_warning, truncated_notes_warning};
pub use people::{
    AnswerOutcome, AnswerProvenance, MAX_ANSWER_BYTES, PeopleAnswers, PersonAnswer, Question, Unanswered,
    answer_in_console, questions, waiting_for_people,
};
pub use start::{Start, start};
pub use verify::required_verification;

use crate::record::{Event, ExecutionSnapshot, NodeId, SnapshotRef};
use crate::snapshot_digest::NamedSnapshot;

/// What one call adds, atomically.
#[derive(Clone, Debug, PartialEq)]
pub struct Additions {
    /// The events of one append, in order.
    pub events: Vec<Event>,
    /// The new snapshots that the events refer to.
    pub snapshots: Vec<NewSnapshot>,
    /// The artifacts that are too large for an event.
    pub artifacts: Vec<NewArtifact>,
    /// The node that the reply is about.
    pub node_id: NodeId,
}

/// A snapshot to store before the append.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSnapshot {
    /// The complete snapshot with its reference.
    pub named: NamedSnapshot,
    /// The snapshot that it can be stored as a difference to.
    pub parent: Option<SnapshotRef>,
}

/// An artifact to store before the append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewArtifact {
    /// The digest of its canonical bytes.
    pub sha256: Digest,
    /// The canonical bytes.
    pub bytes: Vec<u8>,
}

impl NewSnapshot {
    fn new(snapshot: ExecutionSnapshot, parent: Option<SnapshotRef>) -> Self {
        Self { named: NamedSnapshot::new(snapshot), parent }
    }
}
