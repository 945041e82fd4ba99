//! The trace of a run, computed from its log, in the terms of OpenTelemetry.
//!
//! A run can take weeks and outlive many processes, so no span is kept in memory. When the run has ended, its spans are computed from the
//! log: the run, each attempt of a node, and each interrupt. Span ids are derived from the ids of the run. A child run therefore knows the id of its
//! parent span, and the same log always gives the same trace.

mod parent;
mod spans;

use canon::digest::Digest;
use canon::time::Timestamp;

pub use self::parent::{InvalidTraceParent, TraceParent};
use self::spans::SpanBuilder;
use crate::event::Event;
use crate::id::NodeId;
use crate::run::Genesis;

/// The maximum number of spans of one run. An attribute of the run counts the omitted ones.
pub const MAX_SPANS: usize = 10_000;
/// The maximum number of events in the span of a run.
pub const MAX_MOMENTS: usize = 1000;

/// An OpenTelemetry span.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub trace_id: u128,
    pub span_id: u64,
    pub parent_id: Option<u64>,
    /// `openwop.run`, `openwop.node.<typeId>` or `openwop.interrupt`.
    pub name: String,
    pub start: Timestamp,
    pub end: Timestamp,
    pub attributes: Vec<(&'static str, Attribute)>,
    /// The events during the span.
    pub moments: Vec<Moment>,
    /// The number of omitted events.
    pub moments_left_out: u32,
    /// The span of the run that this one was forked from.
    pub link: Option<(u128, u64)>,
    /// The status of the span.
    pub outcome: SpanStatus,
}

/// An event of the log, as a span event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The type of the event.
    pub kind: String,
    /// The sequence number of the event.
    pub sequence: u64,
    pub at: Timestamp,
}

/// The status of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanStatus {
    /// Successful.
    Ok,
    /// Failed with this error code.
    Failed(String),
    /// Cancelled, or still open when the run ended.
    Unset,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    Text(String),
    Texts(Vec<String>),
    Integer(u64),
    /// A floating-point number.
    Number(f64),
    Flag(bool),
}

/// The spans of a run that has ended; the span of the run is the first. `source` is the genesis of the run that this one was forked from.
///
/// Returns no spans if the caller that created the run decided not to sample the trace.
pub fn spans<'e>(
    genesis: &Genesis,
    source: Option<&Genesis>,
    events: impl IntoIterator<Item = &'e Event>,
) -> Vec<Span> {
    if genesis.trace.is_some_and(|parent| !parent.sampled) {
        return Vec::new();
    }
    let mut spans = SpanBuilder::new(genesis);
    for event in events {
        spans.add(event);
    }
    spans.end(source)
}

/// The trace parent of a child run that a node starts.
pub fn of_child(genesis: &Genesis, node_id: &NodeId, iteration: u32, attempt: u32) -> TraceParent {
    TraceParent {
        trace_id: trace_id(genesis),
        span_id: node_span(genesis.run_id.as_str(), node_id.as_str(), iteration, attempt),
        sampled: genesis.trace.is_none_or(|parent| parent.sampled),
    }
}

/// The trace of a run: the trace of the caller, or a trace of its own.
fn trace_id(genesis: &Genesis) -> u128 {
    genesis.trace.map_or_else(|| derived(&["trace", genesis.run_id.as_str()]), |parent| parent.trace_id)
}

fn run_span(run_id: &str) -> u64 {
    short(derived(&["run", run_id]))
}

/// The span id of an attempt of a node.
fn node_span(run_id: &str, node_id: &str, iteration: u32, attempt: u32) -> u64 {
    short(derived(&["node", run_id, node_id, &iteration.to_string(), &attempt.to_string()]))
}

fn interrupt_span(run_id: &str, interrupt_id: &str) -> u64 {
    short(derived(&["interrupt", run_id, interrupt_id]))
}

/// An id that is derived from names. It is never zero, because zero is an invalid id.
fn derived(names: &[&str]) -> u128 {
    let digest = Digest::of_bytes(names.join("\0").as_bytes());
    let (id, _) = digest.as_bytes().split_at(16);
    id.iter().fold(0_u128, |id, byte| id << 8 | u128::from(*byte)).max(1)
}

/// The upper half of an id; never zero.
fn short(id: u128) -> u64 {
    u64::try_from(id >> 64).unwrap_or(1).max(1)
}

/// The protocol version in spans and in the discovery document.
pub const PROTOCOL_VERSION: &str = "1.0.0";
