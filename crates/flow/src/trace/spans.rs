//! Computes spans from events.

use std::collections::BTreeMap;

use canon::time::Timestamp;
use serde_json::{Map, Value};

use super::{Attribute, MAX_MOMENTS, MAX_SPANS, Moment, PROTOCOL_VERSION, Span, SpanStatus};
use super::{interrupt_span, node_span, run_span, trace_id};
use crate::engine::COST_ATTRIBUTES;
use crate::event::data::interrupt::InterruptRequested;
use crate::event::data::node::NodeStarted;
use crate::event::{Event, EventData};
use crate::id::NodeId;
use crate::interrupt::InterruptKind;
use crate::redact;
use crate::run::{ForkMode, Genesis};
use crate::state::RunError;

/// Reads the events of a run in order and collects its spans.
pub(super) struct SpanBuilder<'g> {
    genesis: &'g Genesis,
    trace_id: u128,
    /// The latest attempt of each node.
    nodes: BTreeMap<String, Attempt>,
    /// The open interrupts by id.
    interrupts: BTreeMap<String, OpenInterrupt>,
    asked: u64,
    spans: Vec<Span>,
    left_out: u64,
    moments: Vec<Moment>,
    moments_left_out: u32,
    /// Attributes of the run that were collected from events.
    attributes: Vec<(&'static str, Attribute)>,
    start: Timestamp,
    end: Timestamp,
    outcome: SpanStatus,
    diverged: bool,
}

/// An attempt of a node.
struct Attempt {
    type_id: String,
    iteration: u32,
    attempt: u32,
    start: Timestamp,
    is_open: bool,
}

/// An interrupt that is not resolved yet.
struct OpenInterrupt {
    node_id: String,
    kind: InterruptKind,
    count: u64,
    start: Timestamp,
}

impl<'g> SpanBuilder<'g> {
    pub(super) fn new(genesis: &'g Genesis) -> Self {
        Self {
            genesis,
            trace_id: trace_id(genesis),
            nodes: BTreeMap::new(),
            interrupts: BTreeMap::new(),
            asked: 0,
            spans: Vec::new(),
            left_out: 0,
            moments: Vec::new(),
            moments_left_out: 0,
            attributes: Vec::new(),
            start: genesis.created_at,
            end: genesis.created_at,
            outcome: SpanStatus::Unset,
            diverged: false,
        }
    }

    pub(super) fn add(&mut self, event: &Event) {
        // Events that a fork copied belong to the trace of its source. Attempts and interrupts that are still open continue in the fork.
        let is_copied = self.genesis.fork.as_ref().is_some_and(|fork| event.sequence < fork.from_sequence);
        let at = if is_copied { self.start } else { event.timestamp.max(self.start) };
        if !is_copied {
            self.end = self.end.max(at);
            self.add_moment(event, at);
        }
        let node_id = event.node_id.as_ref().map(NodeId::as_str).unwrap_or_default();
        match &event.data {
            EventData::NodeStarted(started) => self.begin(node_id, started, at),
            EventData::NodeCompleted(completed) => {
                self.finish(node_id, completed.outputs.as_ref(), at, SpanStatus::Ok, is_copied);
            }
            EventData::NodeFailed(failed) => {
                self.finish(node_id, None, at, failure(&failed.error), is_copied);
            }
            EventData::NodeRetried(retried) => {
                self.finish(node_id, None, at, failure(&retried.last_error), is_copied);
            }
            EventData::NodeCancelled(_) => self.finish(node_id, None, at, SpanStatus::Unset, is_copied),
            EventData::InterruptRequested(requested) => self.ask(node_id, requested, at),
            EventData::InterruptResolved(resolved) => {
                self.answer(resolved.interrupt_id.as_str(), at, is_copied);
            }
            EventData::CapBreached(breached) if !is_copied => {
                let kind = Attribute::Text(redact::text(&breached.kind).into_owned());
                self.attributes.extend([
                    ("openwop.cap_kind", kind),
                    ("openwop.cap_limit", Attribute::Integer(breached.limit)),
                    ("openwop.cap_observed", Attribute::Integer(breached.observed)),
                ]);
            }
            EventData::ReplayDiverged(_) => self.diverged = true,
            EventData::RunCompleted(_) => self.outcome = SpanStatus::Ok,
            EventData::RunFailed(failed) => self.outcome = failure(&failed.error),
            // These are span events of the run. They neither start nor end a span.
            EventData::RunStarted(_)
            | EventData::RunCancelled(_)
            | EventData::RunPaused(_)
            | EventData::RunResumed(_)
            | EventData::PauseRequested(_)
            | EventData::CapBreached(_)
            | EventData::NodeSuspended(_)
            | EventData::NodeResumed(_)
            | EventData::NodeSkipped(_)
            | EventData::NodeDispatched(_)
            | EventData::ApprovalRequested(_)
            | EventData::ApprovalReceived(_)
            | EventData::ApprovalGranted(_)
            | EventData::ApprovalRejected(_)
            | EventData::ApprovalOverridden(_)
            | EventData::ClarificationRequested(_)
            | EventData::ClarificationResolved(_)
            | EventData::ChannelWritten(_)
            | EventData::ArtifactCreated(_)
            | EventData::OutputChunk(_)
            | EventData::VariableChanged(_)
            | EventData::LogAppended(_)
            | EventData::VersionPinned(_)
            | EventData::LoopbackLimit(_)
            | EventData::AgentReasoned(_)
            | EventData::AgentReasoningDelta(_)
            | EventData::AgentToolCalled(_)
            | EventData::AgentToolReturned(_)
            | EventData::AgentHandoff(_)
            | EventData::AgentDecided(_)
            | EventData::OrchestratorDecided(_)
            | EventData::ConversationOpened(_)
            | EventData::ConversationExchanged(_)
            | EventData::ConversationClosed(_)
            | EventData::WorkflowChainEvent(_)
            | EventData::ConfidenceEscalated(_)
            | EventData::DispatchFanOut(_)
            | EventData::DispatchJoin(_)
            | EventData::ModelCapabilityInsufficient(_)
            | EventData::ModelCapabilitySubstituted(_)
            | EventData::ProviderUsage(_)
            | EventData::EnvelopeRetryAttempted(_)
            | EventData::EnvelopeRetryExhausted(_)
            | EventData::EnvelopeRefusal(_)
            | EventData::EnvelopeTruncated(_)
            | EventData::EnvelopeNlToFormatEngaged(_)
            | EventData::EnvelopeRecoveryApplied(_)
            | EventData::AgentPromptResolved(_)
            | EventData::PromptComposed(_)
            | EventData::Other { .. } => {}
        }
    }

