//! Raising interrupts, and what follows from an answer.

use serde_json::{Value, json};

use super::turn::Turn;
use super::{Effect, Refusal, TimerKey, guide, ids, nodes};
use crate::definition::{NodeIndex, NodeType};
use crate::event::EventKind;
use crate::failure::FailureCode;
use crate::id::{InterruptId, NodeId};
use crate::interrupt::{self, Ballot, Decided, Judgement, Reply};
use crate::state::{Answer, Interrupt, Outcome, RunError};

/// Who decides when nobody does.
pub(super) const HOST: &str = "host";

/// Something to ask.
pub(super) struct Question {
    pub(super) kind: String,
    pub(super) data: Value,
    pub(super) resume_schema: Option<Value>,
    pub(super) timeout_ms: Option<u64>,
    /// More for `node.suspended`.
    pub(super) suspended: Value,
    pub(super) cause: Option<u64>,
    pub(super) outside: Outside,
}

/// Where a question comes from that somebody outside asks.
#[derive(Default)]
pub(super) struct Outside {
    /// What it follows from, where that is no event of the run.
    pub(super) causation_id: Option<String>,
    /// Whether it may be believed. The interrupt itself is closed, so that it is said in the events beside it.
    pub(super) content_trust: Option<Value>,
}

impl Question {
    pub(super) fn new(kind: &str, data: Value) -> Self {
        let kind = kind.to_owned();
        Self {
            kind,
            data,
            resume_schema: None,
            timeout_ms: None,
            suspended: json!({}),
            cause: None,
            outside: Outside::default(),
        }
    }
}

