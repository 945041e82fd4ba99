//! Paths inside a pack.

use std::fmt;

/// The longest path, in bytes.
pub const MAX_PATH_BYTES: usize = 512;
/// The longest name of a file or folder, in bytes. File systems end at 255.
pub const MAX_SEGMENT_BYTES: usize = 255;
/// The most segments of a path.
pub const MAX_PATH_DEPTH: usize = 32;

/// The folder that an installed pack keeps to itself. No archive may bring it.
pub const RESERVED: &str = ".interlock";

/// A path inside a pack: relative, with `/` between its segments, never above the root of the pack.
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

/// Why a text is no path inside a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It leads, or could lead, out of the pack.
    #[error("the path leads out of the pack: it is absolute, has `..` or a backslash, or names a drive")]
    Outside,
    /// It names nothing.
    #[error("the path names no file: it is empty, or has an empty or `.` segment")]
    Empty,
    /// It has characters that are not shown.
    #[error("the path has control characters, or is no UTF-8")]
    Unprintable,
    /// It is beyond a bound.
    #[error(
        "the path is too long: at most {MAX_PATH_BYTES} bytes, {MAX_PATH_DEPTH} segments and {MAX_SEGMENT_BYTES} bytes each"
    )]
    TooLong,
    /// It is in the folder that installed packs keep to themselves.
    #[error("the path begins with `{RESERVED}`, which is the installer's")]
    Reserved,
}

impl EntryPath {
    /// Reads a path. `./` at its beginning, as `tar` writes it, is taken off.
    ///
    /// # Errors
    /// What is wrong with it.
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

    /// The path as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folders above it, outermost first.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(index, _)| &self.0[..index])
    }

    /// The names on the way to it, its own last.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The path as a file system that knows neither case nor Unicode forms would see it.
    pub(crate) fn folded(&self) -> String {
        folded(&self.0)
    }
}

/// Two names with the same fold are one file on some machine.
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
    fn paths_that_are_refused() {
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
    fn paths_that_are_read() {
        for (text, expected) in
            [("pack.json", "pack.json"), ("././a/b", "a/b"), ("..a/b..", "..a/b.."), ("ä/ö", "ä/ö")]
        {
            assert_eq!(EntryPath::parse(text).unwrap().as_str(), expected);
        }
        let deep = EntryPath::parse("a/b/c").unwrap();
        assert_eq!(deep.folders().collect::<Vec<_>>(), ["a", "a/b"]);
    }
}
