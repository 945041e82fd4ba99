//! Paths in a pack.

use std::fmt;

/// The maximum length of a path, in bytes.
pub const MAX_PATH_BYTES: usize = 512;
/// The maximum length of a segment, in bytes, as in most file systems.
pub const MAX_SEGMENT_BYTES: usize = 255;
/// The maximum number of segments.
pub const MAX_PATH_DEPTH: usize = 32;

/// The reserved folder of an installed pack. Archives must not contain it.
pub const RESERVED: &str = ".interlock";

/// A path in a pack: relative, `/`-separated, never above the root.
///
/// ```
/// use packs::path::EntryPath;
///
/// assert_eq!(EntryPath::parse("./dist/index.js")?.as_str(), "dist/index.js");
/// assert!(EntryPath::parse("dist/../../etc/passwd").is_err());
/// # Ok::<(), packs::path::PathError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryPath(String);

/// Why a path is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the path leaves the pack: it is absolute, contains `..` or a backslash, or has a drive letter")]
    Outside,
    #[error("the path does not name a file: it is empty, or has an empty or `.` segment")]
    Empty,
    #[error("the path contains control characters or is not UTF-8")]
    Unprintable,
    #[error(
        "the path is too long: at most {MAX_PATH_BYTES} bytes, {MAX_PATH_DEPTH} segments and \
            {MAX_SEGMENT_BYTES} bytes per segment are allowed"
    )]
    TooLong,
    #[error("the path starts with `{RESERVED}`, which is reserved for the installer")]
    Reserved,
}

impl EntryPath {
    /// Parses a path. A leading `./`, as written by `tar`, is removed.
    ///
    /// # Errors
    /// The path is invalid.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let mut path = text;
        while let Some(rest) = path.strip_prefix("./") {
            path = rest;
        }
        if path.starts_with('/') || path.contains('\\') {
            return Err(PathError::Outside);
        }
        if path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic() {
            return Err(PathError::Outside);
        }
        if path.split('/').any(|segment| segment == "..") {
            return Err(PathError::Outside);
        }
        if path.len() > MAX_PATH_BYTES || path.split('/').count() > MAX_PATH_DEPTH {
            return Err(PathError::TooLong);
        }
        for segment in path.split('/') {
            if matches!(segment, "" | ".") {
                return Err(PathError::Empty);
            }
            if segment.len() > MAX_SEGMENT_BYTES {
                return Err(PathError::TooLong);
            }
            if segment.chars().any(char::is_control) {
                return Err(PathError::Unprintable);
            }
        }
        if folded(path.split('/').next().unwrap_or_default()) == RESERVED {
            return Err(PathError::Reserved);
        }
        Ok(Self(path.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parent folders, outermost first.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(index, _)| &self.0[..index])
    }

    /// All segments, the file name last.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The case-folded and normalized path.
    pub(crate) fn folded(&self) -> String {
        folded(&self.0)
    }
}

/// Two names with the same fold are one file on some systems.
pub(crate) fn folded(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization as _;
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.nfkc().flat_map(char::to_lowercase).nfkc().collect()
}

impl fmt::Display for EntryPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_unsafe_paths() {
        for (text, expected) in [
            ("", PathError::Empty),
            (".", PathError::Empty),
            ("./", PathError::Empty),
            ("a//b", PathError::Empty),
            ("a/", PathError::Empty),
            ("a/./b", PathError::Empty),
            ("/etc/passwd", PathError::Outside),
            (".//etc", PathError::Outside),
            ("..", PathError::Outside),
            ("a/../b", PathError::Outside),
            ("a\\..\\b", PathError::Outside),
            ("C:/windows", PathError::Outside),
            ("a\0b", PathError::Unprintable),
            ("a\nb", PathError::Unprintable),
            (".interlock/installed.json", PathError::Reserved),
            (".Interlock", PathError::Reserved),
        ] {
            assert_eq!(EntryPath::parse(text), Err(expected), "{text:?}");
        }
        assert_eq!(EntryPath::parse(&"a/".repeat(40)), Err(PathError::TooLong));
        assert_eq!(EntryPath::parse(&"a".repeat(256)), Err(PathError::TooLong));
    }

    #[test]
    fn accepts_relative_paths() {
        for (text, expected) in
            [("pack.json", "pack.json"), ("././a/b", "a/b"), ("..a/b..", "..a/b.."), ("ä/ö", "ä/ö")]
        {
            assert_eq!(EntryPath::parse(text).unwrap().as_str(), expected);
        }
        let deep = EntryPath::parse("a/b/c").unwrap();
        assert_eq!(deep.folders().collect::<Vec<_>>(), ["a", "a/b"]);
    }
}
