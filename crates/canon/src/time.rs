//! Timestamps. Nothing here reads a clock.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use serde::{Deserialize, Serialize};

/// A point in time, in milliseconds since 1970-01-01 UTC.
///
/// Written as RFC 3339 in UTC with milliseconds, in exactly one spelling: the text order is the time order, and parsing
/// round-trips.
///
/// ```
/// use canon::time::Timestamp;
///
/// let moment = Timestamp(1_793_000_000_123);
/// assert_eq!(moment.to_rfc3339(), "2026-10-26T07:33:20.123Z");
/// assert_eq!(Timestamp::parse("2026-10-26T07:33:20.123Z"), Some(moment));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The end of the year 9999. Later times are written as this one.
    pub const LAST_WRITTEN: Self = Self(253_402_300_799_999);

    #[must_use]
    pub const fn plus(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }

    /// The milliseconds since `earlier`, or 0 if it is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `2026-01-31T12:00:00.000Z`.
    pub fn to_rfc3339(self) -> String {
        self.written(Some(3))
    }

    /// `2026-01-31T12:00:00Z`, for display.
    pub fn to_rfc3339_seconds(self) -> String {
        self.written(Some(0))
    }

    /// Parses the form of [`Timestamp::to_rfc3339`] and no other.
    pub fn parse(text: &str) -> Option<Self> {
        let local = text.strip_suffix('Z').filter(|local| local.len() == 23)?;
        let civil: DateTime = local.parse().ok()?;
        let days = civil.date().duration_since(EPOCH).as_hours() / 24;
        let of_day = civil.time().duration_since(jiff::civil::Time::midnight()).as_millis();
        let milliseconds = i128::from(days) * 86_400_000 + of_day;
        let moment = Self(u64::try_from(milliseconds).ok()?);
        // A text that does not round-trip is another spelling.
        (moment.to_rfc3339() == text).then_some(moment)
    }

    fn written(self, digits: Option<u8>) -> String {
        let mut text = String::with_capacity(24);
        let printer = jiff::fmt::temporal::DateTimePrinter::new().precision(digits);
        printer.print_datetime(&self.civil(), &mut text).expect("writing to a string cannot fail");
        text.push('Z');
        text
    }

    /// The date and time in UTC.
    fn civil(self) -> DateTime {
        let milliseconds = self.0.min(Self::LAST_WRITTEN.0);
        // jiff's instants end a day before its calendar, so that every time zone has a date for them. The last days of
        // the year 9999 are therefore counted from two days earlier.
        let (instant, moved) = match milliseconds.checked_sub(LAST_INSTANT_MS) {
            Some(beyond) if beyond > 0 => (milliseconds - 2 * DAY_MS, true),
            Some(_) | None => (milliseconds, false),
        };
        let instant = i64::try_from(instant).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let civil = Offset::UTC.to_datetime(instant.unwrap_or(jiff::Timestamp::MAX));
        if moved { civil.checked_add(jiff::Span::new().days(2)).unwrap_or(DateTime::MAX) } else { civil }
    }
}

const EPOCH: jiff::civil::Date = jiff::civil::date(1970, 1, 1);

const DAY_MS: u64 = 86_400_000;

/// The last whole millisecond of [`jiff::Timestamp::MAX`].
const LAST_INSTANT_MS: u64 = 253_402_207_200_999;

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.to_rfc3339())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn writes_utc_with_milliseconds() {
        for (milliseconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_793_000_000_123, "2026-10-26T07:33:20.123Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (4_107_542_400_123, "2100-03-01T00:00:00.123Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (LAST_INSTANT_MS, "9999-12-30T22:00:00.999Z"),
            (LAST_INSTANT_MS + 1, "9999-12-30T22:00:01.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp(milliseconds).to_rfc3339(), text);
            assert_eq!(Timestamp(milliseconds).to_string(), text);
            assert_eq!(Timestamp::parse(text), Some(Timestamp(milliseconds)));
        }
    }

    #[test]
    fn later_times_are_written_as_the_end_of_9999() {
        for beyond in [253_402_300_800_000, u64::MAX] {
            assert_eq!(Timestamp(beyond).to_rfc3339(), "9999-12-31T23:59:59.999Z");
        }
    }

    #[test]
    fn writes_whole_seconds() {
        for (milliseconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(Timestamp(milliseconds).to_rfc3339_seconds(), text);
        }
    }

    #[test]
    fn rejects_other_spellings() {
        for text in [
            "",
            "2026-02-30T00:00:00.000Z",
            "2026-01-01T24:00:00.000Z",
            "2026-01-01T23:59:60.000Z",
            "2026-01-01 00:00:00.000Z",
            "2026-01-01t00:00:00.000Z",
            "2026-01-01T00:00:00.000z",
            "2026-01-01T00:00:00,000Z",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00.0000Z",
            "2026-01-01T00:00:00.000+00:00",
            "1969-12-31T23:59:59.999Z",
            "10000-01-01T00:00:00.000Z",
            "ä026-01-01T00:00:00.00Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn timestamps_round_trip_and_sort_as_text(
            one in 0..=Timestamp::LAST_WRITTEN.0,
            other in 0..=Timestamp::LAST_WRITTEN.0,
        ) {
            let (one, other) = (Timestamp(one), Timestamp(other));
            prop_assert_eq!(Timestamp::parse(&one.to_rfc3339()), Some(one));
            prop_assert_eq!(one.cmp(&other), one.to_rfc3339().cmp(&other.to_rfc3339()));
        }

        #[test]
        fn parsing_is_total(text in ".{0,32}") {
            let _ = Timestamp::parse(&text);
        }
    }
}
