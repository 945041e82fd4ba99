//! The trace of a run: a view of its log, in the words of OpenTelemetry.
//!
//! A run may take weeks and outlive many processes, so no span is kept open in memory. They are read off the log when the run is at
//! its end: the run itself, each attempt of a node, each question that was asked. Ids are derived from those of the run, so a
//! child knows the span that it belongs under without asking, and the same log gives the same trace wherever it is read.

mod parent;
mod walk;

use canon::digest::Digest;
use canon::time::Timestamp;

pub use self::parent::{NoTraceParent, TraceParent};
use self::walk::Walk;
use crate::event::Event;
use crate::id::NodeId;
use crate::run::Genesis;

/// The most spans of one run. What is left out is counted in an attribute of the run.
pub const MAX_SPANS: usize = 10_000;
/// The most events that the span of a run shows.
pub const MAX_MOMENTS: usize = 1000;

/// A piece of work with a beginning and an end.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub trace_id: u128,
    pub span_id: u64,
    /// The span that it belongs under.
    pub parent_id: Option<u64>,
    /// `openwop.run`, `openwop.node.<typeId>` or `openwop.interrupt`.
    pub name: String,
    /// When it began.
    pub start: Timestamp,
    pub end: Timestamp,
    /// What is known of it.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// What happened meanwhile.
    pub moments: Vec<Moment>,
    /// How many of them were left out.
    pub moments_left_out: u32,
    /// The span of the run that this one was forked from.
    pub link: Option<(u128, u64)>,
    /// How it ended.
    pub outcome: Outcome,
}

/// An event of the log, in its span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The type of the event.
    pub kind: String,
    /// Its place in the log.
    pub sequence: u64,
    pub at: Timestamp,
}

/// How a span ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Ok,
    /// With an error of this code.
    Failed(String),
    /// Somebody ended it, or nobody needed it any more.
    Unset,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    Text(String),
    /// Some texts.
    Texts(Vec<String>),
    /// A whole number.
    Integer(u64),
    /// Any number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
}

/// The spans of a run that is at its end, that of the run first. `source` is the run that it was forked from, where it was.
///
/// None where whoever created the run traces and chose not to record this one.
pub fn spans<'e>(
    genesis: &Genesis,
    source: Option<&Genesis>,
    events: impl IntoIterator<Item = &'e Event>,
) -> Vec<Span> {
    if genesis.trace.is_some_and(|parent| !parent.sampled) {
        return Vec::new();
    }
    let mut walk = Walk::new(genesis);
    for event in events {
        walk.step(event);
    }
    walk.end(source)
}

/// Where a child stands that a node of this run starts.
pub fn of_child(genesis: &Genesis, node_id: &NodeId, iteration: u32, attempt: u32) -> TraceParent {
    TraceParent {
        trace_id: trace_id(genesis),
        span_id: node_span(genesis.run_id.as_str(), node_id.as_str(), iteration, attempt),
        sampled: genesis.trace.is_none_or(|parent| parent.sampled),
    }
}

/// The trace that a run is part of: the caller's, or its own.
fn trace_id(genesis: &Genesis) -> u128 {
    genesis.trace.map_or_else(|| derived(&["trace", genesis.run_id.as_str()]), |parent| parent.trace_id)
}

/// The span of a run.
fn run_span(run_id: &str) -> u64 {
    short(derived(&["run", run_id]))
}

/// The span of an attempt of a node.
fn node_span(run_id: &str, node_id: &str, iteration: u32, attempt: u32) -> u64 {
    short(derived(&["node", run_id, node_id, &iteration.to_string(), &attempt.to_string()]))
}

/// The span of a question.
fn interrupt_span(run_id: &str, interrupt_id: &str) -> u64 {
    short(derived(&["interrupt", run_id, interrupt_id]))
}

/// An id that follows from names, and is not zero, which would be none.
fn derived(names: &[&str]) -> u128 {
    let digest = Digest::of_bytes(names.join("\0").as_bytes());
    let (id, _) = digest.as_bytes().split_at(16);
    id.iter().fold(0_u128, |id, byte| id << 8 | u128::from(*byte)).max(1)
}

fn short(id: u128) -> u64 {
    u64::try_from(id >> 64).unwrap_or(1).max(1)
}

/// The version of the protocol that spans and discovery name.
pub const PROTOCOL_VERSION: &str = "1.0.0";
