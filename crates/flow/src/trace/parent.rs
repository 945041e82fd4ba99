//! W3C trace context: where a run comes from.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The caller's place in a trace, as the header `traceparent` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceParent {
    pub trace_id: u128,
    /// The caller's span.
    pub span_id: u64,
    /// Whether the caller records the trace.
    pub sampled: bool,
}

/// A text that is no `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a traceparent is two, 32, 16 and two lower-case hexadecimal digits with dashes between, neither id all zeros"
)]
pub struct NoTraceParent;

impl TraceParent {
    /// Reads the header.
    ///
    /// # Errors
    /// When it is none that the standard allows.
    pub fn parse(text: &str) -> Result<Self, NoTraceParent> {
        let hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let mut parts = text.split('-');
        let mut part = |length: usize| {
            parts.next().filter(|part| part.len() == length && hex(part)).ok_or(NoTraceParent)
        };
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        // A later version may have more parts, this one has not.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return Err(NoTraceParent);
        }
        let trace_id = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0);
        let span_id = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0);
        let flags = u8::from_str_radix(flags, 16).map_err(|_| NoTraceParent)?;
        Ok(Self {
            trace_id: trace_id.ok_or(NoTraceParent)?,
            span_id: span_id.ok_or(NoTraceParent)?,
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
    type Error = NoTraceParent;

    fn try_from(text: String) -> Result<Self, NoTraceParent> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_and_written_and_anything_else_is_refused() {
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
            assert_eq!(TraceParent::parse(&text), Err(NoTraceParent), "{text}");
        }
    }
}
