//! Types of structured settings.

use std::fmt;
use std::time::Duration;

use executors::http_request::HostPattern;
use outbound::{Network, Reach};

/// An external MCP server for nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct McpServer {
    pub(crate) url: String,
    /// The name of its secret in the table `secrets`.
    pub(crate) secret: Option<String>,
    /// The tenants that can use it; all if empty.
    pub(crate) tenants: Vec<String>,
}

/// A credential that nodes may send to the hosts of its audience.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HttpCredential {
    /// The name of its secret in the table `secrets`.
    pub(crate) secret: String,
    pub(crate) audience: Vec<HostPattern>,
    /// The header; `authorization` by default.
    pub(crate) header: Option<String>,
    /// What precedes the secret; `Bearer ` by default in `authorization`, otherwise nothing.
    pub(crate) prefix: Option<String>,
    /// The tenants that can use it; all if empty.
    pub(crate) tenants: Vec<String>,
}

/// What a private address range may be called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EgressUse {
    /// Deliveries to webhooks, and calls of a run's `callbackUrl`.
    Webhooks,
    /// Requests of `core.http.request` nodes, to hosts of `egress.http`.
    Http,
}

impl EgressUse {
    pub(crate) const ALL: [Self; 2] = [Self::Webhooks, Self::Http];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Webhooks => "webhooks",
            Self::Http => "http",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

/// Private address ranges that callers may make the host call, with what for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrivateNetworks(pub(crate) Vec<(Network, Vec<EgressUse>)>);

impl PrivateNetworks {
    /// The ranges for a use.
    pub(crate) fn reach(&self, wanted: EgressUse) -> Reach {
        let allowed = self.0.iter().filter(|(_, uses)| uses.contains(&wanted));
        Reach::public_and(allowed.map(|(network, _)| *network))
    }

    /// One line for each range.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(network, uses): &(Network, Vec<EgressUse>)| {
            let uses: Vec<_> = uses.iter().map(|one| one.as_str()).collect();
            format!("{network}: {}", uses.join(", "))
        };
        self.0.iter().map(line).collect()
    }
}

/// A command that the host may run to verify evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuideCommand {
    /// The program and its arguments.
    pub(crate) argv: Vec<String>,
    pub(crate) timeout: Span,
    pub(crate) max_output: ByteSize,
    /// The names of variables that it gets besides the usual ones.
    pub(crate) env: Vec<String>,
}

impl GuideCommand {
    pub(crate) const LONGEST: Duration = Duration::from_secs(60 * 60);
    pub(crate) const MOST_OUTPUT: u64 = 64 << 20;
}

impl Default for GuideCommand {
    fn default() -> Self {
        let timeout = Span { number: 60, unit: 's' };
        Self { argv: Vec::new(), timeout, max_output: ByteSize::mebibytes(1), env: Vec::new() }
    }
}

/// An agent that the host starts for guided nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuideAgent {
    /// The program and its arguments, with placeholders.
    pub(crate) argv: Vec<String>,
    pub(crate) timeout: Span,
    pub(crate) max_output: ByteSize,
    /// How many of its processes run at once.
    pub(crate) processes: u32,
    /// How often it is started again for a session.
    pub(crate) restarts: u32,
    /// The names of variables that it gets besides the usual ones.
    pub(crate) env: Vec<String>,
    /// The tenants that can use it; all if empty.
    pub(crate) tenants: Vec<String>,
}

impl GuideAgent {
    pub(crate) const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);
    pub(crate) const MOST_OUTPUT: u64 = 1 << 30;
    pub(crate) const MOST_PROCESSES: u32 = 64;
    pub(crate) const MOST_RESTARTS: u32 = 100;
}

impl Default for GuideAgent {
    fn default() -> Self {
        Self {
            argv: Vec::new(),
            timeout: Span { number: 1, unit: 'h' },
            max_output: ByteSize::mebibytes(64),
            processes: 2,
            restarts: 2,
            env: Vec::new(),
            tenants: Vec::new(),
        }
    }
}

/// A duration as written: a number with `s`, `m`, `h` or `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    number: u64,
    unit: char,
}

impl Span {
    pub(crate) const DAY: Self = Self { number: 24, unit: 'h' };

    const MAX: u64 = 36_500;

    /// Parses `90s`, `15m`, `12h` or `30d`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let unit = text.chars().next_back().filter(|unit| seconds(*unit).is_some())?;
        let digits = text.strip_suffix(unit)?;
        let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
        (1..=Self::MAX).contains(&number).then_some(Self { number, unit })
    }

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

/// A number of bytes, optionally with a unit: `16 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(u64);

impl ByteSize {
    /// The minimum: what recording the end of a run needs.
    const LEAST: u64 = 1 << 10;
    /// The maximum, which means no limit.
    const MOST: u64 = 1 << 40;
    const UNITS: [(&'static str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];

    pub(crate) fn new(bytes: u64) -> Option<Self> {
        (Self::LEAST..=Self::MOST).contains(&bytes).then_some(Self(bytes))
    }

    pub(crate) const fn mebibytes(number: u64) -> Self {
        Self(number << 20)
    }

    /// Parses `64 KiB`, `16MiB` or `1 GiB`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (digits, shift) = Self::UNITS
            .iter()
            .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?.trim_end(), *shift)))?;
        let number: u64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
        Self::new(number.checked_mul(1 << shift)?)
    }

    pub(crate) const fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::UNITS.iter().find(|(_, shift)| self.0.is_multiple_of(1 << shift)) {
            Some((unit, shift)) => write!(formatter, "{} {unit}", self.0 >> shift),
            None => write!(formatter, "{} bytes", self.0),
        }
    }
}

/// A rate limit: requests per second, and the burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) per_second: Option<u32>,
    pub(crate) burst: Option<u32>,
}

/// Named tables of strings.
pub(crate) type Sections = std::collections::BTreeMap<String, std::collections::BTreeMap<String, String>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_units() {
        for (text, bytes, shown) in [
            ("16 MiB", 16 << 20, "16 MiB"),
            ("64KiB", 64 << 10, "64 KiB"),
            ("1024 KiB", 1 << 20, "1 MiB"),
            ("1 GiB", 1 << 30, "1 GiB"),
        ] {
            let size = ByteSize::parse(text).unwrap();
            assert_eq!((size.bytes(), size.to_string()), (bytes, shown.to_owned()), "{text}");
        }
        assert_eq!(ByteSize::new(1500).unwrap().to_string(), "1500 bytes");
    }

    #[test]
    fn durations_with_units() {
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
