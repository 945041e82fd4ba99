//! Interrupts: opening them, and what follows from an answer.

use std::borrow::Cow;

use serde_json::{Number, Value, json};

use super::turn::Turn;
use super::{Effect, Refusal, TimerKey, guide, ids, nodes};
use crate::definition::{NodeConfig, NodeIndex, NodeType};
use crate::event::EventData;
use crate::event::data::interrupt::{
    ApprovalGranted, ApprovalOverridden, ApprovalReceived, ApprovalRejected, ApprovalRequested,
    ClarificationRequested, ClarificationResolved, InterruptRequested, InterruptResolved, QuorumProgress,
    ResolveReason,
};
use crate::event::data::node::{NodeResumed, NodeSuspended};
use crate::failure::FailureCode;
use crate::id::{InterruptId, NodeId};
use crate::interrupt::{self, Ballot, Decided, InterruptKind, Judgement, Reply};
use crate::state::{AnswerState, Interrupt, ResolutionOutcome, RunError};

/// The principal of decisions that the host makes itself.
pub(super) const HOST: &str = "host";

/// A question to a person or an external system.
pub(super) struct Question {
    pub(super) kind: InterruptKind,
    pub(super) data: Value,
    pub(super) resume_schema: Option<Value>,
    pub(super) timeout_ms: Option<u64>,
    /// Additional members of `node.suspended`.
    pub(super) why: SuspendReason,
    pub(super) cause: Option<u64>,
    pub(super) origin: ExternalOrigin,
}

/// Why a node is suspended, in addition to its interrupt.
#[derive(Default)]
pub(super) struct SuspendReason {
    pub(super) reason: Option<Cow<'static, str>>,
    pub(super) conversation_id: Option<String>,
    /// The agent, its confidence, and the required confidence.
    pub(super) low_confidence: Option<LowConfidence>,
}

/// A decision with too low confidence.
pub(super) struct LowConfidence {
    pub(super) agent_id: String,
    pub(super) observed: f64,
    pub(super) threshold: f64,
}

impl SuspendReason {
    pub(super) fn reason(reason: &'static str) -> Self {
        Self { reason: Some(reason.into()), ..Self::default() }
    }
}

/// The origin of a question that a pack or an external system asks.
#[derive(Default)]
pub(super) struct ExternalOrigin {
    /// The id of the cause, if it is not an event of the run.
    pub(super) causation_id: Option<String>,
    /// Whether the content is trusted. The protocol does not allow this member in the interrupt, so it is recorded in the neighbouring events.
    pub(super) content_trust: Option<Value>,
}

impl Question {
    /// The question to an operator about a decision with low confidence.
    pub(super) fn low_confidence(low_confidence: LowConfidence, decision: &Value) -> Self {
        let LowConfidence { agent_id, observed, threshold } = &low_confidence;
        let data = json!({
            "agentId": agent_id, "threshold": threshold, "observed": observed, "decision": decision,
        });
        let why =
            SuspendReason { low_confidence: Some(low_confidence), ..SuspendReason::reason("low-confidence") };
        Self { why, ..Self::new(InterruptKind::LowConfidence, data) }
    }

    pub(super) fn new(kind: InterruptKind, data: Value) -> Self {
        Self {
            kind,
            data,
            resume_schema: None,
            timeout_ms: None,
            why: SuspendReason::default(),
            cause: None,
            origin: ExternalOrigin::default(),
        }
    }
}

