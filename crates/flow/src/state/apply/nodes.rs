//! Applies the events of nodes and interrupts.

use serde_json::{Map, Number, Value, json};

use super::super::{
    AnswerState, Delivery, Interrupt, NodeStatus, Resolution, ResolutionOutcome, RunState, Vote,
};
use crate::definition::{Definition, NodeIndex, NodeType};
use crate::event::Event;
use crate::event::data::interrupt::{InterruptOutcome, InterruptRequested, InterruptResolved, ResolveReason};
use crate::event::data::model::ProviderUsage;
use crate::event::data::node::{NodeCompleted, NodeRetried, NodeStarted};
use crate::id::Principal;
use crate::interrupt::InterruptKind;

impl RunState {
    pub(super) fn start(
        &mut self,
        definition: &Definition,
        node: NodeIndex,
        started: &NodeStarted,
        event: &Event,
    ) {
        self.move_to(definition, node, NodeStatus::Running);
        self.node_executions += 1;
        let state = &mut self.nodes[node];
        state.attempt = started.attempt;
        state.started_at = Some(event.timestamp);
        state.due = started.due_at;
        state.ended_at = None;
        state.retry_at = None;
        state.fan_out = None;
        state.children = Vec::new();
        state.error = None;
        state.answer = AnswerState::None;
        state.outputs = Map::new();
        if let Some(agent) = &definition.nodes[node].agent {
            self.agent = Some(agent.clone());
        }
    }

    pub(super) fn retry(
        &mut self,
        definition: &Definition,
        node: NodeIndex,
        retried: &NodeRetried,
        event: &Event,
    ) {
        self.move_to(definition, node, NodeStatus::Running);
        let state = &mut self.nodes[node];
        state.attempt = retried.attempt;
        state.retry_at = Some(event.timestamp.plus(retried.delay_ms));
        state.due = None;
        state.children = Vec::new();
        state.error = Some(retried.last_error.clone());
        if state.answer != AnswerState::None {
            state.answer = AnswerState::Taken;
        }
    }

    pub(super) fn complete(
        &mut self,
        definition: &Definition,
        node: NodeIndex,
        completed: &NodeCompleted,
        event: &Event,
    ) {
        let outputs = completed.outputs.clone().unwrap_or_default();
        if definition.nodes[node].kind == NodeType::CostEmit {
            self.cost = Some(cost(&outputs));
        }
        self.nodes[node].outputs = outputs;
        self.leave(definition, node, NodeStatus::Completed, event);
    }

    pub(super) fn leave(
        &mut self,
        definition: &Definition,
        node: NodeIndex,
        status: NodeStatus,
        event: &Event,
    ) {
        let pending = self.interrupts.remove(&definition.nodes[node].id).is_some();
        let state = &mut self.nodes[node];
        state.ended_at = Some(event.timestamp);
        state.due = None;
        state.retry_at = None;
        if status != NodeStatus::Completed {
            state.outputs = Map::new();
        }
        if pending {
            state.answer = AnswerState::Gone;
        } else if state.answer != AnswerState::None {
            state.answer = AnswerState::Taken;
        }
        self.move_to(definition, node, status);
        self.release(definition, node);
    }

    /// Adds the usage of a model call to the cost of the run: the tokens and the price of all calls, and the provider of the last one.
    pub(super) fn spend(&mut self, usage: &ProviderUsage) {
        let mut cost = match self.cost.take() {
            Some(Value::Object(cost)) => cost,
            Some(_) | None => Map::new(),
        };
        let before =
            |name: &str| cost.get("tokens").and_then(|tokens| tokens.get(name)?.as_u64()).unwrap_or(0);
        let input = before("input").saturating_add(usage.input_tokens);
        let output = before("output").saturating_add(usage.output_tokens);
        cost.insert("tokens".into(), json!({"input": input, "output": output}));
        if let Some(usd) = usage.cost_estimate_usd.as_ref().and_then(Number::as_f64) {
            let before = cost.get("usd").and_then(Value::as_f64).unwrap_or(0.0);
            cost.insert("usd".into(), (before + usd).into());
        }
        cost.insert("provider".into(), usage.provider.as_str().into());
        cost.insert("model".into(), usage.model.as_str().into());
        self.cost = Some(Value::Object(cost));
    }

