//! Version ranges of dependencies and `engines`.
//!
//! A range is one or more sets separated by `||`; a set is comparators separated by white space or commas, all of which
//! must match. Besides `=`, `<`, `<=`, `>` and `>=` there are `^1.2` (same up to the first non-zero number), `~1.2`
//! (same minor), `1.x`, `1.2` and `*` (open parts), and `1.2 - 1.4` (inclusive). A pre-release matches a set only if a
//! comparator of that set names a pre-release of the same three numbers: `>=1.0.0` does not match `2.0.0-beta`.

use std::fmt;

use semver::{Prerelease, Version};
use serde::{Deserialize, Serialize};

/// The maximum length of a range, in bytes.
pub const MAX_RANGE_BYTES: usize = 256;

/// A version range and its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Range {
    text: String,
    sets: Vec<Vec<Comparator>>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a valid version range; use a range such as `^1.2`, `>=1.0 <2.0.0` or `1.x || 2.x`, of \
        at most {MAX_RANGE_BYTES} bytes"
)]
pub struct RangeError(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Exactly,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparator {
    operator: Operator,
    version: Version,
}

impl Range {
    /// Parses a range.
    ///
    /// # Errors
    /// The text is invalid.
    pub fn parse(text: &str) -> Result<Self, RangeError> {
        let refused = || RangeError(crate::name::shown(text));
        if text.len() > MAX_RANGE_BYTES || text.trim().is_empty() {
            return Err(refused());
        }
        let sets = text.split("||").map(set).collect::<Option<Vec<_>>>().ok_or_else(refused)?;
        Ok(Self { text: text.to_owned(), sets })
    }

    pub fn exactly(version: &Version) -> Self {
        let comparator = Comparator { operator: Operator::Exactly, version: version.clone() };
        Self { text: version.to_string(), sets: vec![vec![comparator]] }
    }

    pub fn matches(&self, version: &Version) -> bool {
        self.sets.iter().any(|set| {
            set.iter().all(|comparator| comparator.matches(version))
                && (version.pre.is_empty()
                    || set.iter().any(|comparator| comparator.admits_prerelease(version)))
        })
    }

    /// The original text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Comparator {
    fn matches(&self, version: &Version) -> bool {
        // Build metadata does not affect the order.
        let order = version.cmp_precedence(&self.version);
        match self.operator {
            Operator::Exactly => order.is_eq(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
        }
    }

    fn admits_prerelease(&self, version: &Version) -> bool {
        let numbers = |version: &Version| (version.major, version.minor, version.patch);
        !self.version.pre.is_empty()
            && self.version.pre != lowest()
            && numbers(&self.version) == numbers(version)
    }
}

/// The lowest pre-release. It bounds `<2.0.0` so that `2.0.0-beta` does not match.
fn lowest() -> Prerelease {
    Prerelease::new("0").expect("zero is a pre-release")
}

fn set(text: &str) -> Option<Vec<Comparator>> {
    let mut words = text.split([' ', '\t', ',']).filter(|word| !word.is_empty()).peekable();
    let mut comparators = Vec::new();
    while let Some(word) = words.next() {
        let operator_end =
            word.find(|letter| !matches!(letter, '<' | '>' | '=' | '^' | '~')).unwrap_or(word.len());
        let (operator, mut version) = word.split_at(operator_end);
        if version.is_empty() {
            // The operator is separated from its version.
            version = words.next()?;
        }
        let partial = Partial::parse(version)?;
        if operator.is_empty() && words.peek() == Some(&"-") {
            words.next();
            let to = Partial::parse(words.next()?)?;
            comparators.push(Comparator { operator: Operator::GreaterOrEqual, version: partial.floor() });
            comparators.extend(to.at_most());
            continue;
        }
        match operator {
            "" | "=" => comparators.extend(partial.itself()),
            "^" => comparators.extend(partial.up_to(partial.caret_ceiling())),
            "~" => comparators.extend(partial.up_to(partial.tilde_ceiling())),
            ">=" => {
                comparators.push(Comparator { operator: Operator::GreaterOrEqual, version: partial.floor() });
            }
            "<" => comparators
                .push(Comparator { operator: Operator::Less, version: partial.floor_below_prereleases() }),
            "<=" => comparators.extend(partial.at_most()),
            ">" => comparators.push(partial.above()?),
            _ => return None,
        }
    }
    Some(comparators)
}

/// A version whose last numbers may be open.
struct Partial {
    major: Option<u64>,
    minor: Option<u64>,
    patch: Option<u64>,
    pre: Prerelease,
}

impl Partial {
    fn parse(text: &str) -> Option<Self> {
        if let Some(version) = crate::version::parse(text) {
            let (major, minor, patch) = (Some(version.major), Some(version.minor), Some(version.patch));
            return Some(Self { major, minor, patch, pre: version.pre });
        }
        let mut numbers = [None; 3];
        let mut open = false;
        for (place, part) in text.split('.').enumerate() {
            let number = numbers.get_mut(place)?;
            if matches!(part, "x" | "X" | "*") {
                open = true;
            } else if open
                || !part.bytes().all(|byte| byte.is_ascii_digit())
                || (part.len() > 1 && part.starts_with('0'))
            {
                return None;
            } else {
                *number = Some(part.parse().ok()?);
            }
        }
        let [major, minor, patch] = numbers;
        Some(Self { major, minor, patch, pre: Prerelease::EMPTY })
    }

    /// The lowest matching version.
    fn floor(&self) -> Version {
        let mut version =
            Version::new(self.major.unwrap_or(0), self.minor.unwrap_or(0), self.patch.unwrap_or(0));
        version.pre = self.pre.clone();
        version
    }

    fn floor_below_prereleases(&self) -> Version {
        let mut version = self.floor();
        if version.pre.is_empty() {
            version.pre = lowest();
        }
        version
    }

    /// The lowest version above all matching ones; `None` if there is none.
    fn ceiling(&self) -> Option<Version> {
        match (self.major, self.minor, self.patch) {
            (None, ..) => None,
            (Some(major), None, _) => below(major.checked_add(1), Some(0), Some(0)),
            (Some(major), Some(minor), None) => below(Some(major), minor.checked_add(1), Some(0)),
            (Some(major), Some(minor), Some(patch)) => below(Some(major), Some(minor), patch.checked_add(1)),
        }
    }

    fn caret_ceiling(&self) -> Option<Version> {
        match (self.major, self.minor, self.patch) {
            (Some(0), Some(0), _) => self.ceiling_of(3),
            (Some(0), Some(_), _) => self.ceiling_of(2),
            _ => self.ceiling_of(1),
        }
    }

    fn tilde_ceiling(&self) -> Option<Version> {
        self.ceiling_of(2)
    }

    /// The ceiling of the first `numbers` numbers.
    fn ceiling_of(&self, numbers: usize) -> Option<Version> {
        let minor = self.minor.filter(|_| numbers >= 2);
        let patch = self.patch.filter(|_| numbers >= 3);
        Self { major: self.major, minor, patch, pre: Prerelease::EMPTY }.ceiling()
    }

    fn up_to(&self, ceiling: Option<Version>) -> Vec<Comparator> {
        let mut comparators = vec![Comparator { operator: Operator::GreaterOrEqual, version: self.floor() }];
        comparators.extend(ceiling.map(|version| Comparator { operator: Operator::Less, version }));
        comparators
    }

    /// The meaning of `1.2.3`, `1.2` and `*` without an operator.
    fn itself(&self) -> Vec<Comparator> {
        if self.patch.is_some() {
            return vec![Comparator { operator: Operator::Exactly, version: self.floor() }];
        }
        self.up_to(self.ceiling())
    }

    fn at_most(&self) -> Option<Comparator> {
        if self.patch.is_some() {
            return Some(Comparator { operator: Operator::LessOrEqual, version: self.floor() });
        }
        self.ceiling().map(|version| Comparator { operator: Operator::Less, version })
    }

    fn above(&self) -> Option<Comparator> {
        if self.patch.is_some() {
            return Some(Comparator { operator: Operator::Greater, version: self.floor() });
        }
        self.ceiling().map(|mut version| {
            version.pre = Prerelease::EMPTY;
            Comparator { operator: Operator::GreaterOrEqual, version }
        })
    }
}

fn below(major: Option<u64>, minor: Option<u64>, patch: Option<u64>) -> Option<Version> {
    let mut version = Version::new(major?, minor?, patch?);
    version.pre = lowest();
    Some(version)
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.text)
    }
}

