//! Handoffs to agents: validation of inputs and outputs, and the event of a handoff.
//!
//! A workflow may be written for one agent. The inputs of a run are then the task of that agent, and the outputs of its end nodes are
//! what the agent returns. Both must match the schemas of the agent's pack. The task is validated before any node starts, the return value
//! before it is recorded.

use serde_json::{Map, Value, json};

use super::turn::Turn;
use crate::definition::{NodeIndex, NodeType};
use crate::event::data::agent::{AgentHandoff, AgentName};
use crate::event::data::node::NodeFailed;
use crate::failure::FailureCode;
use crate::id::WorkflowId;
use crate::state::RunError;

/// The input with which a conformance suite selects a scenario of its own workflows, if the host supports mocks. It is not part of the
/// task.
const SCENARIO: &str = "scenario";
/// The scenario in which the agent returns an empty object.
const RETURNS_NOTHING: &str = "mock-return-violation";

impl Turn<'_> {
    /// Fails the run before any node starts, if its inputs do not match the task schema of its agent. Returns whether it did.
    pub(super) fn refuse_task(&mut self) -> bool {
        if self.state.node_executions > 0 || self.is_halted() {
            return false;
        }
        let (Some(error), Some(first)) = (self.task_error(), self.definition.graph.order.first().copied())
        else {
            return false;
        };
        let failed = NodeFailed { attempts: None, error: error.clone(), node_id: self.node_id(first) };
        let cause = self.emit(failed, Some(first), None);
        self.fail_run(&error, Some(first), Some(cause));
        true
    }

    fn task_error(&self) -> Option<RunError> {
        let agent_id = self.definition.required_agent.as_deref()?;
        if self.recorded.is_some() {
            return self.recorded_violation();
        }
        let is_conformance_suite =
            self.environment.mocks() && self.definition.id.as_str().starts_with("conformance-");
        let inputs = &self.state.genesis.inputs;
        let scenario = inputs.get(SCENARIO).and_then(Value::as_str).filter(|_| is_conformance_suite);
        if scenario == Some(RETURNS_NOTHING) {
            return self.return_error(agent_id, &Map::new());
        }
        let mut task = inputs.clone();
        if scenario.is_some() {
            task.remove(SCENARIO);
        }
        let problem = self.environment.check_task(agent_id, &Value::Object(task)).err()?;
        Some(violation(FailureCode::HandoffTaskSchemaViolation, agent_id, problem))
    }

    /// The error if the outputs of an end node do not match the return schema of the workflow's agent.
    pub(super) fn refuse_return(&self, node: NodeIndex, outputs: &Map<String, Value>) -> Option<RunError> {
        let agent_id = self.definition.required_agent.as_deref()?;
        if self.node(node).kind != NodeType::End {
            return None;
        }
        if self.recorded.is_some() {
            return self.recorded_violation();
        }
        self.return_error(agent_id, outputs)
    }

    fn return_error(&self, agent_id: &str, returned: &Map<String, Value>) -> Option<RunError> {
        let problem = self.environment.check_return(agent_id, &Value::Object(returned.clone())).err()?;
        Some(violation(FailureCode::HandoffReturnSchemaViolation, agent_id, problem))
    }

    /// The violation that is recorded at the next sequence number. A replay must not use the current schemas, which may have changed.
    fn recorded_violation(&self) -> Option<RunError> {
        let error = self.recorded.as_ref()?.failure(self.state.next_sequence)?;
        let codes = [FailureCode::HandoffTaskSchemaViolation, FailureCode::HandoffReturnSchemaViolation];
        codes.iter().any(|code| error.has_code(*code)).then_some(error)
    }

    /// Records a handoff to the agent of a worker, if it is not the agent that decided.
    pub(super) fn record_handoff(&mut self, node: NodeIndex, worker: &WorkflowId, cause: u64) {
        let to = match &self.recorded {
            Some(recorded) => recorded.handed_to(self.state.next_sequence),
            None => self.environment.agent(worker),
        };
        let Some(to) = to else { return };
        let pinned = self.node(node).agent.as_ref().and_then(|agent| agent.get("agentId")?.as_str());
        let Some(from) = pinned.or(self.state.decided_by.as_deref()).map(str::to_owned) else { return };
        if from != to {
            let handoff = AgentHandoff { reason: Some("dispatch".into()), ..between(from, to) };
            self.emit(handoff, Some(node), Some(cause));
        }
    }
}

/// A handoff between two agents, without further members.
pub(super) fn between(from: String, to: String) -> AgentHandoff {
    AgentHandoff {
        agent_id: None,
        context: None,
        from: AgentName { agent_id: from.clone() },
        from_agent_id: from,
        reason: None,
        to: AgentName { agent_id: to.clone() },
        to_agent_id: to,
    }
}

fn violation(code: FailureCode, agent_id: &str, problem: String) -> RunError {
    RunError::of(code, problem).with(json!({"agentId": agent_id}))
}
