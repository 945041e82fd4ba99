//! ISO 8601 dates and times, counted from the year 2000 as in PostgreSQL.

use canon::time::Timestamp;

const DAY: i64 = 86_400_000_000;
/// Milliseconds from 1970 to 2000.
const YEAR_2000_MS: i64 = 946_684_800_000;

pub(crate) fn utc(at: Timestamp) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    moment(millis.saturating_sub(YEAR_2000_MS).saturating_mul(1000), "Z")
}

/// A timestamp with that zone suffix.
pub(crate) fn moment(micros: i64, zone: &str) -> String {
    match micros {
        i64::MAX => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        _ => format!("{}T{}{zone}", day(micros.div_euclid(DAY)), time(micros.rem_euclid(DAY))),
    }
}

pub(crate) fn date(days: i32) -> String {
    match days {
        i32::MAX => "infinity".to_owned(),
        i32::MIN => "-infinity".to_owned(),
        _ => day(days.into()),
    }
}

/// A time of day, without trailing zeros.
pub(crate) fn time(micros: i64) -> String {
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = format!("{hours:02}:{minutes:02}:{seconds:02}");
    if micros > 0 {
        text.push_str(format!(".{micros:06}").trim_end_matches('0'));
    }
    text
}

/// The date that many days after 1 January 2000.
fn day(days: i64) -> String {
    // Years start in March here, so the leap day is the last day. 400 years have 146,097 days; such a cycle starts on 1
    // March 2000, 60 days after 1 January.
    let days = days - 60;
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    // Leap days before this day are subtracted.
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months of 31, 30, 31, 30, 31 days repeat: 153 days for five.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = 2000 + 400 * cycle + year + next;
    if (0..=9999).contains(&year) {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        // The ISO 8601 form of years with more than four digits.
        format!("{}{:06}-{month:02}-{day:02}", if year < 0 { '-' } else { '+' }, year.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_dates() {
        let table = [
            (0, "2000-01-01"),
            (59, "2000-02-29"),
            (60, "2000-03-01"),
            (366, "2001-01-01"),
            (-1, "1999-12-31"),
            (-10_957, "1970-01-01"),
            (9_815, "2026-11-15"),
            (36_525, "2100-01-01"),
            (36_583, "2100-02-28"),
            (36_584, "2100-03-01"),
            (i32::MAX, "infinity"),
        ];
        for (days, expected) in table {
            assert_eq!(date(days), expected, "{days}");
        }
        assert_eq!(date(i32::MAX - 1).as_bytes()[0], b'+');
    }

    #[test]
    fn formats_timestamps() {
        assert_eq!(moment(0, "Z"), "2000-01-01T00:00:00Z");
        assert_eq!(moment(-1, "Z"), "1999-12-31T23:59:59.999999Z");
        assert_eq!(moment(1_500_000, ""), "2000-01-01T00:00:01.5");
        assert_eq!(moment(i64::MAX, "Z"), "infinity");
        assert_eq!(moment(i64::MIN, "Z"), "-infinity");
        assert_eq!(time(DAY - 1), "23:59:59.999999");
        assert_eq!(utc(Timestamp(0)), "1970-01-01T00:00:00Z");
        assert_eq!(utc(Timestamp(1_700_000_000_250)), "2023-11-14T22:13:20.25Z");
    }
}
