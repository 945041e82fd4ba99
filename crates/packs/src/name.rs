//! Pack names and their owners.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum length of a pack name, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// The first segment of a name, which decides who may publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The protocol's working group.
    Core,
    /// An organization; the first publisher owns its segment.
    Vendor,
    /// Anyone; the first publisher owns the name.
    Community,
    /// One host and its private registry.
    Private,
    /// This machine. Not allowed in a registry.
    Local,
}

impl Scope {
    pub const ALL: [Self; 5] = [Self::Core, Self::Vendor, Self::Community, Self::Private, Self::Local];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Vendor => "vendor",
            Self::Community => "community",
            Self::Private => "private",
            Self::Local => "local",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

/// A pack name: a scope and at least two more segments, such as `vendor.acme.http-tools`.
///
/// ```
/// use packs::name::{PackName, Scope};
///
/// let name = PackName::parse("vendor.acme.http-tools")?;
/// assert_eq!(name.scope(), Scope::Vendor);
/// assert_eq!(name.owner(), "vendor.acme");
/// assert!(PackName::parse("vendor").is_err());
/// # Ok::<(), packs::name::NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PackName(String);

/// Why a pack name is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error(
        "`{0}` is not a valid pack name: use lowercase segments separated by dots, the scope first, such \
            as `vendor.acme.tools`, and at most {MAX_NAME_BYTES} bytes"
    )]
    Form(String),
    #[error("`{0}` has no valid scope: a name must start with core, vendor, community, private or local")]
    Scope(String),
}

impl PackName {
    /// Parses a name as in manifests and registries.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let form = || NameError::Form(shown(text));
        if text.len() > MAX_NAME_BYTES {
            return Err(form());
        }
        let segments: Vec<&str> = text.split('.').collect();
        let [first, second, rest @ ..] = &segments[..] else { return Err(form()) };
        if !is_segment(first, Case::Lower)
            || !is_segment(second, Case::Lower)
            || !rest.iter().all(|segment| is_segment(segment, Case::Mixed))
        {
            return Err(form());
        }
        if Scope::parse(first).is_none() {
            return Err(NameError::Scope(shown(text)));
        }
        if rest.is_empty() {
            return Err(form());
        }
        Ok(Self(text.to_owned()))
    }

    /// Parses a name as in lockfiles: also shorter names such as `local.tools`, and segments that start with a digit.
    ///
    /// # Errors
    /// As [`PackName::parse`].
    pub fn parse_locked(text: &str) -> Result<Self, NameError> {
        let refused = match Self::parse(text) {
            Ok(name) => return Ok(name),
            Err(error) => error,
        };
        let Some((scope, rest)) = text.split_once('.') else { return Err(refused) };
        let plain = |segment: &str| {
            !segment.is_empty()
                && segment
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        let starts_well =
            rest.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit());
        if text.len() <= MAX_NAME_BYTES
            && Scope::parse(scope).is_some()
            && starts_well
            && rest.split('.').all(plain)
        {
            return Ok(Self(text.to_owned()));
        }
        Err(refused)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn scope(&self) -> Scope {
        let first = self.0.split('.').next().and_then(Scope::parse);
        first.expect("a parsed name starts with a scope")
    }

    /// The scope and the segment owned by its first publisher, such as `vendor.acme`.
    pub fn owner(&self) -> &str {
        let end = self.0.match_indices('.').nth(1).map_or(self.0.len(), |(index, _)| index);
        &self.0[..end]
    }
}

/// The letters allowed in a segment after the first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Lower,
    Mixed,
}

fn is_segment(segment: &str, case: Case) -> bool {
    segment.starts_with(|first: char| first.is_ascii_lowercase())
        && segment.bytes().all(|byte| {
            byte.is_ascii_lowercase()
                || byte.is_ascii_digit()
                || matches!(byte, b'_' | b'-')
                || (case == Case::Mixed && byte.is_ascii_uppercase())
        })
}

/// Shortens untrusted text for a message.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(128).collect()
}

