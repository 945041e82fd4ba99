//! Route paths: the root, or segments that are static or a `:parameter`.

use std::borrow::Cow;

use crate::vocabulary::wire_names;

/// The maximum length of a route path, in bytes.
pub const MAX_PATH_BYTES: usize = 512;

/// The maximum number of segments.
pub const MAX_PATH_SEGMENTS: usize = 32;

/// Why a route path is invalid. The first fault in this order is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    Empty,
    /// Longer than [`MAX_PATH_BYTES`].
    TooLong,
    /// Does not start with `/`.
    NotAbsolute,
    /// Contains `?` or `#`.
    QueryOrHash,
    /// Ends in `/` and is not the root.
    TrailingSlash,
    /// Contains `//`.
    EmptySegment,
    /// Has a segment `.` or `..`.
    DotSegment,
    /// A segment that starts with `:` is not a valid parameter.
    InvalidParameter,
    /// Contains an invalid character.
    InvalidCharacter,
    /// Has the same parameter twice.
    DuplicateParameter,
    /// More than [`MAX_PATH_SEGMENTS`].
    TooManySegments,
}

wire_names!(PathFault {
    Empty => "empty",
    TooLong => "too-long",
    NotAbsolute => "not-absolute",
    QueryOrHash => "query-or-hash",
    TrailingSlash => "trailing-slash",
    EmptySegment => "empty-segment",
    DotSegment => "dot-segment",
    InvalidParameter => "invalid-parameter",
    InvalidCharacter => "invalid-character",
    DuplicateParameter => "duplicate-parameter",
    TooManySegments => "too-many-segments",
});

/// The fault of `path`, if any.
pub fn path_fault(path: &str) -> Option<PathFault> {
    if path.is_empty() {
        return Some(PathFault::Empty);
    }
    if path.len() > MAX_PATH_BYTES {
        return Some(PathFault::TooLong);
    }
    let Some(rest) = path.strip_prefix('/') else { return Some(PathFault::NotAbsolute) };
    if path.contains(['?', '#']) {
        return Some(PathFault::QueryOrHash);
    }
    if rest.is_empty() {
        return None;
    }
    if rest.ends_with('/') {
        return Some(PathFault::TrailingSlash);
    }
    let mut faults = Faults::default();
    for (index, segment) in rest.split('/').enumerate() {
        faults.empty |= segment.is_empty();
        faults.dot |= matches!(segment, "." | "..");
        match segment.strip_prefix(':') {
            Some(name) => {
                faults.parameter |= !is_parameter(name);
                // The length is limited, so this is cheap.
                faults.duplicate |= rest.split('/').take(index).any(|earlier| earlier == segment);
            }
            None => faults.character |= !segment.bytes().all(is_static_byte),
        }
        faults.count |= index >= MAX_PATH_SEGMENTS;
    }
    faults.first()
}

/// The path without parameter names; two routes with the same shape match the same paths.
///
/// ```
/// # use composition::grammar::path_shape;
/// assert_eq!(path_shape("/projects/:id/edit"), "/projects/:/edit");
/// ```
pub fn path_shape(path: &str) -> Cow<'_, str> {
    if !path.contains("/:") {
        return Cow::Borrowed(path);
    }
    let mut shape = String::with_capacity(path.len());
    for (index, segment) in path.split('/').enumerate() {
        if index > 0 {
            shape.push('/');
        }
        shape.push_str(if segment.starts_with(':') { ":" } else { segment });
    }
    Cow::Owned(shape)
}

/// All faults of a path; [`Faults::first`] selects by precedence.
#[derive(Default)]
struct Faults {
    empty: bool,
    dot: bool,
    parameter: bool,
    character: bool,
    duplicate: bool,
    count: bool,
}

impl Faults {
    fn first(&self) -> Option<PathFault> {
        [
            (self.empty, PathFault::EmptySegment),
            (self.dot, PathFault::DotSegment),
            (self.parameter, PathFault::InvalidParameter),
            (self.character, PathFault::InvalidCharacter),
            (self.duplicate, PathFault::DuplicateParameter),
            (self.count, PathFault::TooManySegments),
        ]
        .into_iter()
        .find_map(|(found, fault)| found.then_some(fault))
    }
}

fn is_parameter(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_static_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_the_first_fault_by_precedence() {
        use PathFault as F;
        let long = format!("/{}", "a".repeat(MAX_PATH_BYTES));
        let segments = "/a".repeat(MAX_PATH_SEGMENTS);
        let too_many = "/a".repeat(MAX_PATH_SEGMENTS + 1);
        let cases = [
            ("/", None),
            ("/data-lab", None),
            ("/p/:projectId/~me/v1.2", None),
            ("/.hidden", None),
            (segments.as_str(), None),
            ("", Some(F::Empty)),
            (long.as_str(), Some(F::TooLong)),
            ("data-lab", Some(F::NotAbsolute)),
            ("/a?b=/", Some(F::QueryOrHash)),
            ("/a#b", Some(F::QueryOrHash)),
            ("/a/", Some(F::TrailingSlash)),
            ("//", Some(F::TrailingSlash)),
            ("/a//b", Some(F::EmptySegment)),
            ("/../a//b", Some(F::EmptySegment)),
            ("/a/./b", Some(F::DotSegment)),
            ("/%/..", Some(F::DotSegment)),
            ("/:", Some(F::InvalidParameter)),
            ("/:Id", Some(F::InvalidParameter)),
            ("/a b/:9", Some(F::InvalidParameter)),
            ("/a%20b", Some(F::InvalidCharacter)),
            ("/a*", Some(F::InvalidCharacter)),
            ("/é", Some(F::InvalidCharacter)),
            ("/a:b", Some(F::InvalidCharacter)),
            ("/:id/x/:id", Some(F::DuplicateParameter)),
            (too_many.as_str(), Some(F::TooManySegments)),
        ];
        for (path, expected) in cases {
            assert_eq!(path_fault(path), expected, "{path}");
        }
    }

    #[test]
    fn shapes_ignore_parameter_names() {
        for (path, shape) in [("/", "/"), ("/a/b", "/a/b"), ("/a/:id", "/a/:"), ("/:a/:b/c", "/:/:/c")] {
            assert_eq!(path_shape(path), shape);
        }
    }
}
