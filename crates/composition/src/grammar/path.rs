//! Route paths: the root, or segments that are static or a `:parameter`.

use std::borrow::Cow;

use crate::vocabulary::wire_names;

/// The longest route path, in bytes.
pub const MAX_PATH_BYTES: usize = 512;

/// The most segments of a route path.
pub const MAX_PATH_SEGMENTS: usize = 32;

/// Why a text is no route path. The first that applies, in this order, is the one reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// There is no text.
    Empty,
    /// Over [`MAX_PATH_BYTES`].
    TooLong,
    /// Does not start with `/`.
    NotAbsolute,
    /// Holds a `?` or a `#`.
    QueryOrHash,
    /// Ends in `/` and is not the root.
    TrailingSlash,
    /// Holds `//`.
    EmptySegment,
    /// Has a segment `.` or `..`.
    DotSegment,
    /// Has a segment that starts with `:` and is no parameter.
    InvalidParameter,
    /// Holds a character that no path may hold.
    InvalidCharacter,
    /// Names one parameter twice.
    DuplicateParameter,
    /// Over [`MAX_PATH_SEGMENTS`].
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

/// What is wrong with `path`, if anything.
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
                // The length is bounded by now, so looking back costs little.
                faults.duplicate |= rest.split('/').take(index).any(|earlier| earlier == segment);
            }
            None => faults.character |= !segment.bytes().all(is_static_byte),
        }
        faults.count |= index >= MAX_PATH_SEGMENTS;
    }
    faults.first()
}

/// The path with the name of each parameter left out; two routes of one shape answer the same addresses.
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

/// What was found anywhere in the path; [`Faults::first`] picks by precedence, not by place.
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
    fn the_first_fault_by_precedence_is_named() {
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
    fn shapes_forget_parameter_names_only() {
        for (path, shape) in [("/", "/"), ("/a/b", "/a/b"), ("/a/:id", "/a/:"), ("/:a/:b/c", "/:/:/c")] {
            assert_eq!(path_shape(path), shape);
        }
    }
}
