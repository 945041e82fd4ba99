//! Spans of time in words.

/// `12 ms`, `1.5 s`, `4 min 50 s`, `2 h 28 min`, `3 d 4 h`.
pub(crate) fn span(milliseconds: u64) -> String {
    let (seconds, minutes, hours) = (milliseconds / 1000, milliseconds / 60_000, milliseconds / 3_600_000);
    match milliseconds {
        0..1000 => format!("{milliseconds} ms"),
        1000..60_000 => format!("{seconds}.{} s", milliseconds % 1000 / 100),
        60_000..3_600_000 => format!("{minutes} min {} s", seconds % 60),
        3_600_000..86_400_000 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

/// `30s`, `10m`, `24h`, `7d`, `500ms`, in milliseconds.
pub(crate) fn parse_span(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|character: char| character.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(format!("`{text}` is not a duration; use 500ms, 30s, 10m, 24h or 7d")),
    };
    let number = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number.ok_or_else(|| format!("`{text}` is not a duration; use 500ms, 30s, 10m, 24h or 7d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units_at_most() {
        for (milliseconds, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1500, "1.5 s"),
            (59_999, "59.9 s"),
            (290_000, "4 min 50 s"),
            (8_880_000, "2 h 28 min"),
            (273_600_000, "3 d 4 h"),
        ] {
            assert_eq!(span(milliseconds), expected);
        }
    }

    #[test]
    fn durations_are_a_number_and_a_unit() {
        for (text, expected) in [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("24h", 86_400_000)] {
            assert_eq!(parse_span(text), Ok(expected));
        }
        for text in
            ["", "h", "10", "-1h", "1.5h", "10 m", "99999999999999999999d", "18446744073709551615d", "é"]
        {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }
}
