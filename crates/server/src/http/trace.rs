//! W3C trace context: where a request comes from, and under which id the log has it.

use std::fmt;

use host::system::Entropy;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The header.
pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The place of one request in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
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
            flags: 0,
        };
        let parent = headers.get(TRACEPARENT).and_then(|value| parse(value.to_str().ok()?));
        parent.map_or(own, |(trace_id, flags)| Self { trace_id, flags, ..own })
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
        write!(formatter, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

/// The trace and the flags of a header.
fn parse(text: &str) -> Option<(u128, u8)> {
    let hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let lengths = (version.len(), trace.len(), span.len(), flags.len()) == (2, 32, 16, 2);
    if !lengths || version == "ff" || ![version, trace, span, flags].into_iter().all(hex) {
        return None;
    }
    // A later version may have more parts, this one has not.
    if version == "00" && parts.next().is_some() {
        return None;
    }
    let trace_id = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
    u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
    Some((trace_id, u8::from_str_radix(flags, 16).ok()?))
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
        assert_eq!(context.flags, 1);
        assert_ne!(context.span_id, 0x00f0_67aa_0ba9_02b7, "the answer is a span of its own");
        assert_eq!(of(&format!("01-{trace}-00f067aa0ba902b7-01-more")).id(), trace);
        let refused = [
            String::new(),
            "00".to_owned(),
            format!("ff-{trace}-00f067aa0ba902b7-01"),
            format!("00-{trace}-00f067aa0ba902b7-01-more"),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()),
        ];
        for text in refused {
            assert_ne!(of(&text).id(), trace, "{text}");
        }
    }
}
