//! Safe paths: of entries, of items from resolvers, and of snapshot members.

use unicode_normalization::UnicodeNormalization as _;

/// The longest path, in bytes. Linux accepts 4096 in total, so this leaves room for the root.
pub const MAX_PATH_BYTES: usize = 1024;

/// The most names in a path.
pub const MAX_SEGMENTS: usize = 64;

/// The longest name, in bytes, that all common file systems accept.
pub const MAX_SEGMENT_BYTES: usize = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsafePath {
    #[error("is empty")]
    Empty,
    #[error("is {bytes} bytes; the limit is {MAX_PATH_BYTES} bytes")]
    TooLong { bytes: usize },
    #[error("starts with `/`, but must be relative to its slot")]
    Absolute,
    #[error("ends with `/`")]
    TrailingSlash,
    #[error("has an empty name between two `/`")]
    EmptySegment,
    #[error("contains a `.` or `..` segment")]
    DotSegment,
    #[error("contains the control character U+{:04X}", u32::from(*character))]
    Control { character: char },
    /// A `\`, which separates names on some systems.
    #[error("contains a backslash")]
    Backslash,
    #[error("has a name of {bytes} bytes; the limit is {MAX_SEGMENT_BYTES} bytes")]
    SegmentTooLong { bytes: usize },
    #[error("has {segments} segments; the limit is {MAX_SEGMENTS}")]
    TooDeep { segments: usize },
}

/// Checks that `path` stays below its base on every file system and in every program that displays
/// it.
///
/// # Errors
/// The first reason why it is not safe.
///
/// ```
/// use workspace::plan::validate::path::{self, UnsafePath};
///
/// assert_eq!(path::check("kb/space/page.md"), Ok(()));
/// assert_eq!(path::check("kb/../../etc/passwd"), Err(UnsafePath::DotSegment));
/// ```
pub fn check(path: &str) -> Result<(), UnsafePath> {
    if path.is_empty() {
        return Err(UnsafePath::Empty);
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(UnsafePath::TooLong { bytes: path.len() });
    }
    if path.starts_with('/') {
        return Err(UnsafePath::Absolute);
    }
    if path.ends_with('/') {
        return Err(UnsafePath::TrailingSlash);
    }
    // `char::is_control` is exactly the category Cc: C0, DEL and C1.
    if let Some(character) = path.chars().find(|character| character.is_control()) {
        return Err(UnsafePath::Control { character });
    }
    if path.contains('\\') {
        return Err(UnsafePath::Backslash);
    }
    let mut segments = 0;
    for segment in path.split('/') {
        match segment {
            "" => return Err(UnsafePath::EmptySegment),
            "." | ".." => return Err(UnsafePath::DotSegment),
            _ if segment.len() > MAX_SEGMENT_BYTES => {
                return Err(UnsafePath::SegmentTooLong { bytes: segment.len() });
            }
            _ => segments += 1,
        }
    }
    if segments > MAX_SEGMENTS {
        return Err(UnsafePath::TooDeep { segments });
    }
    Ok(())
}

/// The form in which a case-insensitive file system compares names.
///
/// File systems fold differently; this folds whatever any of them does: case by way of upper case
/// (so that `ß` equals `SS` and `ſ` equals `s`), and composed characters with their parts. Names
/// that differ here are different files everywhere.
pub fn folded(path: &str) -> String {
    let upper = path.nfd().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect::<String>().nfd().collect()
}
