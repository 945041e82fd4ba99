//! How many bytes an event takes in the log.

use std::io;

use serde_json::{Map, Value};

use super::{Event, Payload};

/// What is around a payload: ids, the kind, the time, and the names of all of them.
const ENVELOPE_BYTES: u64 = 256;

/// How many bytes an event takes, its ids about and its payload exactly. Nothing is kept of what is written for that.
pub(crate) fn of_event(event: &Event) -> u64 {
    let mut counted = Counter(ENVELOPE_BYTES);
    serde_json::to_writer(&mut counted, &Payload(event)).expect("names are texts, so nothing can be refused");
    counted.0
}

/// Counts what is written.
struct Counter(u64);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn of_members(members: &Map<String, Value>) -> u64 {
    let members = members.iter().map(|(name, value)| of_text(name) + 2 + of_value(value));
    1 + members.sum::<u64>().max(1)
}

pub(crate) fn of_value(value: &Value) -> u64 {
    match value {
        Value::Null => 4,
        Value::Bool(value) => 5 - u64::from(*value),
        Value::Number(number) => of_number(number),
        Value::String(text) => of_text(text),
        Value::Array(items) => 1 + items.iter().map(|item| of_value(item) + 1).sum::<u64>().max(1),
        Value::Object(members) => of_members(members),
    }
}

fn of_number(number: &serde_json::Number) -> u64 {
    let digits = |number: u64| u64::from(number.checked_ilog10().unwrap_or_default()) + 1;
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => digits(number),
        (None, Some(number)) => digits(number.unsigned_abs()) + 1,
        (None, None) => number.to_string().len() as u64,
    }
}

/// A text with its quotes: control characters take six bytes, or two where JSON has a short form for them.
fn of_text(text: &str) -> u64 {
    let written = |byte: u8| match byte {
        b'"' | b'\\' | 0x08 | 0x09 | 0x0A | 0x0C | 0x0D => 2,
        0x00..=0x1F => 6,
        _ => 1,
    };
    2 + text.bytes().map(written).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_payload_is_as_large_as_it_is_written() {
        let values = [
            json!({}),
            json!({"a": null, "b": true, "c": false}),
            json!({"n": [0, 9, 10, -1, -10, u64::MAX, i64::MIN, 1.5, -0.25e-9]}),
            json!({"t": "plain", "e": "\"\\\u{8}\t\n\u{c}\r\u{0}\u{1f}\u{7f}ä"}),
            json!({"empty": {"list": [], "object": {}, "text": ""}, "\n": [[[]]]}),
        ];
        for value in values {
            assert_eq!(of_members(value.as_object().unwrap()), value.to_string().len() as u64, "{value}");
        }
    }
}