    pub(super) fn ask(
        &mut self,
        definition: &Definition,
        node: NodeIndex,
        requested: &InterruptRequested,
        event: &Event,
    ) {
        let node_id = definition.nodes[node].id.clone();
        // Only the questions of dispatches are limited. Gates are placed by the author.
        if definition.nodes[node].kind == NodeType::Dispatch {
            self.questions += 1;
        }
        let interrupt = Interrupt {
            id: requested.interrupt_id.clone(),
            node_id: node_id.clone(),
            kind: requested.kind,
            key: requested.key.clone(),
            data: requested.data.clone(),
            resume_schema: requested.resume_schema.clone(),
            deadline: requested.timeout_ms.map(|timeout| event.timestamp.plus(timeout)),
            requested_at: event.timestamp,
            votes: Vec::new(),
            sequence: event.sequence,
        };
        self.interrupts.insert(node_id, interrupt);
    }

    pub(super) fn answer(
        &mut self,
        definition: &Definition,
        node: NodeIndex,
        resolved: &InterruptResolved,
        event: &Event,
    ) {
        let Some(interrupt) = self.interrupts.remove(&definition.nodes[node].id) else { return };
        let outcome = match (resolved.reason, resolved.outcome) {
            (Some(ResolveReason::Timeout), _) => ResolutionOutcome::TimedOut,
            (None, InterruptOutcome::Rejected) => ResolutionOutcome::Rejected,
            (None, InterruptOutcome::Accepted) => ResolutionOutcome::Accepted,
        };
        let value = resolved.resume_value.clone();
        let is_delivery =
            interrupt.kind == InterruptKind::ExternalEvent && definition.nodes[node].kind != NodeType::Guided;
        if is_delivery && outcome == ResolutionOutcome::Accepted {
            let (interrupt_id, digest) = (interrupt.id.clone(), Delivery::digest_of(&value));
            self.nodes[node].deliveries.push(Delivery { interrupt_id, digest });
        }
        self.nodes[node].answer = AnswerState::Given(Box::new(Resolution {
            interrupt,
            value,
            by: Principal::new(resolved.resolved_by.as_str()),
            outcome,
            sequence: event.sequence,
        }));
    }

    /// Counts a vote while its interrupt is open. The deciding vote is recorded after `interrupt.resolved`, and is not counted here.
    pub(super) fn vote(
        &mut self,
        definition: &Definition,
        node: Option<NodeIndex>,
        voter: &str,
        action: &str,
        event: &Event,
    ) {
        let Some(interrupt) = self.open_interrupt(definition, node) else { return };
        interrupt.votes.retain(|vote| vote.voter != voter);
        interrupt.votes.push(Vote {
            voter: voter.to_owned(),
            action: action.to_owned(),
            at: event.timestamp,
        });
    }

    /// Counts a turn of a conversation while its interrupt is open.
    pub(super) fn exchange(&mut self, definition: &Definition, node: Option<NodeIndex>, turn_index: u64) {
        if let Some(data) =
            self.open_interrupt(definition, node).and_then(|interrupt| interrupt.data.as_object_mut())
        {
            data.insert("turnIndex".into(), turn_index.into());
        }
    }

    fn open_interrupt(&mut self, definition: &Definition, node: Option<NodeIndex>) -> Option<&mut Interrupt> {
        self.interrupts.get_mut(&definition.nodes[node?].id)
    }
}

/// The cost in a snapshot, from attributes that have already passed the allow list.
fn cost(outputs: &Map<String, Value>) -> Value {
    let attribute = |name: &str| outputs.get(&format!("openwop.cost.{name}"));
    let mut cost = Map::new();
    if let Some(usd) = attribute("usd").filter(|usd| usd.as_f64().is_some_and(|usd| usd >= 0.0)) {
        cost.insert("usd".into(), usd.clone());
    }
    let tokens = [("input", attribute("tokens.input")), ("output", attribute("tokens.output"))];
    let tokens: Map<String, Value> = tokens
        .into_iter()
        .filter_map(|(name, count)| Some((name.to_owned(), count?.as_u64()?.into())))
        .collect();
    if !tokens.is_empty() {
        cost.insert("tokens".into(), Value::Object(tokens));
    }
    if let Some(provider) = attribute("provider").filter(|provider| provider.is_string()) {
        cost.insert("provider".into(), provider.clone());
    }
    Value::Object(cost)
}
