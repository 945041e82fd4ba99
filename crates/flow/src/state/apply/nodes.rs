//! The life of a node.

use canon::time::Timestamp;
use serde_json::{Map, Value, json};

use super::super::{Answer, Delivery, Interrupt, NodeStatus, Outcome, Resolution, RunError, RunState, Vote};
use super::{number, small, text};
use crate::definition::{Definition, NodeIndex, NodeType};
use crate::event::{Event, EventKind};
use crate::id::{InterruptId, Principal};

impl RunState {
    pub(super) fn apply_to_node(&mut self, definition: &Definition, node: NodeIndex, event: &Event) {
        match &event.kind {
            EventKind::NodeStarted => {
                self.move_to(definition, node, NodeStatus::Running);
                self.node_executions += 1;
                let state = &mut self.nodes[node];
                state.attempt = small(event, "attempt").unwrap_or(0);
                state.started_at = Some(event.timestamp);
                state.due = text(event, "dueAt").and_then(Timestamp::parse);
                state.ended_at = None;
                state.retry_at = None;
                state.fan_out = None;
                state.children = Vec::new();
                state.error = None;
                state.answer = Answer::None;
                state.outputs = Map::new();
                if let Some(agent) = &definition.nodes[node].agent {
                    self.agent = Some(agent.clone());
                }
            }
            EventKind::NodeSuspended => {
                self.move_to(definition, node, NodeStatus::Suspended);
                let state = &mut self.nodes[node];
                state.interrupts += 1;
                state.answer = Answer::None;
            }
            EventKind::NodeResumed => self.move_to(definition, node, NodeStatus::Running),
            EventKind::NodeRetried => {
                self.move_to(definition, node, NodeStatus::Running);
                let state = &mut self.nodes[node];
                state.attempt = small(event, "attempt").unwrap_or(0);
                state.retry_at = Some(event.timestamp.plus(number(event, "delayMs").unwrap_or(0)));
                state.due = None;
                state.children = Vec::new();
                state.error = event.payload.get("lastError").map(RunError::from_json);
                if state.answer != Answer::None {
                    state.answer = Answer::Taken;
                }
            }
            EventKind::NodeCompleted => {
                let outputs = match event.payload.get("outputs") {
                    Some(Value::Object(outputs)) => outputs.clone(),
                    _ => Map::new(),
                };
                if definition.nodes[node].kind == NodeType::CostEmit {
                    self.cost = Some(cost(&outputs));
                }
                self.nodes[node].outputs = outputs;
                self.leave(definition, node, NodeStatus::Completed, event);
            }
            EventKind::NodeFailed => {
                self.nodes[node].error = event.payload.get("error").map(RunError::from_json);
                self.leave(definition, node, NodeStatus::Failed, event);
            }
            EventKind::NodeSkipped => self.leave(definition, node, NodeStatus::Skipped, event),
            EventKind::NodeCancelled => self.leave(definition, node, NodeStatus::Cancelled, event),
            EventKind::ProviderUsage => self.spend(event),
            EventKind::InterruptRequested => self.ask(definition, node, event),
            EventKind::InterruptResolved => self.answer(definition, node, event),
            EventKind::ApprovalReceived
            | EventKind::ApprovalGranted
            | EventKind::ApprovalRejected
            | EventKind::ApprovalOverridden => self.vote(definition, node, event),
            EventKind::ConversationExchanged => {
                if let Some(interrupt) = self.interrupts.get_mut(&definition.nodes[node].id)
                    && let Some(data) = interrupt.data.as_object_mut()
                {
                    data.insert("turnIndex".into(), number(event, "turnIndex").unwrap_or(0).into());
                }
            }
            _ => {}
        }
    }

    fn leave(&mut self, definition: &Definition, node: NodeIndex, status: NodeStatus, event: &Event) {
        let pending = self.interrupts.remove(&definition.nodes[node].id).is_some();
        let state = &mut self.nodes[node];
        state.ended_at = Some(event.timestamp);
        state.due = None;
        state.retry_at = None;
        if status != NodeStatus::Completed {
            state.outputs = Map::new();
        }
        if pending {
            state.answer = Answer::Gone;
        } else if state.answer != Answer::None {
            state.answer = Answer::Taken;
        }
        self.move_to(definition, node, status);
        self.release(definition, node);
    }

