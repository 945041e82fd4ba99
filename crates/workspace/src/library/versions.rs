//! Versions, version ranges, and versioned folders.
//!
//! A folder `<name>` has the version that its files declare, or none; a folder `<name>@<version>`
//! has that version. Keys never contain `@`, so the two cannot be confused.

use std::fmt;
use std::str::FromStr;

use super::files;
use crate::Error;
use crate::rooted::{Dir, Kind};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

/// A string that is not a version or a version range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a version is `1`, `1.2` or `1.2.3`; a range is versions with `^`, `~`, `=`, `<`, `<=`, `>` or `>=` before them, or `*`"
)]
pub struct NotAVersion;

impl Version {
    const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        Ok(Partial::parse(text)?.first())
    }
}

/// A version prefix as written.
#[derive(Clone, Copy)]
struct Partial {
    major: u32,
    minor: Option<u32>,
    patch: Option<u32>,
}

impl Partial {
    fn parse(text: &str) -> Result<Self, NotAVersion> {
        let mut parts = text.split('.').map(|part| {
            // `parse` would also accept a sign.
            let digits = part.bytes().all(|byte| byte.is_ascii_digit());
            if digits { part.parse().map_err(|_| NotAVersion) } else { Err(NotAVersion) }
        });
        let major = parts.next().ok_or(NotAVersion)??;
        let (minor, patch) = (parts.next().transpose()?, parts.next().transpose()?);
        if parts.next().is_some() { Err(NotAVersion) } else { Ok(Self { major, minor, patch }) }
    }

    /// The lowest version with this prefix.
    const fn first(self) -> Version {
        let (minor, patch) = (or_zero(self.minor), or_zero(self.patch));
        Version::new(self.major, minor, patch)
    }

    /// The lowest version after all with this prefix.
    const fn after(self) -> Version {
        match (self.minor, self.patch) {
            (None, _) => Version::new(self.major.saturating_add(1), 0, 0),
            (Some(minor), None) => Version::new(self.major, minor.saturating_add(1), 0),
            (Some(minor), Some(patch)) => Version::new(self.major, minor, patch.saturating_add(1)),
        }
    }

    /// The lowest incompatible version: the first non-zero part is incremented.
    const fn breaking(self) -> Version {
        match (self.major, self.minor, self.patch) {
            (0, Some(0), Some(_)) => self.after(),
            (0, Some(minor), _) => Version::new(0, minor.saturating_add(1), 0),
            (major, _, _) => Version::new(major.saturating_add(1), 0, 0),
        }
    }

    /// The lowest version of the next minor, or of the next major if no minor was written.
    const fn next_minor(self) -> Version {
        Self { patch: None, ..self }.after()
    }
}

const fn or_zero(part: Option<u32>) -> u32 {
    match part {
        Some(part) => part,
        None => 0,
    }
}

/// A half-open range of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    from: Version,
    below: Option<Version>,
}

impl Range {
    pub fn contains(&self, version: Version) -> bool {
        version >= self.from && self.below.is_none_or(|below| version < below)
    }
}

impl FromStr for Range {
    type Err = NotAVersion;

    /// Parses `^1.2`, `~1.2.3`, `1.2`, `>=1.2 <2`, `*`. Several parts, separated by spaces or
    /// commas, must all match.
    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        const LEAST: Version = Version::new(0, 0, 0);
        let mut range = Self { from: LEAST, below: None };
        let mut parts = text.split([' ', ',']).filter(|part| !part.is_empty()).peekable();
        parts.peek().ok_or(NotAVersion)?;
        for part in parts {
            let version = part.trim_start_matches(['^', '~', '=', '<', '>']);
            let (from, below) = match part.strip_suffix(version).unwrap_or_default() {
                "" if version == "*" => (LEAST, None),
                operator => {
                    let version = Partial::parse(version)?;
                    match operator {
                        "" | "=" => (version.first(), Some(version.after())),
                        "^" => (version.first(), Some(version.breaking())),
                        "~" => (version.first(), Some(version.next_minor())),
                        ">=" => (version.first(), None),
                        ">" => (version.after(), None),
                        "<=" => (LEAST, Some(version.after())),
                        "<" => (LEAST, Some(version.first())),
                        _ => return Err(NotAVersion),
                    }
                }
            };
            range.from = range.from.max(from);
            range.below = match (range.below, below) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        Ok(range)
    }
}

