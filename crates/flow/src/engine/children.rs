//! Child runs: how they start, and what follows from their end.

use serde_json::{Map, Value, json};

use super::drain::Step;
use super::limits::MAX_CHILD_DEPTH;
use super::nodes::{dispatch, sub_workflow};
use super::turn::Turn;
use super::{Effect, StartChild, ids, mapping};
use crate::definition::NodeIndex;
use crate::definition::config::ChildStarter;
use crate::event::data::node::NodeDispatched;
use crate::event::{EventData, event_id};
use crate::failure::FailureCode;
use crate::id::{RunId, WorkflowId};
use crate::run::{Parent, RunStatus};
use crate::state::{Child, NodeStatus, RunError};

impl Turn<'_> {
    /// The indexes of the children of the current attempt of a node.
    pub(super) fn own_children(&self, node: NodeIndex) -> Vec<usize> {
        self.state.nodes[node].children.clone()
    }

    /// Why a child of that workflow cannot be started.
    pub(super) fn refuse_child(&self, workflow_id: &WorkflowId) -> Option<RunError> {
        let exists = match &self.recorded {
            Some(recorded) => recorded.started(workflow_id),
            None => self.environment.exists(workflow_id),
        };
        if self.is_past_recording() {
            return Some(replay_source_missing());
        }
        // Refused before an event names the child: callers can read every run that an event names.
        if self.recorded.is_none() && self.depth_of_children() > MAX_CHILD_DEPTH {
            let message = format!(
                "child runs are limited to {MAX_CHILD_DEPTH} levels; check whether a workflow starts itself"
            );
            return Some(RunError::of(FailureCode::RecursionLimitExceeded, message));
        }
        (!exists).then(|| {
            RunError::of(FailureCode::UnknownChildWorkflow, "the workflow of the child run does not exist")
        })
    }

    fn depth_of_children(&self) -> u32 {
        self.state.genesis.parent.as_ref().map_or(0, |above| above.depth).saturating_add(1)
    }

    pub(super) fn start_child(
        &mut self,
        node: NodeIndex,
        workflow_id: &WorkflowId,
        cause: Option<u64>,
    ) -> usize {
        let state = &self.state.nodes[node];
        let recorded = match self.recorded_data() {
            Some(EventData::NodeDispatched(dispatched)) => Some(dispatched.child_run_id.clone()),
            _ => None,
        };
        let run_id = recorded.unwrap_or_else(|| {
            let index = state.children.len();
            let parent = &self.state.genesis.run_id;
            ids::child_run_id(parent, &self.node(node).id, state.iteration, state.attempt, index)
        });
        let dispatched = NodeDispatched {
            child_run_id: run_id,
            child_status: None,
            child_workflow_id: workflow_id.clone(),
        };
        self.emit(dispatched, Some(node), cause);
        let index = self.state.children.len() - 1;
        self.request_child(node, index);
        index
    }

    fn request_child(&mut self, node: NodeIndex, index: usize) {
        let (run_id, child) = (&self.state.genesis.run_id, &self.state.children[index]);
        let effect = StartChild {
            run_id: child.run_id.clone(),
            workflow_id: child.workflow_id.clone(),
            inputs: child.inputs.clone(),
            parent: Parent {
                run_id: run_id.clone(),
                node_id: child.node_id.clone(),
                causation_id: event_id(run_id, child.dispatched),
                type_id: self.node(node).type_id().to_owned(),
                unset: child.unset.clone(),
                cancelled_with_parent: child.cancelled_with_parent,
                depth: self.depth_of_children(),
                iteration: child.iteration,
                attempt: child.attempt,
            },
        };
        self.ask_host(Effect::StartChild(effect));
    }

    /// Requests the children again whose end is not recorded.
    pub(super) fn request_children_again(&mut self, node: NodeIndex) {
        let own = self.own_children(node);
        let open: Vec<usize> =
            own.iter().copied().filter(|index| self.state.children[*index].ended.is_none()).collect();
        if !open.is_empty() && self.is_past_recording() {
            self.settle(node, Step::failed(replay_source_missing()), None);
            return;
        }
        for index in &open {
            self.request_child(node, *index);
        }
        let (true, Some(last)) = (open.is_empty(), own.last()) else { return };
        let step = match self.node(node).config.child_starter() {
            Some(ChildStarter::SubWorkflow(config)) => sub_workflow::ended(self, config, *last),
            Some(ChildStarter::Dispatch(config)) => dispatch::advance(self, node, config),
            None => return,
        };
        self.settle(node, step, None);
    }

    /// A child run starts to wait for a person, or continues.
    pub(super) fn child_waits(&mut self, run_id: &RunId, status: RunStatus) {
        let Some(index) = self.state.child_index(run_id) else { return };
        let child = &self.state.children[index];
        let has_changed = child.ended.is_none()
            && child.status != status
            && (status.is_waiting() || status == RunStatus::Running);
        let Some(node) = self.state.node_index(&child.node_id).filter(|_| has_changed) else { return };
        let state = &self.state.nodes[node];
        let awaited = state.status == NodeStatus::Running
            && (child.iteration, child.attempt) == (state.iteration, state.attempt);
        if !awaited || self.is_halted() {
            return;
        }
        self.record_child_status(node, index, status);
    }

    pub(super) fn child_ended(
        &mut self,
        run_id: &RunId,
        status: RunStatus,
        variables: &Map<String, Value>,
        error: Option<RunError>,
    ) {
        let Some(index) = self.state.child_index(run_id) else { return };
        let child = &self.state.children[index];
        let Some(node) = self.state.node_index(&child.node_id) else { return };
        let state = &self.state.nodes[node];
        let awaited = child.ended.is_none()
            && status.is_terminal()
            && state.status == NodeStatus::Running
            && (child.iteration, child.attempt) == (state.iteration, state.attempt);
        if !awaited || !self.may_end(node) {
            return;
        }
        let Some(starter) = self.node(node).config.child_starter() else { return };
        self.record_child_status(node, index, status);
        let step = match starter {
            ChildStarter::Dispatch(config) => {
                dispatch::child_ended(self, node, index, variables, error);
                dispatch::advance(self, node, config)
            }
            ChildStarter::SubWorkflow(config) => {
                self.harvest(node, index, variables);
                sub_workflow::ended_with(self, config, index, error)
            }
        };
        self.settle(node, step, None);
        self.drain();
    }

    /// Records the status of a child run.
    pub(super) fn record_child_status(&mut self, node: NodeIndex, index: usize, status: RunStatus) {
        let child = &self.state.children[index];
        let dispatched = NodeDispatched {
            child_run_id: child.run_id.clone(),
            child_status: Some(status),
            child_workflow_id: child.workflow_id.clone(),
        };
        let cause = Some(child.dispatched);
        self.emit(dispatched, Some(node), cause);
    }

    /// Copies mapped variables of a completed child to the parent. Returns their names. A child that did not complete has no outputs.
    pub(super) fn harvest(
        &mut self,
        node: NodeIndex,
        index: usize,
        variables: &Map<String, Value>,
    ) -> Vec<String> {
        let child = &self.state.children[index];
        if child.status != RunStatus::Completed {
            return Vec::new();
        }
        let cause = Some(child.chain);
        let mut names = Vec::new();
        for (name, from) in mapping::outputs(self.node(node), child.workflow_id.clone().as_str()) {
            if let Some(value) = variables.get(from) {
                self.set_variable(Some(node), name, value, cause);
                names.push(name.to_owned());
            }
        }
        names
    }
}

/// The error of a replay that would need an effect.
pub(super) fn replay_source_missing() -> RunError {
    RunError::of(
        FailureCode::ReplaySourceMissing,
        "the source run of this replay has no recorded result for this effect",
    )
}

/// The error of a node whose child did not complete.
pub(super) fn child_failed(child: &Child, error: Option<&RunError>) -> RunError {
    let mut details = json!({"childRunId": child.run_id, "childStatus": child.status.as_str()});
    if let Some(error) = error {
        // Errors of nested children would nest. The innermost error is in the log of its own run.
        let shallow = error.details.as_ref().is_none_or(|inner| inner.get("childError").is_none());
        let shown = if shallow { error.clone() } else { RunError { details: None, ..error.clone() } };
        details["childError"] = shown.to_json();
    }
    let what = if child.status == RunStatus::Cancelled { "was cancelled" } else { "failed" };
    RunError::of(FailureCode::ChildFailed, format!("the child run {what}")).with(details)
}
