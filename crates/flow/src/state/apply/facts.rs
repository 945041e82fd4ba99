//! What nodes leave behind: variables, channels, children, decisions, artifacts.

use serde_json::{Value, json};

use super::super::{Answer, Child, RunError, RunState};
use super::text;
use crate::channel::{self, ChannelState, Rules};
use crate::definition::channel::Reducer;
use crate::definition::{Definition, NodeIndex, NodeType};
use crate::engine::mapping;
use crate::event::{Event, EventKind};
use crate::id::{ArtifactId, RunId, WorkflowId};
use crate::run::RunStatus;

impl RunState {
    pub(super) fn apply_fact(&mut self, definition: &Definition, node: Option<NodeIndex>, event: &Event) {
        match &event.kind {
            EventKind::VariableChanged => {
                let Some(name) = text(event, "name") else { return };
                match event.payload.get("next") {
                    Some(next) => self.variables.insert(name.to_owned(), next.clone()),
                    None => self.variables.remove(name),
                };
            }
            EventKind::ChannelWritten => self.write(definition, node, event),
            EventKind::OrchestratorDecided => {
                self.decisions += 1;
                let decision = event.payload.get("decision").cloned().unwrap_or_default();
                self.last_decision = Some((decision, event.sequence));
                self.decided_by = text(event, "agentId").map(str::to_owned);
                if self.orchestrator.is_none() {
                    let pinned = node.and_then(|node| definition.nodes[node].agent.clone());
                    self.orchestrator =
                        pinned.or_else(|| Some(json!({"agentId": event.payload.get("agentId")})));
                }
            }
            EventKind::NodeDispatched => self.dispatch(definition, node, event),
            EventKind::DispatchFanOut => {
                if let Some(node) = node {
                    self.nodes[node].fan_out = Some(event.sequence);
                }
            }
            EventKind::WorkflowChainEvent => {
                let Some(run_id) = text(event, "childRunId") else { return };
                if let Some(place) = self.child_places.get(run_id) {
                    let child = &mut self.children[*place];
                    child.chain = event.sequence;
                    if let Some(error) = event.payload.get("error") {
                        child.error = Some(RunError::from_json(error));
                    }
                }
            }
            EventKind::ApprovalReceived
            | EventKind::ApprovalGranted
            | EventKind::ApprovalRejected
            | EventKind::ConversationExchanged
            | EventKind::LogAppended => self.rounds.add(&event.payload),
            EventKind::LoopbackLimit => self.schedule.exhausted = None,
            EventKind::ArtifactCreated => {
                if let Some(id) = text(event, "artifactId") {
                    self.artifacts.insert(ArtifactId::new(id), Value::Object(event.payload.clone()));
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, definition: &Definition, node: Option<NodeIndex>, event: &Event) {
        let (Some(name), Some(value)) = (text(event, "channel"), event.payload.get("value")) else { return };
        // The reducer is the one that the event names: it is what the writer counted on.
        let reducer = text(event, "reducer").and_then(Reducer::parse).unwrap_or(Reducer::Replace);
        let declared = definition.channels.get(name);
        let version = event.payload.get("schemaVersion").and_then(Value::as_u64);
        if let (Some(channel), Some(version)) = (declared, version)
            && !channel::is_readable(channel, version)
        {
            return;
        }
        let writer =
            node.map(|node| &definition.nodes[node]).filter(|node| node.kind == NodeType::ChannelWrite);
        let of_writer = writer.and_then(|node| node.config.get("ttlMs")).and_then(Value::as_u64);
        let rules = Rules {
            reducer: &reducer,
            max_size: declared.and_then(|channel| channel.max_size),
            ttl_ms: declared.and_then(|channel| channel.ttl_ms).or(of_writer),
        };
        let before = self.channels.remove(name);
        let size = before.as_ref().map_or(0, ChannelState::size);
        let after = ChannelState::write(before, value, event.timestamp, &rules);
        // `core.channelWrite` shows the channel as a variable too. Others do not begin to, for their channel may
        // be closed to those who read variables. Where it is shown they keep it up to date: no node can set a
        // variable that has the name of a declared channel.
        let mirror = match writer {
            Some(_) => Some(self.variables.entry(name).or_insert(Value::Null)),
            None => declared.and_then(|_| self.variables.get_mut(name)),
        };
        if let Some(mirror) = mirror {
            after.mirror(mirror, size, &reducer);
        }
        self.channels.insert(name.to_owned(), after);
    }

    fn dispatch(&mut self, definition: &Definition, node: Option<NodeIndex>, event: &Event) {
        let (Some(node), Some(run_id), Some(workflow_id)) =
            (node, text(event, "childRunId"), text(event, "childWorkflowId"))
        else {
            return;
        };
        if let Some(status) = text(event, "childStatus").and_then(RunStatus::parse) {
            let Some(place) = self.child_places.get(run_id).copied() else { return };
            let child = &mut self.children[place];
            child.status = status;
            if status.is_terminal() {
                child.ended = Some(self.children_ended);
                self.children_ended = self.children_ended.saturating_add(1);
            }
            return;
        }
        let (inputs, unset) = mapping::inputs(&definition.nodes[node], workflow_id, &self.variables);
        let config = &definition.nodes[node].config;
        let run_id = RunId::new(run_id);
        self.child_places.insert(run_id.clone(), self.children.len());
        self.nodes[node].children.push(self.children.len());
        if definition.nodes[node].kind == NodeType::Dispatch {
            self.workers = self.workers.saturating_add(1);
        }
        self.children.push(Child {
            run_id,
            workflow_id: WorkflowId::new(workflow_id),
            node_id: definition.nodes[node].id.clone(),
            iteration: self.nodes[node].iteration,
            attempt: self.nodes[node].attempt,
            inputs,
            unset,
            status: RunStatus::Running,
            cancelled_with_parent: config.get("propagateCancellation") != Some(&Value::Bool(false)),
            ended: None,
            error: None,
            dispatched: event.sequence,
            chain: event.sequence,
        });
        // The node went on with its answer.
        if matches!(self.nodes[node].answer, Answer::Given(_)) {
            self.nodes[node].answer = Answer::Taken;
        }
    }
}
