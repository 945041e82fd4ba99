//! Events as the bytes that are stored, streamed and polled.
//!
//! An event is serialised once, when it is appended. A reader copies the bytes.

use canon::json;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Event, EventKind, Millis, event_id};

/// The version of the log's format that this program writes.
pub const LOG_SCHEMA_VERSION: u32 = 2;

/// An event as it is written. The members are in the order of their names, as everywhere.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'e> {
    #[serde(skip_serializing_if = "Option::is_none")]
    causation_id: Option<&'e str>,
    event_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<&'e str>,
    payload: &'e Map<String, Value>,
    run_id: &'e str,
    sequence: u64,
    timestamp: String,
    r#type: &'e str,
}

/// The JSON text of an event.
pub fn encode(run_id: &str, event: &Event) -> String {
    let written = Written {
        causation_id: event.causation_id.as_deref(),
        event_id: event_id(run_id, event.sequence),
        node_id: event.node_id.as_deref(),
        payload: &event.payload,
        run_id,
        sequence: event.sequence,
        timestamp: timestamp(event.timestamp),
        r#type: event.kind.as_str(),
    };
    let mut text = Vec::with_capacity(512);
    serde_json::to_writer(&mut text, &written).expect("names are texts, so nothing can be refused");
    String::from_utf8(text).expect("JSON is text")
}

/// What is wrong with the bytes of an event.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is no JSON.
    #[error("the event is no JSON")]
    Json(#[from] json::ReadError),
    /// A member is missing or of another type.
    #[error("the event has no usable `{0}`")]
    Member(&'static str),
}

/// Reads an event back.
///
/// # Errors
/// When it is not one that [`encode`] wrote, or that a later version wrote with more members.
pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
    let Value::Object(mut document) = json::read(bytes, &json::Limits::default())? else {
        return Err(DecodeError::Member("eventId"));
    };
    let text = |document: &Map<String, Value>, name: &'static str| {
        document.get(name).and_then(Value::as_str).map(str::to_owned).ok_or(DecodeError::Member(name))
    };
    Ok(Event {
        sequence: document.get("sequence").and_then(Value::as_u64).ok_or(DecodeError::Member("sequence"))?,
        kind: EventKind::parse(&text(&document, "type")?),
        node_id: text(&document, "nodeId").ok(),
        timestamp: parse_timestamp(&text(&document, "timestamp")?).ok_or(DecodeError::Member("timestamp"))?,
        causation_id: text(&document, "causationId").ok(),
        payload: match document.remove("payload") {
            Some(Value::Object(payload)) => payload,
            _ => return Err(DecodeError::Member("payload")),
        },
    })
}

/// A moment as `2026-01-31T12:00:00.000Z`.
pub fn timestamp(moment: Millis) -> String {
    let (days, rest) = (moment.0 / 86_400_000, moment.0 % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    // By hand: there is one in every event, and two in every node of a snapshot.
    let mut text = String::with_capacity(24);
    for (number, width, after) in [
        (year, 4, '-'),
        (month, 2, '-'),
        (day, 2, 'T'),
        (hour, 2, ':'),
        (minute, 2, ':'),
        (second, 2, '.'),
        (rest % 1000, 3, 'Z'),
    ] {
        push_digits(&mut text, number, width);
        text.push(after);
    }
    text
}

/// A number in decimal digits, so many at least.
fn push_digits(text: &mut String, number: u64, width: u32) {
    let mut unit = 10_u64.pow(width - 1);
    while number / unit >= 10 {
        unit *= 10;
    }
    while unit > 0 {
        text.push(char::from(b"0123456789"[usize::try_from(number / unit % 10).unwrap_or(0)]));
        unit /= 10;
    }
}

/// The moment that [`timestamp`] wrote.
pub fn parse_timestamp(text: &str) -> Option<Millis> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    if text.len() != 24 || !text.ends_with('Z') {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let milliseconds =
        number(11..13)? * 3_600_000 + number(14..16)? * 60_000 + number(17..19)? * 1000 + number(20..23)?;
    let moment = Millis(days_of(year, month, day)? * 86_400_000 + milliseconds);
    // One spelling per moment: whatever is not written back as itself was no such spelling.
    (timestamp(moment) == text).then_some(moment)
}

/// Year, month and day of a number of days since 1970-01-01, in the proleptic Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the day that comes and goes is the last of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

fn days_of(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_in_words() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_793_000_000_123, "2026-10-26T07:33:20.123Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ];
        assert_eq!(timestamp(Millis(253_402_300_800_000)), "10000-01-01T00:00:00.000Z");
        for (milliseconds, text) in cases {
            assert_eq!(timestamp(Millis(milliseconds)), text);
            assert_eq!(parse_timestamp(text), Some(Millis(milliseconds)));
        }
        for text in ["", "2026-02-30T00:00:00.000Z", "2026-01-01T24:00:00.000Z", "2026-01-01 00:00:00.000Z"] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn an_event_is_read_back_as_itself() {
        let mut payload = Map::new();
        payload.insert("nodeId".into(), "a".into());
        let event = Event {
            sequence: 7,
            kind: EventKind::NodeStarted,
            node_id: Some("a".into()),
            payload,
            timestamp: Millis(1_793_000_000_123),
            causation_id: Some("evt_r_6".into()),
        };
        assert_eq!(decode(encode("r", &event).as_bytes()).unwrap(), event);
    }
}
