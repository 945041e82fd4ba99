//! Times and durations as text.

/// The age of something in its largest unit.
pub(crate) fn age(now_ms: u64, then_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(then_ms) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The time of day in UTC.
pub(crate) fn clock(ms: u64) -> String {
    let second = ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", second / 3600, second % 3600 / 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_use_one_unit() {
        for (ms, expected) in
            [(0, "0s"), (59_999, "59s"), (60_000, "1m"), (7_200_000, "2h"), (200_000_000, "2d")]
        {
            assert_eq!(age(ms, 0), expected);
        }
        assert_eq!(age(0, 5), "0s", "a clock that was set back is tolerated");
        assert_eq!(clock(86_400_000 + 3_723_000), "01:02:03");
    }
}
