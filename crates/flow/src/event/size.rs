//! The size of events in the log.

use std::io;

use serde_json::{Map, Value};

use super::{Event, Payload};

/// The estimated size of everything except the payload: ids, kind, time, and member names.
const ENVELOPE_BYTES: u64 = 256;

/// The size of an event in bytes: its payload exactly, the rest estimated. The payload is serialized into a counter and not stored.
pub(crate) fn of_event(event: &Event) -> u64 {
    let mut counted = Counter(ENVELOPE_BYTES);
    serde_json::to_writer(&mut counted, &Payload(event))
        .expect("all member names are strings, so serialization cannot fail");
    counted.0
}

/// Counts the bytes that are written to it.
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

/// The size of a string with its quotes: control characters take six bytes, or two if JSON has a short escape for them.
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
    fn the_computed_size_of_a_payload_is_its_serialized_length() {
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
