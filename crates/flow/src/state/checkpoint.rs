//! Checkpoints: the serialized state of a run, so that a long log need not be folded from its first event.
//!
//! A checkpoint is a cache. The log is authoritative: an invalid checkpoint is ignored, and the complete log is folded. A checkpoint is valid
//! only for the program version that wrote it ([`VERSION`]), one run and one definition, and its digest detects damage.
//!
//! ```text
//! {"version":…,"runId":…,"definition":…,"sequence":…,"digest":…}\n
//! {…the state…}
//! ```

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::sync::Arc;

use canon::digest::Digest;
use canon::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Child, Draining, Interrupt, NodeState, RunError, RunState, schedule};
use crate::channel::ChannelState;
use crate::definition::Definition;
use crate::engine::DrainPolicy;
use crate::engine::bounds::Rounds;
use crate::event::data::value::ArtifactCreated;
use crate::id::{ArtifactId, NodeId, RunId};
use crate::run::{RunStatus, SharedGenesis};

/// The version of the format and the release. Another release may fold the same log to a different state, so it ignores the checkpoint.
/// Within a release, change the number whenever the state or its fold changes; `tests/golden/checkpoint.txt` detects such changes.
pub const VERSION: &str = concat!("1/", env!("CARGO_PKG_VERSION"));

/// Why a checkpoint is invalid. The caller then folds the complete log.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("the checkpoint is of version `{found}`; this program reads `{VERSION}`")]
    Version { found: String },
    #[error("the checkpoint belongs to another run or definition")]
    Foreign,
    #[error("the checkpoint does not match its digest")]
    Damaged,
    #[error("the checkpoint cannot be parsed")]
    Malformed(#[from] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    version: Cow<'a, str>,
    run_id: Cow<'a, RunId>,
    definition: Digest,
    /// The sequence number of the first event that is not in the state.
    sequence: u64,
    /// The digest of the state's bytes.
    digest: Digest,
}

/// Lists every member of [`RunState`], except those that come from the run and the definition. A new member of the state must be added here to compile.
macro_rules! checkpointed {
    ($($(#[$meta:meta])* $member:ident: $type:ty,)+) => {
        #[derive(Serialize)]
        struct Saved<'s> {
            $($(#[$meta])* $member: &'s $type,)+
        }

        #[derive(Deserialize)]
        struct Restored {
            $($(#[$meta])* $member: $type,)+
        }

        impl RunState {
            const fn saved(&self) -> Saved<'_> {
                let Self { genesis: _, node_indexes: _, $($member,)+ } = self;
                Saved { $($member,)+ }
            }

            fn restored(definition: &Definition, genesis: SharedGenesis, restored: Restored) -> Self {
                let Restored { $($member,)+ } = restored;
                Self { genesis, node_indexes: Arc::clone(&definition.node_indexes), $($member,)+ }
            }
        }
    };
}

checkpointed! {
    next_sequence: u64,
    status: RunStatus,
    nodes: Vec<NodeState>,
    variables: Map<String, Value>,
    channels: BTreeMap<String, ChannelState>,
    interrupts: BTreeMap<NodeId, Interrupt>,
    children: Vec<Child>,
    node_executions: u64,
    decisions: u64,
    last_decision: Option<(Value, u64)>,
    decided_by: Option<String>,
    workers: u64,
    questions: u32,
    rounds: Rounds,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    paused: Option<(Timestamp, DrainPolicy)>,
    paused_ms: u64,
    draining: Option<Draining>,
    waiting_since: Option<Timestamp>,
    waited_ms: u64,
    error: Option<RunError>,
    #[serde(with = "nullable")]
    agent: Option<Value>,
    #[serde(with = "nullable")]
    orchestrator: Option<Value>,
    artifacts: BTreeMap<ArtifactId, ArtifactCreated>,
    #[serde(with = "nullable")]
    cost: Option<Value>,
    last_event_at: Option<Timestamp>,
    bytes: u64,
    schedule: schedule::Schedule,
    #[serde(rename = "child_places")]
    child_indexes: BTreeMap<RunId, usize>,
    children_ended: u32,
}

impl RunState {
    /// Serializes the state, for [`RunState::restore`].
    pub fn checkpoint(&self) -> Vec<u8> {
        let state = serde_json::to_vec(&self.saved()).expect("all keys are strings");
        let header = Header {
            version: VERSION.into(),
            run_id: Cow::Borrowed(&self.genesis.run_id),
            definition: self.genesis.definition,
            sequence: self.next_sequence,
            digest: Digest::of_bytes(&state),
        };
        let mut bytes = serde_json::to_vec(&header).expect("all keys are strings");
        bytes.push(b'\n');
        bytes.extend(state);
        bytes
    }

    /// Restores the state from a checkpoint. The caller then applies the events from its `next_sequence` on.
    ///
    /// # Errors
    /// The checkpoint belongs to another version, run or definition, or is damaged.
    pub fn restore(
        definition: &Definition,
        genesis: SharedGenesis,
        checkpoint: &[u8],
    ) -> Result<Self, CheckpointError> {
        let end = checkpoint.iter().position(|byte| *byte == b'\n').ok_or(CheckpointError::Damaged)?;
        let (header, state) = (&checkpoint[..end], &checkpoint[end + 1..]);
        let header: Header<'_> = serde_json::from_slice(header)?;
        if header.version != VERSION {
            return Err(CheckpointError::Version { found: header.version.into_owned() });
        }
        if *header.run_id != genesis.run_id
            || header.definition != genesis.definition
            || header.definition != definition.digest
        {
            return Err(CheckpointError::Foreign);
        }
        if header.digest != Digest::of_bytes(state) {
            return Err(CheckpointError::Damaged);
        }
        let state = Self::restored(definition, genesis, serde_json::from_slice(state)?);
        if state.next_sequence != header.sequence || !state.fits(definition) {
            return Err(CheckpointError::Damaged);
        }
        Ok(state)
    }

    fn fits(&self, definition: &Definition) -> bool {
        self.nodes.len() == definition.nodes.len() && self.schedule.fits(definition)
    }
}

/// Distinguishes the value `null` from a missing value.
pub(super) mod nullable {
    use super::{Borrow, Deserialize, Deserializer, Serialize, Serializer, Value};

    pub(in super::super) fn serialize<S: Serializer>(
        value: &impl Borrow<Option<Value>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.borrow().as_slice().serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Value>, D::Error> {
        Vec::deserialize(deserializer).map(|mut values: Vec<Value>| values.pop())
    }
}
