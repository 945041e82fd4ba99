//! A compiled workflow as runs are pinned to it: with its canonical bytes and their digest.
//!
//! Every start records the digest and makes sure that the store has the bytes. Both cost as much as the
//! workflow is large, so they are computed once, and not at every start.

use std::ops::Deref;
use std::sync::Arc;

use canon::canonical;
use canon::digest::Digest;
use serde::{Serialize, Serializer};

use super::compiled::CompiledWorkflow;
use crate::record::WorkflowHash;

/// A compiled workflow that cannot change any more, and so cannot disagree with its digest.
#[derive(Clone, Debug, PartialEq)]
pub struct PinnedWorkflow {
    workflow: Arc<CompiledWorkflow>,
    bytes: Vec<u8>,
    hash: WorkflowHash,
}

impl PinnedWorkflow {
    /// Pins a workflow.
    pub fn new(workflow: CompiledWorkflow) -> Self {
        let bytes =
            canonical::to_vec(&workflow).expect("a compiled workflow is bounded, and its integers are small");
        Self { workflow: Arc::new(workflow), hash: Digest::of_bytes(&bytes), bytes }
    }

    pub const fn workflow(&self) -> &Arc<CompiledWorkflow> {
        &self.workflow
    }

    /// Its canonical JSON.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The digest of those bytes, always what [`CompiledWorkflow::hash`] gives.
    pub const fn hash(&self) -> WorkflowHash {
        self.hash
    }
}

impl Deref for PinnedWorkflow {
    type Target = CompiledWorkflow;

    fn deref(&self) -> &CompiledWorkflow {
        &self.workflow
    }
}

impl Serialize for PinnedWorkflow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.workflow.serialize(serializer)
    }
}
