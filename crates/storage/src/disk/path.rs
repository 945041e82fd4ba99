//! Paths inside the store's directory.

use std::fmt;

/// A path below the store's root: names joined by `/`, each of `A-Z a-z 0-9 . _ -`, none of them
/// `.` or `..`, at most 200 bytes long, and at most eight of them.
///
/// A value of this type cannot leave the directory, which is why the operations take nothing else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskPath(String);

/// Why a text is no such path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a path of the store is up to {MAX_NAMES} names of A-Z, a-z, 0-9, `.`, `_` and `-`, each of 1 to {MAX_NAME_BYTES} bytes and none of them `.` or `..`"
)]
pub struct DiskPathError;

const MAX_NAME_BYTES: usize = 200;
const MAX_NAMES: usize = 8;

impl DiskPath {
    /// Reads a path.
    ///
    /// # Errors
    /// Any other text.
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
    /// When `name` is no name. Names are made of ids and digests, which always are, or come from a
    /// listing, which gives no others.
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

    /// The directory and the last name; no directory means the root.
    pub fn split(&self) -> (Option<&str>, &str) {
        match self.0.rsplit_once('/') {
            Some((dir, name)) => (Some(dir), name),
            None => (None, &self.0),
        }
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether `text` can be one name of a path.
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
