//! Paths relative to the store's directory.

use std::fmt;

/// A path below the store's root: at most eight names joined by `/`. Each name has at most 200 bytes of `A-Z a-z 0-9 . _
/// -` and is not `.` or `..`.
///
/// A value of this type cannot leave the directory. The operations therefore accept no other paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskPath(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a path of the store is up to {MAX_NAMES} names of A-Z, a-z, 0-9, `.`, `_` and `-`, each of 1 to {MAX_NAME_BYTES} bytes and none of them `.` or `..`"
)]
pub struct DiskPathError;

const MAX_NAME_BYTES: usize = 200;
const MAX_NAMES: usize = 8;

impl DiskPath {
    /// Parses a path.
    ///
    /// # Errors
    /// The text is not a valid path.
    pub fn parse(text: &str) -> Result<Self, DiskPathError> {
        if text.split('/').all(is_name) && text.split('/').count() <= MAX_NAMES {
            Ok(Self(text.to_owned()))
        } else {
            Err(DiskPathError)
        }
    }

    /// The path of `name` in this directory.
    ///
    /// # Panics
    /// `name` is not a valid name. Callers pass names that are derived from ids and digests, or returned by a listing;
    /// these are always valid.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        assert!(is_name(name), "a name in the store is made of safe characters");
        Self(format!("{}/{name}", self.0))
    }

    /// The path of a name in the root.
    ///
    /// # Panics
    /// As [`DiskPath::join`].
    pub fn root(name: &str) -> Self {
        assert!(is_name(name), "a name in the store is made of safe characters");
        Self(name.to_owned())
    }

    /// Splits into the parent directory and the last name. `None` is the root.
    pub fn split(&self) -> (Option<&str>, &str) {
        match self.0.rsplit_once('/') {
            Some((dir, name)) => (Some(dir), name),
            None => (None, &self.0),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether `text` is a valid name in a path.
pub(crate) fn is_name(text: &str) -> bool {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !text.is_empty() && text.len() <= MAX_NAME_BYTES && text.bytes().all(safe) && text != "." && text != ".."
}

impl fmt::Display for DiskPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_are_refused() {
        let long = "a".repeat(201);
        let deep = ["a"; 9].join("/");
        for text in ["", ".", "..", "/etc", "a//b", "a/../b", "a/", "a\\b", "a\0", "é", &long, &deep] {
            assert_eq!(DiskPath::parse(text), Err(DiskPathError), "{text:?}");
        }
        assert_eq!(DiskPath::parse("a/.b").unwrap().split(), (Some("a"), ".b"));
        assert_eq!(DiskPath::root("a").join("b").as_str(), "a/b");
    }
}
