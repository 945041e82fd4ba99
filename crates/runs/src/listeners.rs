//! Triggers: runs that messages start.
//!
//! The commit that creates the run also claims the message, or moves the position of the trigger past it. So after a crash, a
//! message either has no run and is delivered again, or has exactly one run and is recognized.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use canon::time::Timestamp;
use executors::Executors;
use flow::definition::{Definition, MessageTrigger, SourceKind, UnservedKind, UnservedTrigger};
use flow::id::{Principal, Tenant, WorkflowId};
use flow::options::check_inputs;
use flow::run::{Genesis, Triggered};
use ports::Cause;
use ports::runs::{Change, CommitError};
use serde_json::{Map, Value, json};
use surfaces::queue::ReadFrom;
use surfaces::{Scope as SurfaceScope, Tenant as SurfaceTenant};
use tokio::sync::Notify;

use super::create::{BeginError, problem_values};
use super::read::MAX_LISTED;
use super::{ApiCode, Caller, Direct, Refusal, Runs, Scope, new_run_id, random_failed};

/// A trigger of a tenant's workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub tenant: Tenant,
    pub workflow_id: WorkflowId,
    /// The source and its options.
    pub trigger: MessageTrigger,
}

/// What happened to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// The message started a run.
    Now,
    /// The message started a run earlier, or the trigger has already read past it.
    Before,
    /// The workflow no longer has this trigger.
    Unwanted,
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
pub(super) struct Changed {
    workflows: Mutex<BTreeSet<(Tenant, WorkflowId)>>,
    notify: Notify,
}