    /// Closes the open spans, and returns all spans with the span of the run first.
    pub(super) fn end(mut self, source: Option<&Genesis>) -> Vec<Span> {
        let open: Vec<String> =
            self.nodes.iter().filter(|(_, attempt)| attempt.is_open).map(|(id, _)| id.clone()).collect();
        for node_id in open {
            self.close(&node_id, self.end, SpanStatus::Unset, Vec::new());
        }
        let open: Vec<String> = self.interrupts.keys().cloned().collect();
        for interrupt_id in open {
            self.close_interrupt(&interrupt_id, self.end);
        }
        let genesis = self.genesis;
        let mut attributes = self.common();
        attributes.push(("openwop.protocol_version", text(PROTOCOL_VERSION)));
        attributes.push(("openwop.tenant_id", text(genesis.tenant.as_str())));
        attributes.extend(genesis.scope_id.as_deref().map(|scope| ("openwop.scope_id", text(scope))));
        if !genesis.tags.is_empty() {
            let tags = genesis.tags.iter().map(|tag| redact::text(tag).into_owned()).collect();
            attributes.push(("openwop.run.tags", Attribute::Texts(tags)));
        }
        if let Some(parent) = genesis.parent.as_ref().filter(|_| genesis.fork.is_none()) {
            attributes.push(("openwop.parent.run_id", text(parent.run_id.as_str())));
            attributes.push(("openwop.parent.node_id", text(parent.node_id.as_str())));
        }
        if let Some(fork) = &genesis.fork {
            let mode = match fork.mode {
                ForkMode::Replay => "replay",
                ForkMode::Branch => "branch",
            };
            attributes.push(("openwop.replay.source_run_id", text(fork.source_run_id.as_str())));
            attributes.push(("openwop.replay.from_seq", Attribute::Integer(fork.from_sequence)));
            attributes.push(("openwop.replay.mode", text(mode)));
            attributes.push(("openwop.replay.diverged", Attribute::Flag(self.diverged)));
        }
        attributes.append(&mut self.attributes);
        if self.left_out > 0 {
            attributes.push(("openwop.spans_left_out", Attribute::Integer(self.left_out)));
        }
        let run = Span {
            trace_id: self.trace_id,
            span_id: run_span(genesis.run_id.as_str()),
            parent_id: genesis.trace.map(|parent| parent.span_id),
            name: "openwop.run".to_owned(),
            start: self.start,
            end: self.end,
            attributes,
            moments: self.moments,
            moments_left_out: self.moments_left_out,
            link: source.map(|source| (trace_id(source), run_span(source.run_id.as_str()))),
            outcome: self.outcome,
        };
        let mut spans = vec![run];
        spans.append(&mut self.spans);
        spans
    }

    fn common(&self) -> Vec<(&'static str, Attribute)> {
        vec![
            ("openwop.run_id", text(self.genesis.run_id.as_str())),
            ("openwop.workflow_id", text(self.genesis.workflow_id.as_str())),
        ]
    }

    fn add_moment(&mut self, event: &Event, at: Timestamp) {
        if self.moments.len() < MAX_MOMENTS {
            let kind = event.kind().as_str().to_owned();
            self.moments.push(Moment { kind, sequence: event.sequence, at });
        } else {
            self.moments_left_out = self.moments_left_out.saturating_add(1);
        }
    }

