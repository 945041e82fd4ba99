//! Registered workflows for display, validated against what this host can run now.

use std::sync::Arc;

use canon::digest::Digest;
use canon::json;
use flow::definition::{Definition, Problem};
use flow::id::WorkflowId;
use ports::runs::Bytes;

use super::{Definitions, limits, no_workflow};
use crate::{Caller, Refusal};

/// A workflow, and whether this host can run it.
#[derive(Clone, Debug)]
pub struct WorkflowLook {
    pub id: WorkflowId,
    /// The digest of its document. New runs are pinned to it.
    pub digest: Digest,
    /// The document, as it was registered.
    pub document: Bytes,
    /// The validated workflow, or all problems. It was valid when it was registered, perhaps by another version of this
    /// program.
    pub checked: Result<Arc<Definition>, Vec<Problem>>,
}

impl Definitions {
    /// A workflow of the caller's tenant, validated again.
    ///
    /// # Errors
    /// If the tenant has no workflow with that id, or the store cannot be read.
    pub async fn look(&self, caller: &Caller, workflow_id: &WorkflowId) -> Result<WorkflowLook, Refusal> {
        let found = self.records.store().definition(&caller.tenant, workflow_id).await?;
        let (digest, document) = found.ok_or_else(no_workflow)?;
        let checked = match self.remembered(digest) {
            Some(definition) => Ok(definition),
            None => match json::read(&document, &limits()) {
                Ok(value) => {
                    let limit = self.features.limits().max_pattern_bytes;
                    Definition::check_within(&value, &self.features.capabilities(), limit).map(Arc::new)
                }
                Err(error) => Err(vec![Problem::at("", error.to_string())]),
            },
        };
        if let Ok(definition) = &checked {
            self.remember(definition);
        }
        Ok(WorkflowLook { id: workflow_id.to_owned(), digest, document, checked })
    }
}
