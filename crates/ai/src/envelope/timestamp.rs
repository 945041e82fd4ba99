//! Validates RFC 3339 timestamps.

/// Whether a string is an RFC 3339 date and time with an offset.
pub fn is_timestamp(text: &str) -> bool {
    checked(text.as_bytes()).is_some()
}

fn checked(bytes: &[u8]) -> Option<()> {
    let digits = |from: usize, count: usize| -> Option<u32> {
        let part = bytes.get(from..from + count)?;
        part.iter()
            .try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + u32::from(byte - b'0')))
    };
    let is = |place: usize, allowed: &[u8]| {
        bytes.get(place).is_some_and(|byte| allowed.contains(byte)).then_some(())
    };
    let (year, month, day) = (digits(0, 4)?, digits(5, 2)?, digits(8, 2)?);
    let (hour, minute, second) = (digits(11, 2)?, digits(14, 2)?, digits(17, 2)?);
    is(4, b"-")?;
    is(7, b"-")?;
    is(10, b"Tt")?;
    is(13, b":")?;
    is(16, b":")?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    // A leap second is the last second of a day in some time zone.
    if !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 60 || (second == 60 && minute != 59)
    {
        return None;
    }
    let mut rest = bytes.get(19..)?;
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=18).contains(&length) {
            return None;
        }
        rest = &fraction[length..];
    }
    match rest {
        b"Z" | b"z" => Some(()),
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            let two = |a: &u8, b: &u8| {
                (a.is_ascii_digit() && b.is_ascii_digit()).then(|| (a - b'0') * 10 + b - b'0')
            };
            (two(h1, h2)? <= 23 && two(m1, m2)? <= 59).then_some(())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_timestamps() {
        for text in [
            "2026-05-18T10:00:00Z",
            "2024-02-29T23:59:60.123456Z",
            "2026-05-18t10:00:00+02:30",
            "0000-01-01T00:00:00-23:59",
        ] {
            assert!(is_timestamp(text), "{text}");
        }
        let none = [
            "",
            "tomorrow",
            "2026-05-18",
            "2026-05-18T10:00:00",
            "2026-05-18 10:00:00Z",
            "2026-02-29T10:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-05-18T24:00:00Z",
            "2026-05-18T10:00:60Z",
            "2026-05-18T10:00:00.Z",
            "2026-05-18T10:00:00+0230",
            "2026-05-18T10:00:00Zx",
            "2026-05-18T10:00:00+24:00",
            "２026-05-18T10:00:00Z",
        ];
        for text in none {
            assert!(!is_timestamp(text), "{text}");
        }
    }
}
