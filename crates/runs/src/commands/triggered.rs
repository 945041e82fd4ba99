//! Runs that messages start.
//!
//! The commit that creates the run also claims the message, or moves the position of the trigger past it. So after a crash, a
//! message either has no run and is delivered again, or has exactly one run and is recognized.

use std::sync::Arc;

use flow::definition::{Definition, MessageTrigger};
use flow::id::Principal;
use flow::options::check_inputs;
use flow::run::{Genesis, Triggered};
use ports::runs::{Change, CommitError};
use serde_json::{Map, Value, json};

use super::Commands;
use super::create::{new_run_id, problem_values};
use crate::definitions::listeners::Listener;
use crate::engine::BeginError;
use crate::records::random_failed;
use crate::{ApiCode, Caller, Direct, Refusal, Scope};

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

impl Commands {
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
        let _place = self.uses.records.admit()?;
        let Some(definition) =
            self.uses.definitions.newest_of(&listener.tenant, &listener.workflow_id).await?
        else {
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
        let extra = vec![claim, self.uses.records.audited(&caller, "run.create", &about)];
        match self.engine.begin(&definition, genesis, false, extra, &Direct, |_| ()).await {
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
            run_id: new_run_id(self.uses.records.now().0, None, self.uses.records.entropy())
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
            created_at: self.uses.records.now(),
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
