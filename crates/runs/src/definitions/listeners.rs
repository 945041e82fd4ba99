//! The triggers of workflows: which are enabled, and how far they have read their sources.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use canon::time::Timestamp;
use executors::Executors;
use flow::definition::{Definition, MessageTrigger, SourceKind, UnservedKind, UnservedTrigger};
use flow::id::{Tenant, WorkflowId};
use ports::Cause;
use ports::runs::{Change, CommitError};
use surfaces::queue::ReadFrom;
use surfaces::{Scope as SurfaceScope, Tenant as SurfaceTenant};
use tokio::sync::Notify;

use super::Definitions;
use crate::records::{MAX_LISTED, Records};
use crate::{ApiCode, Caller, Features, Refusal};

/// A trigger of a tenant's workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub tenant: Tenant,
    pub workflow_id: WorkflowId,
    /// The source and its options.
    pub trigger: MessageTrigger,
}

/// A trigger of an earlier version that is enabled and never fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentTrigger {
    pub tenant: Tenant,
    pub workflow_id: WorkflowId,
    pub trigger: UnservedTrigger,
}

/// The workflows whose triggers may have changed.
#[derive(Default)]
struct Changed {
    workflows: Mutex<BTreeSet<(Tenant, WorkflowId)>>,
    notify: Notify,
}

/// The triggers of all tenants.
pub struct Listeners {
    records: Arc<Records>,
    features: Arc<Features>,
    changed: Changed,
}

impl Listeners {
    pub(crate) fn new(records: Arc<Records>, features: Arc<Features>) -> Self {
        Self { records, features, changed: Changed::default() }
    }