impl Turn<'_> {
    /// Suspends a node until its question is answered.
    pub(super) fn raise(&mut self, node: NodeIndex, question: Question) {
        let count = self.state.nodes[node].interrupts;
        let recorded = match self.recorded_data() {
            Some(EventData::NodeSuspended(suspended)) => Some(suspended.interrupt_id.clone()),
            _ => None,
        };
        let id = recorded
            .unwrap_or_else(|| ids::interrupt_id(&self.state.genesis.run_id, &self.node(node).id, count));
        // In a run, each key is asked at most once.
        let own_key = if let NodeConfig::Interrupt(config) = &self.node(node).config
            && count == 0
        {
            config.key.clone()
        } else {
            None
        };
        let key = own_key.unwrap_or_else(|| id.as_str().to_owned());
        let Question { kind, data, resume_schema, timeout_ms, why, cause, origin } = question;
        let ExternalOrigin { causation_id, content_trust } = origin;
        let (agent_id, observed, threshold) = match why.low_confidence {
            Some(low_confidence) => {
                let LowConfidence { agent_id, observed, threshold } = low_confidence;
                (Some(agent_id), Number::from_f64(observed), Number::from_f64(threshold))
            }
            None => (None, None, None),
        };
        let suspended = NodeSuspended {
            agent_id,
            content_trust: content_trust.clone(),
            conversation_id: why.conversation_id,
            interrupt_id: id.clone(),
            key: key.clone(),
            kind,
            node_id: self.node_id(node),
            observed,
            reason: why.reason,
            threshold,
        };
        self.emit(suspended, Some(node), cause);
        let announced = self.announcement(node, kind, &data, &id, content_trust);
        let requested = InterruptRequested {
            data,
            interrupt_id: id.clone(),
            key,
            kind,
            node_id: self.node_id(node),
            requested_at: self.now,
            resume_schema,
            run_id: self.state.genesis.run_id.clone(),
            timeout_ms,
        };
        let cause = causation_id.clone().or_else(|| self.id_of(cause));
        let asked = self.emit_with_cause(requested, Some(node), cause);
        if let Some(announced) = announced {
            let cause = causation_id.or_else(|| self.id_of(Some(asked)));
            self.emit_with_cause(announced, Some(node), cause);
        }
        self.ask_host(Effect::InterruptRaised { node_id: self.node(node).id.clone() });
        if let Some(timeout) = timeout_ms {
            let timer = TimerKey::Interrupt { interrupt_id: id };
            self.ask_host(Effect::SetTimer { timer, at: self.now.plus(timeout) });
        }
    }

    /// The additional event of approvals and clarifications.
    fn announcement(
        &self,
        node: NodeIndex,
        kind: InterruptKind,
        data: &Value,
        interrupt_id: &InterruptId,
        content_trust: Option<Value>,
    ) -> Option<EventData> {
        let (interrupt_id, node_id) = (interrupt_id.clone(), self.node_id(node));
        let member = |name: &str| data.get(name).cloned();
        match kind {
            // A governance gate records only `interrupt.requested`.
            InterruptKind::Approval if self.node(node).kind == NodeType::GovernanceGate => None,
            InterruptKind::Approval => {
                let requested = ApprovalRequested {
                    actions: member("actions"),
                    approvers_list: member("approversList"),
                    artifact_id: member("artifactId"),
                    artifact_type: member("artifactType"),
                    content_trust,
                    interrupt_id,
                    node_id,
                    required_approvals: member("requiredApprovals"),
                    title: member("title"),
                };
                Some(requested.into())
            }
            InterruptKind::Clarification => {
                let questions = member("questions");
                Some(ClarificationRequested { content_trust, interrupt_id, node_id, questions }.into())
            }
            InterruptKind::ExternalEvent
            | InterruptKind::Custom
            | InterruptKind::ConversationStart
            | InterruptKind::ConversationExchange
            | InterruptKind::ConversationClose
            | InterruptKind::LowConfidence => None,
        }
    }

    /// Answers the open interrupt of a node. If `interrupt_id` is given, it must be that interrupt.
    pub(super) fn resolve(
        &mut self,
        node_id: &NodeId,
        interrupt_id: Option<&InterruptId>,
        reply: &Reply<'_>,
    ) -> Result<(), Refusal> {
        let &Reply { value, by, .. } = reply;
        let node = self.state.node_index(node_id).ok_or(Refusal::NoInterrupt)?;
        let Some(open) = self.state.interrupts.get(node_id) else {
            return Err(match self.state.nodes[node].answer {
                AnswerState::Given(_) | AnswerState::Taken => Refusal::AlreadyResolved,
                AnswerState::Gone => Refusal::InterruptGone,
                AnswerState::None => Refusal::NoInterrupt,
            });
        };
        // The node has continued since then, and waits for another interrupt.
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
                let fields = json!({"interruptId": open_id, "resumeValue": value, "by": by});
                self.log(node, "a question is asked", fields);
            }
            Judgement::Voted(ballot) => {
                self.record_vote(node, &ballot, value, None, asked);
            }
            Judgement::Exchanged(content) => {
                nodes::exchange(self, node, &content, by, asked);
            }
            Judgement::Decided(decided) => {
                self.close(node, &decided, None);
                if !self.is_halted() {
                    self.resume_node(node);
                    self.drain();
                }
            }
        }
        Ok(())
    }

    /// An interrupt was not answered in time. For an approval, this is a rejection: no answer never means approval.
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
        let value = match open.kind {
            InterruptKind::Approval => json!({"action": "reject", "reason": "timeout"}),
            InterruptKind::Clarification
            | InterruptKind::ExternalEvent
            | InterruptKind::Custom
            | InterruptKind::ConversationStart
            | InterruptKind::ConversationExchange
            | InterruptKind::ConversationClose
            | InterruptKind::LowConfidence => Value::Null,
        };
        let decided = Decided {
            value,
            outcome: ResolutionOutcome::TimedOut,
            by: HOST.into(),
            ballot: None,
            turn: None,
        };
        self.end_guide(node);
        self.close(node, &decided, Some(ResolveReason::Timeout));
        self.resume_node(node);
        self.drain();
    }

    /// Records that an interrupt is closed.
    pub(super) fn close(&mut self, node: NodeIndex, decided: &Decided, reason: Option<ResolveReason>) {
        let Some(open) = self.state.interrupts.get(&self.node(node).id).cloned() else { return };
        let resolved = InterruptResolved {
            interrupt_id: open.id.clone(),
            kind: open.kind,
            node_id: self.node_id(node),
            outcome: decided.outcome.recorded(),
            reason,
            resolved_at: self.now,
            resolved_by: decided.by.clone(),
            resume_value: decided.value.clone(),
        };
        let cause = self.emit(resolved, Some(node), Some(open.sequence));
        self.record_resolution(node, &open, decided, cause);
        self.close_interrupt(open.id, open.deadline.is_some());
    }

    /// Records the additional event of approvals, clarifications and conversations.
    fn record_resolution(&mut self, node: NodeIndex, open: &Interrupt, decided: &Decided, cause: u64) {
        match open.kind {
            InterruptKind::Approval => match &decided.ballot {
                Some(ballot) => {
                    self.record_vote(node, ballot, &decided.value, Some(decided.outcome), Some(cause));
                }
                None if self.node(node).kind == NodeType::GovernanceGate => {
                    let rejected = ApprovalRejected {
                        gate_id: self.node_id(node),
                        principal: HOST.to_owned(),
                        reason: Some("timeout".to_owned()),
                    };
                    self.emit(rejected, Some(node), Some(cause));
                }
                None => {
                    let received = self.received(node, "timeout", HOST);
                    self.emit(received, Some(node), Some(cause));
                }
            },
            InterruptKind::Clarification if decided.outcome != ResolutionOutcome::TimedOut => {
                let answers = decided.value.get("answers").cloned().unwrap_or_else(|| json!({}));
                let (answered_by, node_id) = (decided.by.clone(), self.node_id(node));
                self.emit(ClarificationResolved { answered_by, answers, node_id }, Some(node), Some(cause));
            }
            InterruptKind::ConversationExchange => nodes::end_conversation(self, node, open, decided, cause),
            InterruptKind::Clarification
            | InterruptKind::ExternalEvent
            | InterruptKind::Custom
            | InterruptKind::ConversationStart
            | InterruptKind::ConversationClose
            | InterruptKind::LowConfidence => {}
        }
    }

    /// A decision at a gate, without optional members.
    fn received(&self, node: NodeIndex, action: &str, by: &str) -> ApprovalReceived {
        ApprovalReceived {
            action: action.to_owned(),
            comment: None,
            decided_at: self.now,
            decided_by: by.to_owned(),
            edited_artifact_data: None,
            feedback: None,
            node_id: self.node_id(node),
            outcome: None,
            quorum_progress: None,
            refine_feedback: None,
        }
    }

    fn record_vote(
        &mut self,
        node: NodeIndex,
        ballot: &Ballot,
        value: &Value,
        outcome: Option<ResolutionOutcome>,
        cause: Option<u64>,
    ) {
        let progress = QuorumProgress { granted: ballot.granted, required: ballot.required };
        if self.node(node).kind == NodeType::GovernanceGate {
            // The protocol allows no other members here: the gate is named by `gateId`, not by `nodeId`.
            let (gate_id, principal) = (self.node_id(node), ballot.voter.clone());
            let reason = ballot.reason.clone();
            let vote: EventData = match ballot.action.as_str() {
                "override" => ApprovalOverridden { gate_id, principal, reason }.into(),
                "reject" => ApprovalRejected { gate_id, principal, reason }.into(),
                _ => ApprovalGranted { gate_id, principal, quorum_progress: progress }.into(),
            };
            self.emit(vote, Some(node), cause);
            return;
        }
        let member = |name: &str| value.get(name).cloned();
        let of_several = ballot.required > 1;
        let received = ApprovalReceived {
            comment: member("comment"),
            feedback: member("feedback"),
            refine_feedback: member("refineFeedback"),
            edited_artifact_data: member("editedArtifactData"),
            quorum_progress: of_several.then_some(progress),
            outcome: outcome.filter(|_| of_several).map(ResolutionOutcome::recorded),
            ..self.received(node, &ballot.action, &ballot.voter)
        };
        self.emit(received, Some(node), cause);
    }

    /// Continues a node with the recorded answer.
    pub(super) fn resume_node(&mut self, node: NodeIndex) {
        let AnswerState::Given(resolution) = self.state.nodes[node].answer.clone() else { return };
        if self.state.nodes[node].status != crate::state::NodeStatus::Running {
            let resumed = NodeResumed {
                interrupt_id: resolution.interrupt.id.clone(),
                node_id: self.node_id(node),
                resume_value: resolution.value.clone(),
            };
            self.emit(resumed, Some(node), Some(resolution.sequence));
        }
        let step = nodes::answered(self, node, &resolution);
        self.settle(node, step, Some(resolution.sequence));
    }

    /// The error of a node whose interrupt timed out.
    pub(super) fn timed_out() -> RunError {
        RunError::of(FailureCode::InterruptTimeout, "the interrupt was not answered in time")
    }
}
