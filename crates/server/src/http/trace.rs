//! W3C trace context: where a request comes from, and under which id the log has it.

use std::fmt;

use flow::trace::TraceParent;
use host::system::Entropy;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The header.
pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The place of one request in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceContext {
    trace_id: u128,
    span_id: u64,
    sampled: bool,
}

impl TraceContext {
    /// Goes on with the caller's trace, or begins one. A header that is none begins one too, as the standard wants.
    pub(super) fn of(headers: &HeaderMap, entropy: &dyn Entropy) -> Self {
        let mut random = [0_u8; 24];
        // Without entropy the ids are not unique: logs are harder to read, and nothing else.
        let _ = entropy.fill(&mut random);
        let (trace, span) = random.split_at(16);
        let own = Self {
            trace_id: trace.iter().fold(0, |id, byte| id << 8 | u128::from(*byte)),
            span_id: span.iter().fold(0, |id, byte| id << 8 | u64::from(*byte)),
            sampled: false,
        };
        let parent = headers.get(TRACEPARENT).and_then(|value| TraceParent::parse(value.to_str().ok()?).ok());
        parent.map_or(own, |TraceParent { trace_id, sampled, .. }| Self { trace_id, sampled, ..own })
    }

    /// The id of the trace, as text.
    pub(super) fn id(self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// The header of the answer.
    pub(super) fn header(self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.to_string()).ok()
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_goes_on_and_anything_else_begins_one() {
        let entropy = host::system::SeededEntropy::new(1);
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(TRACEPARENT, HeaderValue::from_str(text).unwrap());
            TraceContext::of(&headers, &entropy)
        };
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let context = of(&format!("00-{trace}-00f067aa0ba902b7-01"));
        assert_eq!(context.id(), trace);
        assert!(context.sampled);
        assert_ne!(context.span_id, 0x00f0_67aa_0ba9_02b7, "the answer is a span of its own");
        // What a parent is, its own tests say.
        assert_ne!(of(&format!("ff-{trace}-00f067aa0ba902b7-01")).id(), trace);
    }
}