impl Turn<'_> {
    /// Suspends a node until somebody answers.
    pub(super) fn raise(&mut self, node: NodeIndex, question: Question) {
        let count = self.state.nodes[node].interrupts;
        let id = self
            .recorded_text("interruptId")
            .map(InterruptId::new)
            .unwrap_or_else(|| ids::interrupt_id(&self.state.genesis.run_id, &self.node(node).id, count));
        let key = match self.node(node).config.get("key").and_then(Value::as_str) {
            Some(key) if count == 0 && self.node(node).kind == NodeType::Interrupt => key.to_owned(),
            _ => id.as_str().to_owned(),
        };
        let mut suspended = question.suspended;
        suspended["interruptId"] = id.as_str().into();
        suspended["kind"] = question.kind.as_str().into();
        suspended["key"] = key.as_str().into();
        let Outside { causation_id, content_trust } = question.outside;
        if let Some(trust) = &content_trust {
            suspended["contentTrust"] = trust.clone();
        }
        self.tell(EventKind::NodeSuspended, node, suspended, question.cause);
        let mut requested = json!({
            "kind": question.kind,
            "key": key,
            "data": question.data,
            "runId": self.state.genesis.run_id,
            "interruptId": id,
            "requestedAt": self.now.to_rfc3339(),
        });
        if let Some(schema) = question.resume_schema {
            requested["resumeSchema"] = schema;
        }
        if let Some(timeout) = question.timeout_ms {
            requested["timeoutMs"] = timeout.into();
        }
        requested["nodeId"] = self.node(node).id.as_str().into();
        let cause = causation_id.clone().or_else(|| self.id_of(question.cause));
        let asked = self.tell_because(EventKind::InterruptRequested, node, requested, cause);
        let cause = causation_id.or_else(|| self.id_of(Some(asked)));
        let mut announced = json!({"interruptId": id, "nodeId": self.node(node).id});
        if let Some(trust) = content_trust {
            announced["contentTrust"] = trust;
        }
        self.announce(node, &question.kind, &question.data, announced, cause);
        self.ask_host(Effect::InterruptRaised { node_id: self.node(node).id.clone() });
        if let Some(timeout) = question.timeout_ms {
            let timer = TimerKey::Interrupt { interrupt_id: id };
            self.ask_host(Effect::SetTimer { timer, at: self.now.plus(timeout) });
        }
    }

    /// The event of the family that the interrupt is of.
    fn announce(
        &mut self,
        node: NodeIndex,
        kind: &str,
        data: &Value,
        mut payload: Value,
        cause: Option<String>,
    ) {
        let (event, members): (_, &[&str]) = match kind {
            // A governance gate asks through `interrupt.requested` alone.
            "approval" if self.node(node).kind != NodeType::GovernanceGate => (
                EventKind::ApprovalRequested,
                &["artifactId", "artifactType", "title", "actions", "approversList", "requiredApprovals"],
            ),
            "clarification" => (EventKind::ClarificationRequested, &["questions"]),
            _ => return,
        };
        for member in members {
            if let Some(value) = data.get(*member) {
                payload[*member] = value.clone();
            }
        }
        self.tell_because(event, node, payload, cause);
    }

    /// Somebody answered what a node waits for, or one interrupt of it and no other.
    pub(super) fn resolve(
        &mut self,
        node_id: &NodeId,
        interrupt_id: Option<&InterruptId>,
        reply: &Reply<'_>,
    ) -> Result<(), Refusal> {
        let &Reply { value, by, .. } = reply;
        let node = self.state.place(node_id).ok_or(Refusal::NoInterrupt)?;
        let Some(open) = self.state.interrupts.get(node_id) else {
            return Err(match self.state.nodes[node].answer {
                Answer::Given(_) | Answer::Taken => Refusal::AlreadyResolved,
                Answer::Gone => Refusal::InterruptGone,
                Answer::None => Refusal::NoInterrupt,
            });
        };
        // The node has gone on since, and waits for something else.
        if interrupt_id.is_some_and(|meant| *meant != open.id) {
            return Err(Refusal::AlreadyResolved);
        }
        if self.node(node).kind == NodeType::Guided {
            let session_id = guide::session_of(&open.data).unwrap_or_default().to_owned();
            return Err(Refusal::Guided { session_id });
        }
        let judgement = interrupt::judge(self.node(node), open, reply)?;
        let (open_id, asked) = (open.id.clone(), Some(open.sequence));
        if !matches!(judgement, Judgement::Decided(_)) {
            self.state.rounds.check(value)?;
        }
        match judgement {
            Judgement::Asked => {
                self.log(
                    node,
                    "somebody asked back",
                    &json!({"interruptId": open_id, "resumeValue": value, "by": by}),
                );
            }
            Judgement::Voted(ballot) => {
                let governed = self.node(node).kind == NodeType::GovernanceGate;
                self.tell_vote(node, &ballot, value, governed, None, asked);
            }
            Judgement::Exchanged(content) => {
                nodes::exchange(self, node, &content, by, asked);
            }
            Judgement::Decided(decided) => {
                self.close(node, &decided, None);
                if !self.is_halted() {
                    self.proceed(node);
                    self.drain();
                }
            }
        }
        Ok(())
    }

    /// Nobody answered in time. An approval is then a rejection: silence approves nothing.
    pub(super) fn interrupt_due(&mut self, node: NodeIndex) {
        let Some(open) = self.state.interrupts.get(&self.node(node).id) else { return };
        let Some(deadline) = open.deadline else { return };
        if self.is_halted() {
            return;
        }
        if deadline > self.now {
            let timer = TimerKey::Interrupt { interrupt_id: open.id.clone() };
            self.ask_host(Effect::SetTimer { timer, at: deadline });
            return;
        }
        let value = if open.kind == "approval" {
            json!({"action": "reject", "reason": "timeout"})
        } else {
            Value::Null
        };
        let decided =
            Decided { value, outcome: Outcome::TimedOut, by: HOST.into(), ballot: None, turn: None };
        self.end_guide(node);
        self.close(node, &decided, Some("timeout"));
        self.proceed(node);
        self.drain();
    }

    /// Records that an interrupt is over.
    pub(super) fn close(&mut self, node: NodeIndex, decided: &Decided, reason: Option<&str>) {
        let Some(open) = self.state.interrupts.get(&self.node(node).id).cloned() else { return };
        let mut payload = json!({
            "interruptId": open.id,
            "kind": open.kind,
            "resumeValue": decided.value,
            "resolvedAt": self.now.to_rfc3339(),
            "resolvedBy": decided.by,
            "outcome": decided.outcome.as_str(),
        });
        if let Some(reason) = reason {
            payload["reason"] = reason.into();
        }
        let cause = self.tell(EventKind::InterruptResolved, node, payload, Some(open.sequence));
        self.tell_family(node, &open, decided, cause);
        self.close_interrupt(open.id, open.deadline.is_some());
    }

    /// The event of the family that the interrupt is of.
    fn tell_family(&mut self, node: NodeIndex, open: &Interrupt, decided: &Decided, cause: u64) {
        let governed = self.node(node).kind == NodeType::GovernanceGate;
        match open.kind.as_str() {
            "approval" => match &decided.ballot {
                Some(ballot) => {
                    self.tell_vote(
                        node,
                        ballot,
                        &decided.value,
                        governed,
                        Some(decided.outcome),
                        Some(cause),
                    );
                }
                None if governed => {
                    let payload =
                        json!({"gateId": self.node(node).id, "principal": HOST, "reason": "timeout"});
                    self.emit(EventKind::ApprovalRejected, Some(node), payload, Some(cause));
                }
                None => {
                    let at = self.now.to_rfc3339();
                    let payload = json!({"action": "timeout", "decidedBy": HOST, "decidedAt": at});
                    self.tell(EventKind::ApprovalReceived, node, payload, Some(cause));
                }
            },
            "clarification" if decided.outcome != Outcome::TimedOut => {
                let answers = decided.value.get("answers").cloned().unwrap_or_else(|| json!({}));
                let payload = json!({"answers": answers, "answeredBy": decided.by});
                self.tell(EventKind::ClarificationResolved, node, payload, Some(cause));
            }
            "conversation.exchange" => nodes::hang_up(self, node, open, decided, cause),
            _ => {}
        }
    }

    fn tell_vote(
        &mut self,
        node: NodeIndex,
        ballot: &Ballot,
        value: &Value,
        governed: bool,
        outcome: Option<Outcome>,
        cause: Option<u64>,
    ) {
        let progress = json!({"granted": ballot.granted, "required": ballot.required});
        if governed {
            // These payloads are closed: they name the gate, and not the node.
            let mut payload = json!({"gateId": self.node(node).id, "principal": ballot.voter});
            let kind = match ballot.action.as_str() {
                "override" => EventKind::ApprovalOverridden,
                "reject" => EventKind::ApprovalRejected,
                _ => EventKind::ApprovalGranted,
            };
            if kind == EventKind::ApprovalGranted {
                payload["quorumProgress"] = progress;
            } else if let Some(reason) = &ballot.reason {
                payload["reason"] = reason.as_str().into();
            }
            self.emit(kind, Some(node), payload, cause);
            return;
        }
        let mut payload = json!({
            "action": ballot.action,
            "decidedBy": ballot.voter,
            "decidedAt": self.now.to_rfc3339(),
        });
        for member in ["comment", "feedback", "refineFeedback", "editedArtifactData"] {
            if let Some(value) = value.get(member) {
                payload[member] = value.clone();
            }
        }
        if ballot.required > 1 {
            payload["quorumProgress"] = progress;
            if let Some(outcome) = outcome {
                payload["outcome"] = outcome.as_str().into();
            }
        }
        self.tell(EventKind::ApprovalReceived, node, payload, cause);
    }

    /// Lets a node go on with the answer that is recorded.
    pub(super) fn proceed(&mut self, node: NodeIndex) {
        let Answer::Given(resolution) = self.state.nodes[node].answer.clone() else { return };
        if self.state.nodes[node].status != crate::state::NodeStatus::Running {
            let payload = json!({"interruptId": resolution.interrupt.id, "resumeValue": resolution.value});
            self.tell(EventKind::NodeResumed, node, payload, Some(resolution.sequence));
        }
        let step = nodes::answered(self, node, &resolution);
        self.settle(node, step, Some(resolution.sequence));
    }

    /// Why a node fails whose interrupt nobody answered.
    pub(super) fn timed_out() -> RunError {
        RunError::of(FailureCode::InterruptTimeout, "nobody answered in time")
    }
}
