//! W3C trace context: the trace of a request, whose id is also its correlation id in the log.

use std::sync::atomic::{AtomicU64, Ordering};

use canon::encoding::{hex, write_hex};
use flow::trace::TraceParent;
use http::{HeaderMap, HeaderName, HeaderValue};
use system::Entropy;

pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Vendor-specific trace data. The reply repeats it unchanged.
pub(super) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// The maximum length that is passed on: the minimum that the standard requires.
pub(super) const MAX_TRACESTATE_BYTES: usize = 512;

/// The trace id and the span id of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceContext {
    trace_id: u128,
    span_id: u64,
    sampled: bool,
}

impl TraceContext {
    /// Continues the caller's trace or begins a new one. An invalid header also begins a new one, as the standard requires.
    pub(super) fn of(headers: &HeaderMap, ids: &Ids) -> Self {
        let parent = headers.get(TRACEPARENT).and_then(|value| TraceParent::parse(value.to_str().ok()?).ok());
        let (trace_id, sampled) = match parent {
            Some(TraceParent { trace_id, sampled, .. }) => (trace_id, sampled),
            None => (u128::from(ids.next()) << 64 | u128::from(ids.next()), false),
        };
        Self { trace_id, span_id: ids.next(), sampled }
    }

    /// The trace id as text.
    pub(super) fn id(self) -> String {
        hex(&self.trace_id.to_be_bytes())
    }

    /// The `traceparent` header of the reply.
    pub(super) fn header(self) -> Option<HeaderValue> {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        // Written with every reply, so it does not allocate.
        write_hex(&self.trace_id.to_be_bytes(), &mut text[3..35]);
        write_hex(&self.span_id.to_be_bytes(), &mut text[36..52]);
        text[54] = if self.sampled { b'1' } else { b'0' };
        HeaderValue::from_bytes(&text).ok()
    }
}

/// Generates ids of traces and spans that differ from each other and from those of other processes. They are not secret, so they
/// derive from one seed instead of a system call each.
pub(super) struct Ids {
    seed: u64,
    given: AtomicU64,
}

impl Ids {
    pub(super) fn new(entropy: &dyn Entropy) -> Self {
        let mut seed = [0; 8];
        // Without entropy, ids may collide with those of other processes. That only makes logs harder to read.
        let _ = entropy.fill(&mut seed);
        Self { seed: u64::from_le_bytes(seed), given: AtomicU64::new(0) }
    }

    /// SplitMix64: visits every number once, in a pseudorandom order.
    fn next(&self) -> u64 {
        let place = self.given.fetch_add(1, Ordering::Relaxed);
        let mut id = self.seed.wrapping_add(place.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        id = (id ^ id >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        id = (id ^ id >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        // Zero is not a valid id.
        (id ^ id >> 31).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_trace_is_continued_and_an_invalid_one_is_replaced() {
        let ids = Ids::new(&system::SeededEntropy::new(1));
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(TRACEPARENT, HeaderValue::from_str(text).unwrap());
            TraceContext::of(&headers, &ids)
        };
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let context = of(&format!("00-{trace}-00f067aa0ba902b7-01"));
        assert_eq!(context.id(), trace);
        assert!(context.sampled);
        assert_ne!(context.span_id, 0x00f0_67aa_0ba9_02b7, "the answer is a span of its own");
        let answered = format!("00-{trace}-{:016x}-01", context.span_id);
        assert_eq!(context.header().unwrap(), answered.as_str());
        assert_eq!(of(&answered).id(), trace, "the client can continue this trace");
        // The parser of `traceparent` has its own tests.
        assert_ne!(of(&format!("ff-{trace}-00f067aa0ba902b7-01")).id(), trace);
    }
}
