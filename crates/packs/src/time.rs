//! Moments, as documents write them. Nothing here reads a clock.

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970, as the caller's clock said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// The latest moment that is written: the end of the year 9999.
    const LAST: u64 = 253_402_300_799_999;

    /// The moment in RFC 3339, in UTC, with milliseconds.
    ///
    /// ```
    /// assert_eq!(packs::time::Millis(1_793_000_000_123).to_rfc3339(), "2026-10-26T07:33:20.123Z");
    /// ```
    pub fn to_rfc3339(self) -> String {
        let moment = self.0.min(Self::LAST);
        let (days, rest) = (moment / 86_400_000, moment % 86_400_000);
        let (year, month, day) = civil(days);
        let (seconds, milliseconds) = (rest / 1000, rest % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
    }

    /// The milliseconds from an earlier moment to this one.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The date of a day since 1970: years are counted from March, so that the leap day is the last of them.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Whether a text is a date and a time of RFC 3339, by its form.
pub(crate) fn is_date_time(text: &str) -> bool {
    let digits = |from: usize, count: usize| {
        text.get(from..from + count).is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let sign = |at: usize, allowed: &[u8]| text.as_bytes().get(at).is_some_and(|byte| allowed.contains(byte));
    let date = digits(0, 4) && sign(4, b"-") && digits(5, 2) && sign(7, b"-") && digits(8, 2);
    let time = sign(10, b"Tt")
        && digits(11, 2)
        && sign(13, b":")
        && digits(14, 2)
        && sign(16, b":")
        && digits(17, 2);
    if !date || !time {
        return false;
    }
    let mut rest = &text[19..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let end = fraction.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(fraction.len());
        if end == 0 {
            return false;
        }
        rest = &fraction[end..];
    }
    match rest.as_bytes() {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        for (moment, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Millis(moment).to_rfc3339(), text);
            assert!(is_date_time(text));
        }
    }

    #[test]
    fn what_is_no_date_and_time() {
        for text in [
            "",
            "2026-11-15",
            "2026-11-15 10:00:00Z",
            "2026-11-15T10:00:00",
            "2026-11-15T10:00:00.Z",
            "ä026-11-15T10:00:00Z",
        ] {
            assert!(!is_date_time(text), "{text}");
        }
        assert!(is_date_time("2026-11-15T10:00:00+01:00"));
    }
}
