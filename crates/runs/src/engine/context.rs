//! What the engine queries during a decision: the workflows of the tenant and the agents of the host.
//!
//! The engine is synchronous, so the data is read before it decides. The workflows of sub-workflow nodes are in the definition. A
//! dispatch node gets the names of its workers at run time, so they are not known in advance. In that case the engine decides on a
//! copy of the state, the missing workflows are read, and the decision is repeated.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use executors::Executors;
use executors::agents::{Agents, NOT_INSTALLED};
use flow::definition::Definition;
use flow::engine::RunEnvironment;
use flow::id::{Tenant, WorkflowId};
use serde_json::Value;

use super::Uses;
use crate::Refusal;

/// The data for one decision.
pub(crate) struct EngineContext {
    uses: Arc<Uses>,
    tenant: Tenant,
    workers: HashMap<WorkflowId, Worker>,
    /// Whether the engine may query workflows that are not in `workers`.
    is_open: bool,
    missing: Mutex<BTreeSet<WorkflowId>>,
}

/// A workflow that a run may start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Worker {
    exists: bool,
    agent_id: Option<String>,
}

impl EngineContext {
    /// The context for decisions on the runs of a definition.
    pub(crate) async fn new(
        uses: &Arc<Uses>,
        tenant: &Tenant,
        definition: &Definition,
    ) -> Result<Self, Refusal> {
        let children = definition.child_workflows();
        let mut workers = HashMap::new();
        for workflow_id in children.named {
            let worker = worker(uses, tenant, &workflow_id).await?;
            workers.insert(workflow_id, worker);
        }
        Ok(Self { workers, is_open: children.are_chosen_later, ..Self::plain(uses, tenant) })
    }

    /// The context for a decision that starts no child.
    pub(super) fn plain(uses: &Arc<Uses>, tenant: &Tenant) -> Self {
        Self {
            uses: Arc::clone(uses),
            tenant: tenant.clone(),
            workers: HashMap::new(),
            is_open: false,
            missing: Mutex::default(),
        }
    }

    /// Whether a decision may have to be repeated, because the engine may query workflows that are not read yet.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Reads the workflows that the engine did not find in memory. Returns whether there were any; then the decision must be repeated.
    pub(crate) async fn learn(&mut self) -> Result<bool, Refusal> {
        let missing = std::mem::take(self.missing.get_mut().unwrap_or_else(PoisonError::into_inner));
        for workflow_id in &missing {
            let worker = worker(&self.uses, &self.tenant, workflow_id).await?;
            self.workers.insert(workflow_id.clone(), worker);
        }
        Ok(!missing.is_empty())
    }

    fn missing(&self, workflow_id: &WorkflowId) {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).insert(workflow_id.clone());
    }

    fn agents(&self) -> Option<&Agents> {
        self.uses.features.executors().and_then(Executors::agents)
    }
}

async fn worker(uses: &Uses, tenant: &Tenant, workflow_id: &WorkflowId) -> Result<Worker, Refusal> {
    match uses.definitions.newest_of(tenant, workflow_id).await {
        Ok(Some(definition)) => {
            Ok(Worker { exists: true, agent_id: definition.agent_id().map(str::to_owned) })
        }
        Ok(None) => Ok(Worker::default()),
        // A definition that this version cannot use still exists. Starting it fails with the reason.
        Err(_) => {
            let exists = uses.records.store().definition(tenant, workflow_id).await?.is_some();
            Ok(Worker { exists, agent_id: None })
        }
    }
}

impl RunEnvironment for EngineContext {
    fn exists(&self, workflow_id: &WorkflowId) -> bool {
        match self.workers.get(workflow_id) {
            Some(worker) => worker.exists,
            // This decision is discarded. With this answer, the engine also queries the other workers.
            None => {
                self.missing(workflow_id);
                true
            }
        }
    }

    fn agent(&self, workflow_id: &WorkflowId) -> Option<String> {
        match self.workers.get(workflow_id) {
            Some(worker) => worker.agent_id.clone(),
            None => {
                self.missing(workflow_id);
                None
            }
        }
    }

    fn converses(&self) -> bool {
        self.uses.features.capabilities().conversation
    }

    fn mocks(&self) -> bool {
        self.uses.features.capabilities().mock_agent
    }

    fn threshold(&self, agent_id: &str) -> Option<f64> {
        self.agents()?.threshold(agent_id)
    }

    fn check_task(&self, agent_id: &str, task: &Value) -> Result<(), String> {
        self.agents().ok_or(NOT_INSTALLED)?.check_task(agent_id, task)
    }

    fn check_return(&self, agent_id: &str, returned: &Value) -> Result<(), String> {
        self.agents().ok_or(NOT_INSTALLED)?.check_return(agent_id, returned)
    }
}
