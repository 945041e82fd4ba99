//! Workflow definitions.

use canon::digest::Digest;
use flow::id::{Tenant, WorkflowId};

use super::{Bytes, ReadFuture};

/// Reads workflow definitions.
pub trait Definitions {
    /// The newest definition of a workflow, with its digest.
    fn definition(
        &self,
        tenant: &Tenant,
        workflow_id: &WorkflowId,
    ) -> ReadFuture<'_, Option<(Digest, Bytes)>>;

    /// The definition with a digest. Runs are pinned to one.
    fn definition_by_digest(&self, digest: Digest) -> ReadFuture<'_, Option<Bytes>>;

    /// The newest definitions of a tenant, in the order of their ids, after the given one.
    fn definitions(
        &self,
        tenant: &Tenant,
        after: Option<&WorkflowId>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(WorkflowId, Digest)>>;

    /// The workflows of all tenants whose newest document contains one of these texts, ordered by tenant and id, after the
    /// given one. It reads every document, so it is for the start of a host and not for requests.
    fn workflows_containing(
        &self,
        texts: [&str; 2],
        after: Option<(&Tenant, &WorkflowId)>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(Tenant, WorkflowId)>>;
}
