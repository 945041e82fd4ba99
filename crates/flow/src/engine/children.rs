//! Child runs: how they begin, and what is made of their end.

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
    /// The places of the children of the current attempt of a node.
    pub(super) fn own_children(&self, node: NodeIndex) -> Vec<usize> {
        self.state.nodes[node].children.clone()
    }

    /// Why a child of that workflow cannot be started.
    pub(super) fn refuse_child(&self, workflow_id: &WorkflowId) -> Option<RunError> {
        let exists = match &self.recorded {
            Some(recorded) => recorded.started(workflow_id),
            None => self.children.exists(workflow_id),
        };
        if self.has_no_source() {
            return Some(no_source());
        }
        // Refused before the child is named: a run that is named can be read.
        if self.recorded.is_none() && self.depth_of_children() > MAX_CHILD_DEPTH {
            let message = format!(
                "runs start runs at most {MAX_CHILD_DEPTH} levels deep; a workflow may not start itself without end"
            );
            return Some(RunError::of(FailureCode::RecursionLimitExceeded, message));
        }
        (!exists).then(|| {
            RunError::of(
                FailureCode::UnknownChildWorkflow,
                "there is no workflow of that id to start as a child",
            )
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
            let place = state.children.len();
            let parent = &self.state.genesis.run_id;
            ids::child_run_id(parent, &self.node(node).id, state.iteration, state.attempt, place)
        });
        let dispatched = NodeDispatched {
            child_run_id: run_id,
            child_status: None,
            child_workflow_id: workflow_id.clone(),
        };
        self.emit(dispatched, Some(node), cause);
        let place = self.state.children.len() - 1;
        self.ask_for_child(node, place);
        place
    }

    fn ask_for_child(&mut self, node: NodeIndex, place: usize) {
        let (run_id, child) = (&self.state.genesis.run_id, &self.state.children[place]);
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

    /// Asks again for the children that have not ended, as far as the run was told.
    pub(super) fn start_again(&mut self, node: NodeIndex) {
        let own = self.own_children(node);
        let open: Vec<usize> =
            own.iter().copied().filter(|place| self.state.children[*place].ended.is_none()).collect();
        if !open.is_empty() && self.has_no_source() {
            self.settle(node, Step::failed(no_source()), None);
            return;
        }
        for place in &open {
            self.ask_for_child(node, *place);
        }
        let (true, Some(last)) = (open.is_empty(), own.last()) else { return };
        let step = match self.node(node).config.child_starter() {
            Some(ChildStarter::SubWorkflow(config)) => sub_workflow::ended(self, config, *last),
            Some(ChildStarter::Dispatch(config)) => dispatch::advance(self, node, config),
            None => return,
        };
        self.settle(node, step, None);
    }

    /// A child waits for somebody, or goes on.
    pub(super) fn child_waits(&mut self, run_id: &RunId, status: RunStatus) {
        let Some(place) = self.state.child_index(run_id) else { return };
        let child = &self.state.children[place];
        let is_news = child.ended.is_none()
            && child.status != status
            && (status.is_waiting() || status == RunStatus::Running);
        let Some(node) = self.state.node_index(&child.node_id).filter(|_| is_news) else { return };
        let state = &self.state.nodes[node];
        let awaited = state.status == NodeStatus::Running
            && (child.iteration, child.attempt) == (state.iteration, state.attempt);
        if !awaited || self.is_halted() {
            return;
        }
        self.tell_child(node, place, status);
    }

    pub(super) fn child_ended(
        &mut self,
        run_id: &RunId,
        status: RunStatus,
        variables: &Map<String, Value>,
        error: Option<RunError>,
    ) {
        let Some(place) = self.state.child_index(run_id) else { return };
        let child = &self.state.children[place];
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
        self.tell_child(node, place, status);
        let step = match starter {
            ChildStarter::Dispatch(config) => {
                dispatch::child_ended(self, node, place, variables, error);
                dispatch::advance(self, node, config)
            }
            ChildStarter::SubWorkflow(config) => {
                self.harvest(node, place, variables);
                sub_workflow::ended_with(self, config, place, error)
            }
        };
        self.settle(node, step, None);
        self.drain();
    }

    /// Records how a child stands.
    pub(super) fn tell_child(&mut self, node: NodeIndex, place: usize, status: RunStatus) {
        let child = &self.state.children[place];
        let dispatched = NodeDispatched {
            child_run_id: child.run_id.clone(),
            child_status: Some(status),
            child_workflow_id: child.workflow_id.clone(),
        };
        let cause = Some(child.dispatched);
        self.emit(dispatched, Some(node), cause);
    }

    /// Takes over the variables of a child that completed. Gives their names; a child that did not complete gives nothing.
    pub(super) fn harvest(
        &mut self,
        node: NodeIndex,
        place: usize,
        variables: &Map<String, Value>,
    ) -> Vec<String> {
        let child = &self.state.children[place];
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

/// Why a run that repeats another has no effects of its own.
pub(super) fn no_source() -> RunError {
    RunError::of(
        FailureCode::ReplaySourceMissing,
        "the run that is repeated has no recorded outcome for this effect",
    )
}

/// The failure of a node whose child did not complete.
pub(super) fn child_failed(child: &Child, error: Option<&RunError>) -> RunError {
    let mut details = json!({"childRunId": child.run_id, "childStatus": child.status.as_str()});
    if let Some(error) = error {
        // A child of a child of a child would nest one error in the other; the innermost is in the log of its own run.
        let shallow = error.details.as_ref().is_none_or(|inner| inner.get("childError").is_none());
        let told = if shallow { error.clone() } else { RunError { details: None, ..error.clone() } };
        details["childError"] = told.to_json();
    }
    let what = if child.status == RunStatus::Cancelled { "was cancelled" } else { "failed" };
    RunError::of(FailureCode::ChildFailed, format!("the child run {what}")).with(details)
}