/// A candidate folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The version in its name.
    pub(super) version: Option<Version>,
    /// Its path in the library.
    pub(super) path: String,
}

/// The folders `<name>` and `<name>@<version>` for a key, the one without a version first, then
/// ascending; and the paths with invalid versions.
pub(super) fn candidates(
    root: &Dir,
    shelf_name: &str,
    key: &str,
) -> Result<(Vec<Candidate>, Vec<String>), Error> {
    let (above, last) = match key.rsplit_once('/') {
        Some((above, last)) => (format!("{shelf_name}/{above}"), last),
        None => (shelf_name.to_owned(), key),
    };
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    let Some(folder) = files::folder_if_any(root, &above)? else {
        return Ok((found, unreadable));
    };
    for (name, kind) in folder.names().map_err(|error| files::refusal(&error, &above))? {
        let Some(rest) = name.0.to_str().and_then(|name| name.strip_prefix(last)) else { continue };
        let path = format!("{above}/{last}{rest}");
        // A link is a candidate too: opening it refuses it with the reason.
        if kind == Some(Kind::File) {
            continue;
        }
        match rest.strip_prefix('@') {
            None if rest.is_empty() => found.push(Candidate { version: None, path }),
            None => {}
            Some(version) => match version.parse() {
                Ok(version) => found.push(Candidate { version: Some(version), path }),
                Err(NotAVersion) => unreadable.push(path),
            },
        }
    }
    found.sort_by(|one, other| (one.version, &one.path).cmp(&(other.version, &other.path)));
    Ok((found, unreadable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_ranges_match() {
        #[rustfmt::skip]
        let cases: [(&str, &[&str], &[&str]); 15] = [
            ("*",        &["0.0.0", "9.9.9"],          &[]),
            ("1",        &["1.0.0", "1.9.9"],          &["0.9.9", "2.0.0"]),
            ("1.2",      &["1.2.0", "1.2.9"],          &["1.1.9", "1.3.0"]),
            ("1.2.3",    &["1.2.3"],                   &["1.2.2", "1.2.4"]),
            ("=1.2.3",   &["1.2.3"],                   &["1.2.4"]),
            ("^1.2",     &["1.2.0", "1.9.0"],          &["1.1.0", "2.0.0"]),
            ("^0.2.3",   &["0.2.3", "0.2.9"],          &["0.2.2", "0.3.0"]),
            ("^0.0.3",   &["0.0.3"],                   &["0.0.4"]),
            ("^0",       &["0.0.0", "0.9.0"],          &["1.0.0"]),
            ("~1.2.3",   &["1.2.3", "1.2.9"],          &["1.3.0"]),
            ("~1",       &["1.0.0", "1.9.0"],          &["2.0.0"]),
            (">1",       &["2.0.0"],                   &["1.9.9"]),
            ("<=1.2",    &["0.0.0", "1.2.9"],          &["1.3.0"]),
            (">=1.2 <2", &["1.2.0", "1.9.9"],          &["1.1.9", "2.0.0"]),
            ("<1, >2",   &[],                          &["0.5.0", "1.5.0", "2.5.0", "3.0.0"]),
        ];
        for (text, inside, outside) in cases {
            let range: Range = text.parse().unwrap();
            for version in inside {
                assert!(range.contains(version.parse().unwrap()), "{version} in {text}");
            }
            for version in outside {
                assert!(!range.contains(version.parse().unwrap()), "{version} not in {text}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn versions_round_trip_and_match_their_ranges(major: u32, minor: u32, patch: u32) {
            let version = Version::new(major, minor, patch);
            proptest::prop_assert_eq!(version.to_string().parse(), Ok(version));
            for operator in [">=", "<="] {
                let range: Range = format!("{operator}{version}").parse().unwrap();
                proptest::prop_assert!(range.contains(version) || patch == u32::MAX, "{}{}", operator, version);
            }
        }

        #[test]
        fn any_text_is_parsed_or_rejected(text in "[0-9.^~<>=*, a-]{0,30}") {
            let _ = text.parse::<Range>();
        }
    }

    #[test]
    fn invalid_ranges_are_rejected() {
        for text in [
            "",
            " ",
            "a",
            "1.2.3.4",
            "1..2",
            "^",
            "=>1",
            "^^1",
            "1.-2",
            "+1",
            "99999999999",
            "^*",
            "v1",
            "1.2.3-rc1",
        ] {
            assert_eq!(text.parse::<Range>(), Err(NotAVersion), "{text:?}");
        }
    }
}
