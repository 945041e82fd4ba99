//! Decisions: from recorded facts to new facts.
//!
//! [`start`], [`advance`] and [`checkpoint`] are pure. They look at the folded log, the pinned
//! workflow and the snapshot of the node, and give back the events of one append, the snapshots and
//! the artifacts that it needs. Whoever calls them has looked for the call in the log first: a call
//! that is recorded is answered from there and never decided again.

mod advance;
mod answers;
mod checkpoint;
pub mod context;
mod error;
mod evidence;
mod ledger;
mod mend;
mod notes;
mod people;
mod reasons;
mod start;
mod verify;

use canon::digest::Digest;

pub use advance::{Advance, Output, advance};
pub use checkpoint::{Checkpoint, checkpoint};
pub use error::{EngineError, EngineErrorCode};
pub use notes::{WHOLE_NOTES_KIND, cut_words, stored_whole_words};
pub use people::{
    AnswerOutcome, AnswerProvenance, FromPeople, MAX_ANSWER_BYTES, PersonAnswer, Question, Unanswered,
    answer_in_console, questions, waiting_for_people,
};
pub use start::{Start, start};
pub use verify::verification_wanted;

use crate::record::{Event, ExecutionSnapshot, NodeId, SnapshotRef};
use crate::snapshot_digest::NamedSnapshot;

/// What one call adds: all of it, or nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Additions {
    /// The events of one append, in order.
    pub events: Vec<Event>,
    /// The snapshots that they pin.
    pub snapshots: Vec<NewSnapshot>,
    /// The artifacts that are too large for an event.
    pub artifacts: Vec<NewArtifact>,
    /// The node that the reply is about.
    pub node_id: NodeId,
}

/// A snapshot to be stored before the append.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSnapshot {
    /// The snapshot, whole, with its identity.
    pub named: NamedSnapshot,
    /// The snapshot that it can be stored as a difference to.
    pub parent: Option<SnapshotRef>,
}

/// An artifact to be stored before the append.
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
