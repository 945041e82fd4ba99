//! W3C trace context: the parent span of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The value of the `traceparent` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceParent {
    pub trace_id: u128,
    /// The caller's span.
    pub span_id: u64,
    /// Whether the caller records the trace.
    pub sampled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`traceparent` must have the form `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`, in lower case, without an all-zero id"
)]
pub struct InvalidTraceParent;

impl TraceParent {
    /// Parses the header.
    ///
    /// # Errors
    /// The standard does not allow the value.
    pub fn parse(text: &str) -> Result<Self, InvalidTraceParent> {
        let hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let mut parts = text.split('-');
        let mut part = |length: usize| {
            parts.next().filter(|part| part.len() == length && hex(part)).ok_or(InvalidTraceParent)
        };
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        // Later versions may have more parts.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return Err(InvalidTraceParent);
        }
        let trace_id = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0);
        let span_id = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0);
        let flags = u8::from_str_radix(flags, 16).map_err(|_| InvalidTraceParent)?;
        Ok(Self {
            trace_id: trace_id.ok_or(InvalidTraceParent)?,
            span_id: span_id.ok_or(InvalidTraceParent)?,
            sampled: flags & 1 == 1,
        })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.sampled);
        write!(formatter, "00-{:032x}-{:016x}-{flags:02x}", self.trace_id, self.span_id)
    }
}

impl From<TraceParent> for String {
    fn from(parent: TraceParent) -> Self {
        parent.to_string()
    }
}

impl TryFrom<String> for TraceParent {
    type Error = InvalidTraceParent;

    fn try_from(text: String) -> Result<Self, InvalidTraceParent> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_parents_round_trip_and_others_are_refused() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        for text in [format!("00-{trace}-00f067aa0ba902b7-01"), format!("00-{trace}-00f067aa0ba902b7-00")] {
            assert_eq!(TraceParent::parse(&text).unwrap().to_string(), text);
        }
        assert!(TraceParent::parse(&format!("01-{trace}-00f067aa0ba902b7-01-more")).is_ok());
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
            assert_eq!(TraceParent::parse(&text), Err(InvalidTraceParent), "{text}");
        }
    }
}