    /// Adds up what models cost the run: the tokens and the money of all calls, and who was asked last.
    fn spend(&mut self, event: &Event) {
        let mut cost = match self.cost.take() {
            Some(Value::Object(cost)) => cost,
            _ => Map::new(),
        };
        let before =
            |name: &str| cost.get("tokens").and_then(|tokens| tokens.get(name)?.as_u64()).unwrap_or(0);
        let input = before("input").saturating_add(number(event, "inputTokens").unwrap_or(0));
        let output = before("output").saturating_add(number(event, "outputTokens").unwrap_or(0));
        cost.insert("tokens".into(), json!({"input": input, "output": output}));
        if let Some(usd) = event.payload.get("costEstimateUsd").and_then(Value::as_f64) {
            let before = cost.get("usd").and_then(Value::as_f64).unwrap_or(0.0);
            cost.insert("usd".into(), (before + usd).into());
        }
        for name in ["provider", "model"] {
            if let Some(text) = text(event, name) {
                cost.insert(name.into(), text.into());
            }
        }
        self.cost = Some(Value::Object(cost));
    }

    fn ask(&mut self, definition: &Definition, node: NodeIndex, event: &Event) {
        let owned = |name: &str| text(event, name).unwrap_or_default().to_owned();
        let node_id = definition.nodes[node].id.clone();
        // Only what the supervisor's work asks is limited: a gate was put there by the author.
        if definition.nodes[node].kind == NodeType::Dispatch {
            self.questions += 1;
        }
        let interrupt = Interrupt {
            id: InterruptId::new(text(event, "interruptId").unwrap_or_default()),
            node_id: node_id.clone(),
            kind: owned("kind"),
            key: owned("key"),
            data: event.payload.get("data").cloned().unwrap_or_default(),
            resume_schema: event.payload.get("resumeSchema").cloned(),
            deadline: number(event, "timeoutMs").map(|timeout| event.timestamp.plus(timeout)),
            requested_at: event.timestamp,
            votes: Vec::new(),
            sequence: event.sequence,
        };
        self.interrupts.insert(node_id, interrupt);
    }

    fn answer(&mut self, definition: &Definition, node: NodeIndex, event: &Event) {
        let Some(interrupt) = self.interrupts.remove(&definition.nodes[node].id) else { return };
        let outcome = match (text(event, "reason"), text(event, "outcome")) {
            (Some("timeout"), _) => Outcome::TimedOut,
            (_, Some("rejected")) => Outcome::Rejected,
            _ => Outcome::Accepted,
        };
        let value = event.payload.get("resumeValue").cloned().unwrap_or_default();
        let is_delivery =
            interrupt.kind == "external-event" && definition.nodes[node].kind != NodeType::Guided;
        if is_delivery && outcome == Outcome::Accepted {
            let (interrupt_id, digest) = (interrupt.id.clone(), Delivery::digest_of(&value));
            self.nodes[node].deliveries.push(Delivery { interrupt_id, digest });
        }
        self.nodes[node].answer = Answer::Given(Box::new(Resolution {
            interrupt,
            value,
            by: Principal::new(text(event, "resolvedBy").unwrap_or_default()),
            outcome,
            sequence: event.sequence,
        }));
    }

    /// A vote counts while its interrupt is open. The one that closes it comes after `interrupt.resolved`.
    fn vote(&mut self, definition: &Definition, node: NodeIndex, event: &Event) {
        let Some(interrupt) = self.interrupts.get_mut(&definition.nodes[node].id) else { return };
        let voter = text(event, "decidedBy").or_else(|| text(event, "principal")).unwrap_or_default();
        let action = match event.kind {
            EventKind::ApprovalGranted | EventKind::ApprovalOverridden => "accept",
            EventKind::ApprovalRejected => "reject",
            _ => text(event, "action").unwrap_or_default(),
        };
        interrupt.votes.retain(|vote| vote.voter != voter);
        interrupt.votes.push(Vote {
            voter: voter.to_owned(),
            action: action.to_owned(),
            at: event.timestamp,
        });
    }
}

/// The rollup of a snapshot, of attributes that were let through already.
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
