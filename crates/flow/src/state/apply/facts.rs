//! Applies events about variables, channels, child runs and decisions.

use canon::time::Timestamp;
use serde_json::{Value, json};

use super::super::{AnswerState, Child, RunState};
use crate::channel::{self, ChannelState, Rules};
use crate::definition::{Definition, NodeConfig, NodeIndex, NodeType};
use crate::engine::mapping;
use crate::event::Event;
use crate::event::data::agent::OrchestratorDecided;
use crate::event::data::dispatch::WorkflowChainEvent;
use crate::event::data::node::NodeDispatched;
use crate::event::data::value::{ChannelWritten, VariableChanged};
use crate::run::RunStatus;

impl RunState {
    pub(super) fn change(&mut self, changed: &VariableChanged) {
        match &changed.next {
            Some(next) => self.variables.insert(changed.name.clone(), next.clone()),
            None => self.variables.remove(&changed.name),
        };
    }

    pub(super) fn decide(
        &mut self,
        definition: &Definition,
        node: Option<NodeIndex>,
        decided: &OrchestratorDecided,
        sequence: u64,
    ) {
        self.decisions += 1;
        self.last_decision = Some((decided.decision.clone(), sequence));
        self.decided_by = Some(decided.agent_id.clone());
        if self.orchestrator.is_none() {
            let pinned = node.and_then(|node| definition.nodes[node].agent.clone());
            self.orchestrator = pinned.or_else(|| Some(json!({"agentId": decided.agent_id})));
        }
    }

    /// An event of the handoff to a child run.
    pub(super) fn hand_off(&mut self, chain: &WorkflowChainEvent, sequence: u64) {
        let index = chain.child_run_id.as_ref().and_then(|run_id| self.child_indexes.get(run_id));
        if let Some(index) = index {
            let child = &mut self.children[*index];
            child.chain = sequence;
            if let Some(error) = &chain.error {
                child.error = Some(error.clone());
            }
        }
    }

    pub(super) fn write(
        &mut self,
        definition: &Definition,
        node: Option<NodeIndex>,
        written: &ChannelWritten,
        at: Timestamp,
    ) {
        let (name, value) = (written.channel.as_str(), &written.value);
        // The reducer of the event applies: the writer relied on it, and the definition may have changed it.
        let reducer = &written.reducer;
        let declared = definition.channels.get(name);
        if let (Some(channel), Some(version)) = (declared, written.schema_version)
            && !channel::is_readable(channel, version)
        {
            return;
        }
        let writer =
            if let Some(NodeConfig::ChannelWrite(config)) = node.map(|node| &definition.nodes[node].config) {
                Some(config)
            } else {
                None
            };
        let ttl_of_writer = writer.and_then(|config| config.ttl_ms);
        let rules = Rules {
            reducer,
            max_size: declared.and_then(|channel| channel.max_size),
            ttl_ms: declared.and_then(|channel| channel.ttl_ms).or(ttl_of_writer),
        };
        let before = self.channels.remove(name);
        let size = before.as_ref().map_or(0, ChannelState::size);
        let after = ChannelState::write(before, value, at, &rules);
        // `core.channelWrite` also copies the channel to a variable. Other writers do not create this copy, because the channel
        // may have restricted readers. If the copy exists, every writer updates it. No node can set a variable that has the name
        // of a declared channel.
        let mirror = match writer {
            Some(_) => Some(self.variables.entry(name).or_insert(Value::Null)),
            None => declared.and_then(|_| self.variables.get_mut(name)),
        };
        if let Some(mirror) = mirror {
            after.mirror(mirror, size, reducer);
        }
        self.channels.insert(name.to_owned(), after);
    }

    pub(super) fn dispatch(
        &mut self,
        definition: &Definition,
        node: NodeIndex,
        dispatched: &NodeDispatched,
        event: &Event,
    ) {
        let (run_id, workflow_id) = (&dispatched.child_run_id, &dispatched.child_workflow_id);
        if let Some(status) = dispatched.child_status {
            let Some(index) = self.child_indexes.get(run_id).copied() else { return };
            let child = &mut self.children[index];
            child.status = status;
            if status.is_terminal() {
                child.ended = Some(self.children_ended);
                self.children_ended = self.children_ended.saturating_add(1);
            }
            return;
        }
        let (inputs, unset) = mapping::inputs(&definition.nodes[node], workflow_id.as_str(), &self.variables);
        self.child_indexes.insert(run_id.clone(), self.children.len());
        self.nodes[node].children.push(self.children.len());
        if definition.nodes[node].kind == NodeType::Dispatch {
            self.workers = self.workers.saturating_add(1);
        }
        self.children.push(Child {
            run_id: run_id.clone(),
            workflow_id: workflow_id.clone(),
            node_id: definition.nodes[node].id.clone(),
            iteration: self.nodes[node].iteration,
            attempt: self.nodes[node].attempt,
            inputs,
            unset,
            status: RunStatus::Running,
            cancelled_with_parent: definition.nodes[node]
                .config
                .child_starter()
                .is_none_or(|starter| starter.propagates_cancellation()),
            ended: None,
            error: None,
            dispatched: event.sequence,
            chain: event.sequence,
        });
        // The node continued with its answer.
        if matches!(self.nodes[node].answer, AnswerState::Given(_)) {
            self.nodes[node].answer = AnswerState::Taken;
        }
    }
}