impl fmt::Display for PackName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

impl TryFrom<String> for PackName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        Self::parse_locked(&text)
    }
}

impl From<PackName> for String {
    fn from(name: PackName) -> Self {
        name.0
    }
}

/// A name pattern: a name, a prefix with `.*`, or `*` for all.
///
/// ```
/// use packs::name::{NamespaceGlob, PackName};
///
/// let ours = NamespaceGlob::parse("vendor.acme.*").unwrap();
/// assert!(ours.matches(&PackName::parse("vendor.acme.http.tools")?));
/// assert!(!ours.matches(&PackName::parse("vendor.acme-evil.tools")?));
/// # Ok::<(), packs::name::NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamespaceGlob(String);

impl NamespaceGlob {
    /// Parses a pattern. A star is allowed only as the last segment.
    pub fn parse(text: &str) -> Option<Self> {
        let fixed = match text.strip_suffix('*') {
            Some("") => return Some(Self(text.to_owned())),
            Some(beginning) => beginning.strip_suffix('.')?,
            None => text,
        };
        let well =
            text.len() <= MAX_NAME_BYTES && fixed.split('.').all(|segment| is_segment(segment, Case::Mixed));
        well.then(|| Self(text.to_owned()))
    }

    pub fn matches(&self, name: &PackName) -> bool {
        match self.0.strip_suffix('*') {
            // The prefix includes the dot, so `vendor.acme.*` does not match `vendor.acme-evil`.
            Some(beginning) => name.as_str().starts_with(beginning),
            None => name.as_str() == self.0,
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for NamespaceGlob {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{}` is not a valid pack name pattern", shown(&text)))
    }
}

impl From<NamespaceGlob> for String {
    fn from(glob: NamespaceGlob) -> Self {
        glob.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_names() {
        let form = |text: &str| Err(NameError::Form(text.to_owned()));
        let scope = |text: &str| Err(NameError::Scope(text.to_owned()));
        for (text, expected) in [
            ("core.openwop.http", Ok(())),
            ("vendor.acme.tools.deep_One", Ok(())),
            ("local.me.tools", Ok(())),
            ("community.a.b", Ok(())),
            ("singleseg", form("singleseg")),
            ("core.openwop", form("core.openwop")),
            ("Vendor.acme.tools", form("Vendor.acme.tools")),
            ("vendor.Acme.tools", form("vendor.Acme.tools")),
            ("vendor..tools", form("vendor..tools")),
            ("vendor.acme.9tools", form("vendor.acme.9tools")),
            ("vendor.acme.to ols", form("vendor.acme.to ols")),
            ("", form("")),
            ("bogus.unsupported-scope.pack", scope("bogus.unsupported-scope.pack")),
            ("com.example", scope("com.example")),
        ] {
            assert_eq!(PackName::parse(text).map(|_| ()), expected, "{text}");
        }
        assert!(PackName::parse(&format!("core.a.{}", "b".repeat(250))).is_err());
    }

    #[test]
    fn lockfiles_allow_shorter_names() {
        for (text, accepted) in [
            ("local.tools", true),
            ("core.9x.tools", true),
            ("vendor.acme.my_Tool", true),
            ("local.", false),
            ("local.a..b", false),
            ("unknown.tools", false),
            ("local./etc", false),
        ] {
            assert_eq!(PackName::parse_locked(text).is_ok(), accepted, "{text}");
        }
    }

    #[test]
    fn patterns_match_whole_segments() {
        for text in ["vendor.*.x", "vendor.acm*", "", ".*", "vendor..*", "**"] {
            assert_eq!(NamespaceGlob::parse(text), None, "{text}");
        }
        let name = PackName::parse("core.openwop.http").unwrap();
        for (text, expected) in [
            ("*", true),
            ("core.*", true),
            ("core.openwop.http", true),
            ("core.openwop.htt", false),
            ("vendor.*", false),
        ] {
            assert_eq!(NamespaceGlob::parse(text).unwrap().matches(&name), expected, "{text}");
        }
    }
}
