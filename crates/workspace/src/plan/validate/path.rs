//! Which paths are safe: those of entries, of items that resolvers yield, of members of a snapshot.

use unicode_normalization::UnicodeNormalization as _;

/// The longest path, in bytes. Linux takes 4096 for the whole path, of which the root may have the rest.
pub const MAX_PATH_BYTES: usize = 1024;

/// The most names in a path.
pub const MAX_SEGMENTS: usize = 64;

/// The longest name, in bytes: what every common file system takes.
pub const MAX_SEGMENT_BYTES: usize = 255;

/// Why a path is not safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsafePath {
    /// Nothing at all.
    #[error("is empty")]
    Empty,
    /// More than [`MAX_PATH_BYTES`].
    #[error("has {bytes} bytes, and a path has at most {MAX_PATH_BYTES}")]
    TooLong {
        /// What it has.
        bytes: usize,
    },
    /// It begins with `/`.
    #[error("begins with `/`, and a path stays within its slot")]
    Absolute,
    /// It ends with `/`.
    #[error("ends with `/`")]
    TrailingSlash,
    /// Two `/` with nothing between them.
    #[error("has an empty name between two `/`")]
    EmptySegment,
    /// A name is `.` or `..`.
    #[error("has a name that is `.` or `..`")]
    DotSegment,
    /// A NUL or another control character.
    #[error("has the control character U+{:04X}", u32::from(*character))]
    Control {
        /// Which one.
        character: char,
    },
    /// A `\`, which parts names elsewhere.
    #[error("has a backslash")]
    Backslash,
    /// A name of more than [`MAX_SEGMENT_BYTES`].
    #[error("has a name of {bytes} bytes, and a name has at most {MAX_SEGMENT_BYTES}")]
    SegmentTooLong {
        /// What it has.
        bytes: usize,
    },
    /// More than [`MAX_SEGMENTS`] names.
    #[error("has {segments} names, and a path has at most {MAX_SEGMENTS}")]
    TooDeep {
        /// What it has.
        segments: usize,
    },
}

/// Whether `path` names something below the place that it is relative to, on every file system and for
/// every program that shows it.
///
/// # Errors
/// The first reason why not.
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

/// The form in which a file system that folds case compares names.
///
/// File systems differ in what they fold; this folds whatever any of them does: case by way of the upper case
/// (so that `ß` meets `SS` and `ſ` meets `s`), and composed characters with their parts. Two names that are told apart
/// here are two files everywhere.
pub fn folded(path: &str) -> String {
    let upper = path.nfd().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect::<String>().nfd().collect()
}
