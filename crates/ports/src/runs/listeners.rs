//! Triggers: workflows whose runs are started by messages.

use flow::id::{Tenant, WorkflowId};

use super::ReadFuture;

/// Reads the state of triggers.
pub trait Listeners {
    /// The workflows of all tenants for which listening is on, ordered by tenant and id, after the given one.
    fn listening(
        &self,
        after: Option<(&Tenant, &WorkflowId)>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(Tenant, WorkflowId)>>;

    /// The position up to which a trigger has read its stream.
    fn listener_position(
        &self,
        tenant: &Tenant,
        workflow_id: &WorkflowId,
        consumer: &str,
    ) -> ReadFuture<'_, Option<String>>;
}