    fn begin(&mut self, node_id: &str, started: &NodeStarted, at: Timestamp) {
        let attempt = started.attempt;
        // Attempt 0 of a node that already had an attempt starts a new iteration of a loop.
        let before = self.nodes.get(node_id).map(|known| known.iteration);
        let iteration = before.map_or(0, |before| before + u32::from(attempt == 0));
        let type_id = started.type_id.clone().into_owned();
        let started = Attempt { type_id, iteration, attempt, start: at, is_open: true };
        self.nodes.insert(node_id.to_owned(), started);
    }

    fn finish(
        &mut self,
        node_id: &str,
        outputs: Option<&Map<String, Value>>,
        at: Timestamp,
        outcome: SpanStatus,
        is_copied: bool,
    ) {
        if is_copied {
            if let Some(attempt) = self.nodes.get_mut(node_id) {
                attempt.is_open = false;
            }
            return;
        }
        // Only outputs with these names become attributes; other outputs may be confidential.
        let cost = COST_ATTRIBUTES.iter().filter_map(|name| {
            attribute(outputs.and_then(|outputs| outputs.get(*name))).map(|value| (*name, value))
        });
        let cost = cost.collect();
        self.close(node_id, at, outcome, cost);
    }

    fn close(
        &mut self,
        node_id: &str,
        at: Timestamp,
        outcome: SpanStatus,
        more: Vec<(&'static str, Attribute)>,
    ) {
        let Some(attempt) = self.nodes.get_mut(node_id).filter(|attempt| attempt.is_open) else { return };
        attempt.is_open = false;
        let (iteration, number) = (attempt.iteration, attempt.attempt);
        let (name, start) = (format!("openwop.node.{}", attempt.type_id), attempt.start);
        let node_type = text(&attempt.type_id);
        let mut attributes = self.common();
        attributes.push(("openwop.node_id", text(node_id)));
        attributes.push(("openwop.node_type", node_type));
        attributes.push(("openwop.node_attempt", Attribute::Integer(number.into())));
        attributes.extend(more);
        let span_id = node_span(self.genesis.run_id.as_str(), node_id, iteration, number);
        self.push(span_id, run_span(self.genesis.run_id.as_str()), name, (start, at), attributes, outcome);
    }

    fn ask(&mut self, node_id: &str, requested: &InterruptRequested, at: Timestamp) {
        self.asked += 1;
        let interrupt =
            OpenInterrupt { node_id: node_id.to_owned(), kind: requested.kind, count: self.asked, start: at };
        self.interrupts.insert(requested.interrupt_id.to_string(), interrupt);
    }

    fn answer(&mut self, interrupt_id: &str, at: Timestamp, is_copied: bool) {
        if is_copied {
            self.interrupts.remove(interrupt_id);
        } else {
            self.close_interrupt(interrupt_id, at);
        }
    }

    fn close_interrupt(&mut self, interrupt_id: &str, at: Timestamp) {
        let Some(interrupt) = self.interrupts.remove(interrupt_id) else { return };
        let run_id = self.genesis.run_id.as_str();
        let parent = self.nodes.get(&interrupt.node_id).map_or_else(
            || run_span(run_id),
            |attempt| node_span(run_id, &interrupt.node_id, attempt.iteration, attempt.attempt),
        );
        let mut attributes = self.common();
        attributes.push(("openwop.node_id", text(&interrupt.node_id)));
        attributes.push(("openwop.interrupt_kind", text(interrupt.kind.as_str())));
        attributes.push(("openwop.interrupt_id", text(interrupt_id)));
        attributes.push(("openwop.interrupt_count", Attribute::Integer(interrupt.count)));
        let (span_id, name) = (interrupt_span(run_id, interrupt_id), "openwop.interrupt".to_owned());
        self.push(span_id, parent, name, (interrupt.start, at), attributes, SpanStatus::Unset);
    }

    fn push(
        &mut self,
        span_id: u64,
        parent_id: u64,
        name: String,
        (start, end): (Timestamp, Timestamp),
        attributes: Vec<(&'static str, Attribute)>,
        outcome: SpanStatus,
    ) {
        // The last one is reserved for the run.
        if self.spans.len() + 1 >= MAX_SPANS {
            self.left_out += 1;
            return;
        }
        self.spans.push(Span {
            trace_id: self.trace_id,
            span_id,
            parent_id: Some(parent_id),
            name,
            start,
            end,
            attributes,
            moments: Vec::new(),
            moments_left_out: 0,
            link: None,
            outcome,
        });
    }
}

fn text(text: &str) -> Attribute {
    Attribute::Text(text.to_owned())
}

/// Converts a scalar value to an attribute.
fn attribute(value: Option<&Value>) -> Option<Attribute> {
    match value? {
        Value::String(text) => Some(Attribute::Text(redact::text(text).into_owned())),
        Value::Bool(flag) => Some(Attribute::Flag(*flag)),
        Value::Number(number) => match number.as_u64() {
            Some(number) => Some(Attribute::Integer(number)),
            None => number.as_f64().map(Attribute::Number),
        },
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The code of an error. The message is left out, because it may quote data of the run.
fn failure(error: &RunError) -> SpanStatus {
    SpanStatus::Failed(error.code.clone())
}
