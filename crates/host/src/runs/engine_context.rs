//! What is around a run while it is decided on: the workflows of its tenant, and the agents of the host.

use flow::engine::Children;
use flow::id::{Tenant, WorkflowId};
use serde_json::Value;

use super::Runs;
use crate::executors::Executors;
use crate::executors::agents::Agents;

/// What is around the runs of a tenant.
pub(super) struct EngineContext {
    pub(super) runs: Runs,
    pub(super) tenant: Tenant,
}

impl EngineContext {
    fn agents(&self) -> Option<&Agents> {
        self.runs.executors().and_then(Executors::agents)
    }
}

impl Children for EngineContext {
    fn exists(&self, workflow_id: &WorkflowId) -> bool {
        matches!(self.runs.store().definition(&self.tenant, workflow_id), Ok(Some(_)))
    }

    fn agent(&self, workflow_id: &WorkflowId) -> Option<String> {
        let definition = self.runs.definition(&self.tenant, workflow_id).ok()??;
        definition.agent_id().map(str::to_owned)
    }

    fn converses(&self) -> bool {
        self.runs.capabilities().conversation
    }

    fn mocks(&self) -> bool {
        self.runs.capabilities().mock_agent
    }

    fn threshold(&self, agent_id: &str) -> Option<f64> {
        self.agents()?.threshold(agent_id)
    }

    fn check_task(&self, agent_id: &str, task: &Value) -> Result<(), String> {
        self.agents().map_or(Ok(()), |agents| agents.check_task(agent_id, task))
    }

    fn check_return(&self, agent_id: &str, returned: &Value) -> Result<(), String> {
        self.agents().map_or(Ok(()), |agents| agents.check_return(agent_id, returned))
    }
}