impl TryFrom<String> for Range {
    type Error = RangeError;

    fn try_from(text: String) -> Result<Self, RangeError> {
        Self::parse(&text)
    }
}

impl From<Range> for String {
    fn from(range: Range) -> Self {
        range.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_versions() {
        let cases: [(&str, &[&str], &[&str]); 16] = [
            (">=1.0 <2.0.0", &["1.0.0", "1.9.9"], &["0.9.9", "2.0.0", "2.0.0-beta"]),
            ("^1.2.3", &["1.2.3", "1.9.0"], &["1.2.2", "2.0.0", "1.3.0-rc.1"]),
            ("^0.2.3", &["0.2.3", "0.2.9"], &["0.3.0", "0.2.2"]),
            ("^0.0.3", &["0.0.3"], &["0.0.4", "0.0.2"]),
            ("^0.0", &["0.0.0", "0.0.9"], &["0.1.0"]),
            ("~1.2", &["1.2.0", "1.2.9"], &["1.3.0", "1.1.9"]),
            ("~1", &["1.0.0", "1.9.9"], &["2.0.0"]),
            ("1.x || 3.x", &["1.5.0", "3.0.1"], &["2.0.0"]),
            ("1.2.3", &["1.2.3", "1.2.3+build"], &["1.2.4"]),
            ("1.2", &["1.2.0", "1.2.7"], &["1.3.0"]),
            ("*", &["0.0.0", "99.0.0"], &["1.0.0-alpha"]),
            ("1.2 - 1.4", &["1.2.0", "1.4.9"], &["1.5.0", "1.1.0"]),
            (">1.2", &["1.3.0"], &["1.2.9", "1.3.0-alpha"]),
            ("<=1.2.3, >= 1.0.0", &["1.0.0", "1.2.3"], &["1.2.4"]),
            (">=1.2.3-rc.1", &["1.2.3-rc.2", "1.2.3", "4.0.0"], &["1.2.4-rc.1", "1.2.3-alpha"]),
            ("< 2", &["1.9.9"], &["2.0.0"]),
        ];
        for (text, inside, outside) in cases {
            let range = Range::parse(text).unwrap();
            for version in inside {
                assert!(range.matches(&Version::parse(version).unwrap()), "{version} is in {text}");
            }
            for version in outside {
                assert!(!range.matches(&Version::parse(version).unwrap()), "{version} is not in {text}");
            }
        }
    }

    #[test]
    fn rejects_invalid_ranges() {
        let endless = ">=1.0 ".repeat(100);
        let texts = [
            "",
            "  ",
            "latest",
            "1.2.3.4",
            ">=",
            "1.x.3",
            "^",
            "=>1",
            "01.2",
            "1 -",
            "git+ssh://x",
            ">18446744073709551615",
        ];
        for text in texts.into_iter().chain([endless.as_str()]) {
            assert!(Range::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn exact_range_matches_one_version() {
        let beta = Version::parse("2.0.0-beta").unwrap();
        assert!(Range::exactly(&beta).matches(&beta));
        assert!(!Range::exactly(&beta).matches(&Version::new(2, 0, 0)));
    }
}