    /// The workflows that were registered since the last call, as tenant and id. Waits until there is at least one.
    pub async fn registered(&self) -> BTreeSet<(Tenant, WorkflowId)> {
        loop {
            let notified = self.changed.notify.notified();
            tokio::pin!(notified);
            // Registered before the check, so that no registration in between is missed.
            notified.as_mut().enable();
            let changed = {
                let mut changed = self.changed.workflows.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *changed)
            };
            if !changed.is_empty() {
                return changed;
            }
            notified.await;
        }
    }

    /// Requests a check of the triggers of a workflow.
    pub fn notify_registered(&self, tenant: &Tenant, workflow_id: &WorkflowId) {
        let workflow = (tenant.to_owned(), workflow_id.to_owned());
        self.changed.workflows.lock().unwrap_or_else(PoisonError::into_inner).insert(workflow);
        self.changed.notify.notify_waiters();
    }

    /// Removes the claim of a message that was permanently removed from its queue.
    pub async fn forget_message(&self, tenant: &Tenant, message_id: &str) -> Result<(), Refusal> {
        let forget = Change::ForgetMessage { tenant: tenant.to_owned(), message_id: message_id.to_owned() };
        Ok(self.records.commit(vec![forget]).await?)
    }

    /// The position of a trigger in its stream.
    pub async fn position(&self, listener: &Listener) -> Result<Option<String>, Refusal> {
        let Listener { tenant, workflow_id, trigger } = listener;
        Ok(self.records.store().listener_position(tenant, workflow_id, &trigger.consumer).await?)
    }

    /// Moves the position of a trigger without starting a run. Returns whether the position was as expected by the change.
    pub async fn move_position(&self, moved: Change) -> Result<bool, Refusal> {
        match self.records.commit(vec![moved]).await {
            Ok(()) => Ok(true),
            Err(CommitError::ListenerMoved) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// A page of the workflows of all tenants that have enabled triggers, after the given one.
    pub async fn listening(
        &self,
        after: Option<&(Tenant, WorkflowId)>,
        limit: usize,
    ) -> Result<Vec<(Tenant, WorkflowId)>, Refusal> {
        let after = after.map(|(tenant, workflow_id)| (tenant, workflow_id));
        Ok(self.records.store().listening(after, limit).await?)
    }

    /// Commits a registration, with what its triggers need. A stream that is read from now on starts at the position of this commit.
    pub(super) async fn commit_definition(
        &self,
        tenant: &Tenant,
        definition: &Definition,
        changes: Vec<Change>,
    ) -> Result<(), CommitError> {
        loop {
            let mut all = changes.clone();
            all.push(Change::SetListening {
                tenant: tenant.to_owned(),
                workflow_id: definition.id.clone(),
                is_listening: definition.triggers.iter().any(|trigger| trigger.enabled),
            });
            all.extend(self.first_places(tenant, definition).await?);
            match self.records.commit(all).await {
                // A concurrent registration already recorded the position.
                Err(CommitError::ListenerMoved) => {}
                other => return other,
            }
        }
    }

    /// The initial positions of streams that are read from now on and have no position yet.
    async fn first_places(
        &self,
        tenant: &Tenant,
        definition: &Definition,
    ) -> Result<Vec<Change>, CommitError> {
        let Some(surfaces) = self.features.executors().and_then(Executors::surfaces) else {
            return Ok(Vec::new());
        };
        let now = definition.triggers.iter().filter(|trigger| trigger.enabled && !trigger.from_beginning);
        let mut places = Vec::new();
        for trigger in now.filter(|trigger| trigger.kind == SourceKind::Stream) {
            let known =
                self.records.store().listener_position(tenant, &definition.id, &trigger.consumer).await;
            if known.map_err(|error| CommitError::Store(Cause::new(error)))?.is_some() {
                continue;
            }
            let Ok(name) = SurfaceTenant::new(tenant.as_str()) else { continue };
            let scope = SurfaceScope::new(name, Timestamp(self.records.now().0));
            let end = surfaces.queue().stream_read(&scope, trigger.source.clone(), ReadFrom::Now, 1).await;
            // If the server does not respond, the trigger itself retries.
            if let Ok(end) = end {
                let moved = first_move(tenant, &definition.id, trigger, end.next);
                places.push(moved);
            }
        }
        Ok(places)
    }
}

impl Definitions {
    /// The enabled triggers of a workflow.
    pub async fn listeners_of(
        &self,
        tenant: &Tenant,
        workflow_id: &WorkflowId,
    ) -> Result<Vec<Listener>, Refusal> {
        let Some(definition) = self.newest_of(tenant, workflow_id).await? else { return Ok(Vec::new()) };
        let enabled = definition.triggers.iter().filter(|trigger| trigger.enabled);
        let listener = |trigger: &MessageTrigger| Listener {
            tenant: tenant.to_owned(),
            workflow_id: workflow_id.to_owned(),
            trigger: trigger.clone(),
        };
        Ok(enabled.map(listener).collect())
    }

    /// The enabled triggers of stored workflows that this host does not serve. New ones are refused; these were registered by earlier
    /// versions. Reads every document once.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn silent_triggers(&self) -> Result<Vec<SilentTrigger>, Refusal> {
        // As in a stored document: the type name is quoted.
        let kinds = UnservedKind::ALL.map(|kind| format!("\"{}\"", kind.as_str()));
        let (mut silent, mut after) = (Vec::new(), None::<(Tenant, WorkflowId)>);
        loop {
            let place = after.as_ref().map(|(tenant, workflow_id)| (tenant, workflow_id));
            let page =
                self.records.store().workflows_containing([&kinds[0], &kinds[1]], place, MAX_LISTED).await?;
            let Some(last) = page.last() else { return Ok(silent) };
            after = Some(last.clone());
            for (tenant, workflow_id) in page {
                let Some(definition) = self.newest_of(&tenant, &workflow_id).await? else { continue };
                let (tenant, workflow_id) = (&tenant, &workflow_id);
                silent.extend(definition.unserved_triggers.iter().map(|trigger| SilentTrigger {
                    tenant: tenant.clone(),
                    workflow_id: workflow_id.clone(),
                    trigger: trigger.clone(),
                }));
            }
        }
    }
}

/// Checks that the triggers of a workflow can be served for a tenant.
pub(super) fn check_listening(caller: &Caller, definition: &Definition) -> Result<(), Refusal> {
    if definition.triggers.is_empty() {
        return Ok(());
    }
    SurfaceTenant::new(caller.tenant.as_str()).map(drop).map_err(|error| {
        let message = format!("the workflow is not valid: /triggers: {}", error.message);
        Refusal::new(ApiCode::ValidationError, message)
    })
}

/// The change that sets the initial position of a trigger.
pub fn first_move(tenant: &Tenant, workflow_id: &WorkflowId, trigger: &MessageTrigger, to: String) -> Change {
    Change::MoveListener {
        tenant: tenant.to_owned(),
        workflow_id: workflow_id.to_owned(),
        consumer: trigger.consumer.clone(),
        from: None,
        to,
    }
}