impl Runs {
    /// The workflows that were registered since the last call, as tenant and id. Waits until there is at least one.
    pub async fn registered(&self) -> BTreeSet<(Tenant, WorkflowId)> {
        loop {
            let notified = self.inner.listeners.notify.notified();
            tokio::pin!(notified);
            // Registered before the check, so that no registration in between is missed.
            notified.as_mut().enable();
            let changed = {
                let mut changed =
                    self.inner.listeners.workflows.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.inner.listeners.workflows.lock().unwrap_or_else(PoisonError::into_inner).insert(workflow);
        self.inner.listeners.notify.notify_waiters();
    }

    /// The enabled triggers of a workflow.
    pub async fn listeners(
        &self,
        tenant: &Tenant,
        workflow_id: &WorkflowId,
    ) -> Result<Vec<Listener>, Refusal> {
        let Some(definition) = self.definition(tenant, workflow_id).await? else { return Ok(Vec::new()) };
        let enabled = definition.triggers.iter().filter(|trigger| trigger.enabled);
        let listener = |trigger: &MessageTrigger| Listener {
            tenant: tenant.to_owned(),
            workflow_id: workflow_id.to_owned(),
            trigger: trigger.clone(),
        };
        Ok(enabled.map(listener).collect())
    }

    /// Starts the run of a message. For a stream, `moved` is the change that moves the position. A message of a queue is claimed.
    ///
    /// # Errors
    /// If the run is refused, or the host cannot create it now.
    pub async fn start_by_message(
        &self,
        listener: &Listener,
        message_id: &str,
        payload: &Value,
        moved: Option<Change>,
    ) -> Result<Started, Refusal> {
        let _place = self.inner.records.admit()?;
        let Some(definition) = self.definition(&listener.tenant, &listener.workflow_id).await? else {
            return Ok(Started::Unwanted);
        };
        // The current definition counts, which may have changed since the message was delivered.
        let Some(trigger) = definition.triggers.iter().find(|trigger| listens(trigger, &listener.trigger))
        else {
            return Ok(Started::Unwanted);
        };
        let caller = caller(listener);
        let genesis = self.triggered(&caller, &definition, trigger, message_id, payload)?;
        let run_id = genesis.run_id.clone();
        let about = json!({"runId": run_id, "workflowId": definition.id, "triggerId": trigger.id, "messageId": message_id});
        let claim = moved.unwrap_or_else(|| Change::ClaimMessage {
            tenant: listener.tenant.clone(),
            message_id: message_id.to_owned(),
            run_id,
        });
        let extra = vec![claim, self.inner.records.audited(&caller, "run.create", &about)];
        match self.begin(&definition, genesis, false, extra, &Direct, |_| ()).await {
            Ok(()) => Ok(Started::Now),
            Err(BeginError::Commit(CommitError::MessageClaimed | CommitError::ListenerMoved)) => {
                Ok(Started::Before)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The genesis of a run that a message starts.
    fn triggered(
        &self,
        caller: &Caller,
        definition: &Arc<Definition>,
        trigger: &MessageTrigger,
        message_id: &str,
        payload: &Value,
    ) -> Result<Genesis, Refusal> {
        let data = trigger.data(message_id, payload.clone());
        let inputs = trigger.inputs(definition, &data);
        let mut problems = Vec::new();
        check_inputs(definition, &inputs, &mut problems);
        if let Some(first) = problems.first() {
            let refusal = Refusal::new(ApiCode::ValidationError, first.to_string());
            return Err(refusal.detail("fields", problem_values(&problems)));
        }
        Ok(Genesis {
            run_id: new_run_id(self.inner.records.now().0, None, self.inner.records.entropy())
                .map_err(random_failed)?,
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
            workflow_id: definition.id.clone(),
            definition: definition.digest,
            scope_id: None,
            inputs,
            configurable: Map::new(),
            tags: Vec::new(),
            metadata: Map::new(),
            callback_url: None,
            parent: None,
            fork: None,
            created_at: self.inner.records.now(),
            forced_engine_version: None,
            test: false,
            trace: None,
            trigger: Some(Triggered {
                trigger_id: trigger.id.clone(),
                event_type: trigger.kind.event_type().to_owned(),
                source: trigger.source.clone(),
                message_id: message_id.to_owned(),
                node_id: trigger.node_id.clone(),
                // Only that node reads the data.
                data: if trigger.node_id.is_some() { data } else { Map::new() },
            }),
        })
    }

    /// Removes the claim of a message that was permanently removed from its queue.
    pub async fn forget_message(&self, tenant: &Tenant, message_id: &str) -> Result<(), Refusal> {
        let forget = Change::ForgetMessage { tenant: tenant.to_owned(), message_id: message_id.to_owned() };
        Ok(self.inner.records.commit(vec![forget]).await?)
    }

    /// The position of a trigger in its stream.
    pub async fn listener_position(&self, listener: &Listener) -> Result<Option<String>, Refusal> {
        let Listener { tenant, workflow_id, trigger } = listener;
        Ok(self.inner.records.store().listener_position(tenant, workflow_id, &trigger.consumer).await?)
    }

    /// Moves the position of a trigger without starting a run. Returns whether the position was as expected by the change.
    pub async fn move_listener(&self, moved: Change) -> Result<bool, Refusal> {
        match self.inner.records.commit(vec![moved]).await {
            Ok(()) => Ok(true),
            Err(CommitError::ListenerMoved) => Ok(false),
            Err(error) => Err(error.into()),
        }
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
            let page = self
                .inner
                .records
                .store()
                .workflows_containing([&kinds[0], &kinds[1]], place, MAX_LISTED)
                .await?;
            let Some(last) = page.last() else { return Ok(silent) };
            after = Some(last.clone());
            for (tenant, workflow_id) in page {
                let Some(definition) = self.definition(&tenant, &workflow_id).await? else { continue };
                let (tenant, workflow_id) = (&tenant, &workflow_id);
                silent.extend(definition.unserved_triggers.iter().map(|trigger| SilentTrigger {
                    tenant: tenant.clone(),
                    workflow_id: workflow_id.clone(),
                    trigger: trigger.clone(),
                }));
            }
        }
    }

    /// A page of the workflows of all tenants that have enabled triggers, after the given one.
    pub async fn listening(
        &self,
        after: Option<&(Tenant, WorkflowId)>,
        limit: usize,
    ) -> Result<Vec<(Tenant, WorkflowId)>, Refusal> {
        let after = after.map(|(tenant, workflow_id)| (tenant, workflow_id));
        Ok(self.inner.records.store().listening(after, limit).await?)
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
            match self.inner.records.commit(all).await {
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
        let Some(surfaces) = self.inner.features.executors().and_then(Executors::surfaces) else {
            return Ok(Vec::new());
        };
        let now = definition.triggers.iter().filter(|trigger| trigger.enabled && !trigger.from_beginning);
        let mut places = Vec::new();
        for trigger in now.filter(|trigger| trigger.kind == SourceKind::Stream) {
            let known =
                self.inner.records.store().listener_position(tenant, &definition.id, &trigger.consumer).await;
            if known.map_err(|error| CommitError::Store(Cause::new(error)))?.is_some() {
                continue;
            }
            let Ok(name) = SurfaceTenant::new(tenant.as_str()) else { continue };
            let scope = SurfaceScope::new(name, Timestamp(self.inner.records.now().0));
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

/// Whether a trigger is the one that a message was delivered to.
fn listens(trigger: &MessageTrigger, to: &MessageTrigger) -> bool {
    trigger.enabled
        && (trigger.kind, &trigger.id, &trigger.source, &trigger.consumer)
            == (to.kind, &to.id, &to.source, &to.consumer)
}

/// The caller that creates the runs of a trigger.
fn caller(listener: &Listener) -> Caller {
    Caller {
        tenant: listener.tenant.clone(),
        principal: Principal::new(format!("trigger:{}", listener.trigger.id)),
        scopes: vec![Scope::RunsCreate],
        test: false,
    }
}
