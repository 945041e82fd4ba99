//! Names of packs, and who may publish under them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest name of a pack, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// The first segment of a name: it says who may publish there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The working group of the protocol.
    Core,
    /// An organisation; its segment belongs to whoever published first.
    Vendor,
    /// Anybody; the first claim wins.
    Community,
    /// One host and its private registry.
    Private,
    /// This machine. Never in any registry.
    Local,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 5] = [Self::Core, Self::Vendor, Self::Community, Self::Private, Self::Local];

    /// The scope as it is written.
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

/// The name of a pack: a scope and at least two more segments, as in `vendor.acme.http-tools`.
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

/// Why a text is no name of a pack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is not in reverse-DNS form.
    #[error(
        "`{0}` is no name of a pack: lower-case segments with dots between them, the scope first, \
         as in `vendor.acme.tools`, and at most {MAX_NAME_BYTES} bytes"
    )]
    Form(String),
    /// It is in that form, but its first segment is no scope.
    #[error("`{0}` is in no scope: a name begins with core, vendor, community, private or local")]
    Scope(String),
}

impl PackName {
    /// Reads a name as manifests and registries write it.
    ///
    /// # Errors
    /// What is wrong with it; see [`NameError`].
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

    /// Reads a name as lockfiles write it: beside the names of manifests also shorter ones, such as `local.tools`,
    /// and segments that begin with a digit.
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

    /// The name as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first segment.
    pub fn scope(&self) -> Scope {
        let first = self.0.split('.').next().and_then(Scope::parse);
        first.expect("a name begins with a scope, or it was not read")
    }

    /// The scope with the segment that is claimed by its first publisher, as in `vendor.acme`.
    pub fn owner(&self) -> &str {
        let end = self.0.match_indices('.').nth(1).map_or(self.0.len(), |(index, _)| index);
        &self.0[..end]
    }
}

/// Which letters a segment may have after its first.
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

/// A text from outside, short enough for a message.
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

/// A pattern of names: a whole name, or a beginning with `.*` behind it, or `*` for all.
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
    /// Reads a pattern. A star stands only as the last segment.
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

    /// Whether the name is one of them.
    pub fn matches(&self, name: &PackName) -> bool {
        match self.0.strip_suffix('*') {
            // The dot stays on the beginning, so `vendor.acme.*` does not reach `vendor.acme-evil`.
            Some(beginning) => name.as_str().starts_with(beginning),
            None => name.as_str() == self.0,
        }
    }

    /// The pattern as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for NamespaceGlob {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{}` is no pattern of pack names", shown(&text)))
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
    fn names_have_a_scope_and_two_more_segments() {
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
    fn lockfiles_know_shorter_names() {
        for (text, accepted) in [
            ("local.tools", true),
            ("core.9x.tools", true),
            ("vendor.acme.my_Tool", true),
            ("local.", false),
            ("local.a..b", false),
            ("nobody.tools", false),
            ("local./etc", false),
        ] {
            assert_eq!(PackName::parse_locked(text).is_ok(), accepted, "{text}");
        }
    }

    #[test]
    fn patterns_end_at_a_dot() {
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
