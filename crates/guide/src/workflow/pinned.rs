//! A compiled workflow with its canonical bytes and their digest.
//!
//! Every start records the digest and makes sure that the store has the bytes. Both costs grow with the size
//! of the workflow, so they are computed once instead of at every start.

use std::ops::Deref;
use std::sync::Arc;

use canon::canonical;
use canon::digest::Digest;
use serde::{Serialize, Serializer};

use super::compiled::CompiledWorkflow;
use crate::record::WorkflowHash;

/// An immutable compiled workflow, which always matches its digest.
#[derive(Clone, Debug, PartialEq)]
pub struct PinnedWorkflow {
    workflow: Arc<CompiledWorkflow>,
    bytes: Vec<u8>,
    hash: WorkflowHash,
}

impl PinnedWorkflow {
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

    /// The digest of the bytes, always equal to [`CompiledWorkflow::hash`].
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
