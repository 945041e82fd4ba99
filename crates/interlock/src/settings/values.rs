//! Values of settings that are more than a text.

use std::fmt;
use std::time::Duration;

/// Another MCP server that nodes may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct McpServer {
    /// Where it is.
    pub(crate) url: String,
    /// The secret that opens it, by its name in the table `secrets`.
    pub(crate) secret: Option<String>,
    /// For which tenants it is; for all, if none is named.
    pub(crate) tenants: Vec<String>,
}

/// A time as it is written: a number with `s`, `m`, `h` or `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    number: u64,
    unit: char,
}

impl Span {
    /// A day.
    pub(crate) const DAY: Self = Self { number: 24, unit: 'h' };

    /// The greatest number: more days than anybody lives.
    const MAX: u64 = 36_500;

    /// Reads `90s`, `15m`, `12h` or `30d`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let unit = text.chars().next_back().filter(|unit| seconds(*unit).is_some())?;
        let digits = text.strip_suffix(unit)?;
        let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
        (1..=Self::MAX).contains(&number).then_some(Self { number, unit })
    }

    /// How long that is.
    pub(crate) fn duration(self) -> Duration {
        Duration::from_secs(self.number * seconds(self.unit).unwrap_or(1))
    }
}

const fn seconds(unit: char) -> Option<u64> {
    match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(60 * 60),
        'd' => Some(24 * 60 * 60),
        _ => None,
    }
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.number, self.unit)
    }
}

/// How often somebody may ask: so many times a second, and so many at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) per_second: Option<u32>,
    pub(crate) burst: Option<u32>,
}

/// Named tables of texts: what each is named, and what stands in it.
pub(crate) type Sections = std::collections::BTreeMap<String, std::collections::BTreeMap<String, String>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_words() {
        let cases = [("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000)];
        for (text, seconds) in cases {
            let span = Span::parse(text).unwrap();
            assert_eq!(span.duration(), Duration::from_secs(seconds), "{text}");
            assert_eq!(span.to_string(), text);
        }
        for text in ["", "d", "1", "0d", "-1d", "+1d", "1.5h", "1w", "99999d", "1 d", "é"] {
            assert_eq!(Span::parse(text), None, "{text}");
        }
    }
}
