//! Dates and times in foreign documents.

/// Whether a string is an RFC 3339 date and time, syntactically.
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
    use canon::time::Timestamp;

    use super::*;

    #[test]
    fn accepts_own_timestamps() {
        for moment in [0, 951_782_400_000, 4_107_542_399_999, u64::MAX] {
            assert!(is_date_time(&Timestamp(moment).to_rfc3339()), "{moment}");
        }
    }

    #[test]
    fn rejects_invalid_dates() {
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
