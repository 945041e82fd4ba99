//! Moments and stretches of time, for people.

/// How long ago something was, in its largest unit.
pub(crate) fn age(now_ms: u64, then_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(then_ms) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The time of day, in UTC.
pub(crate) fn clock(ms: u64) -> String {
    let second = ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", second / 3600, second % 3600 / 60, second % 60)
}

/// A moment as RFC 3339 has it, in UTC, in whole seconds.
pub(crate) fn iso(ms: u64) -> String {
    // Days to a date, by eras of 400 years that begin in March, where leap days come last.
    let days = ms / 86_400_000 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{}Z", clock(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit() {
        for (ms, expected) in
            [(0, "0s"), (59_999, "59s"), (60_000, "1m"), (7_200_000, "2h"), (200_000_000, "2d")]
        {
            assert_eq!(age(ms, 0), expected);
        }
        assert_eq!(age(0, 5), "0s", "a clock that was set back is no error");
        assert_eq!(clock(86_400_000 + 3_723_000), "01:02:03");
    }

    #[test]
    fn moments_are_dates() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(iso(ms), expected);
        }
    }
}
