//! Paths that cannot lead out.

use crate::args::refuse;
use crate::error::{Code, SurfaceError};

/// How many bytes a path may have.
pub const MAX_PATH_BYTES: usize = 1024;
/// How many folders deep a path may lead.
pub const MAX_SEGMENTS: usize = 64;
/// How many bytes a name may have; file systems have that bound too.
const MAX_NAME_BYTES: usize = 255;

/// A path below the folder of a tenant: relative, `/`-separated, without `.` and `..`.
///
/// What is absolute is refused and never read as something relative: whoever wrote it meant another place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelativePath(String);

impl RelativePath {
    /// Reads a path.
    ///
    /// # Errors
    /// `path_outside_sandbox`: it is absolute, on a drive, with a backslash or `..`. `invalid_argument`: it is empty, too long or too deep.
    pub fn parse(text: &str) -> Result<Self, SurfaceError> {
        let outside = |why: &str| {
            let message =
                format!("the path {why}; give one below the folder of the tenant, as in `reports/may.csv`");
            Err(SurfaceError::new(Code::PathOutsideSandbox, message))
        };
        if text.len() > MAX_PATH_BYTES {
            return Err(refuse(format!("`path` has at most {MAX_PATH_BYTES} bytes")));
        }
        if text.contains('\0') {
            return Err(refuse("`path` may not contain NUL"));
        }
        if text.starts_with('/') {
            return outside("is absolute");
        }
        if text.contains('\\') {
            return outside("has a backslash, which other systems take for a separator");
        }
        let bytes = text.as_bytes();
        if bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' {
            return outside("names a drive");
        }
        let mut segments = Vec::new();
        for segment in text.split('/') {
            match segment {
                "" | "." => {}
                ".." => return outside("has `..` in it"),
                name if name.len() > MAX_NAME_BYTES => {
                    return Err(refuse(format!("a name in `path` has at most {MAX_NAME_BYTES} bytes")));
                }
                name => segments.push(name),
            }
        }
        if segments.is_empty() {
            return Err(refuse("`path` names no file"));
        }
        if segments.len() > MAX_SEGMENTS {
            return Err(refuse(format!("`path` leads through at most {MAX_SEGMENTS} folders")));
        }
        Ok(Self(segments.join("/")))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folder it is in, and its name there. The folder is empty for a name in the folder of the tenant itself.
    pub fn split(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or(("", &self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_that_are_refused() {
        let deep = "a/".repeat(65);
        let long = "a".repeat(256);
        let cases = [
            ("/etc/passwd", Code::PathOutsideSandbox),
            ("//server/share", Code::PathOutsideSandbox),
            ("\\windows", Code::PathOutsideSandbox),
            ("C:\\windows", Code::PathOutsideSandbox),
            ("c:file", Code::PathOutsideSandbox),
            ("..", Code::PathOutsideSandbox),
            ("../x", Code::PathOutsideSandbox),
            ("a/../b", Code::PathOutsideSandbox),
            ("a/b/..", Code::PathOutsideSandbox),
            ("a\\..\\b", Code::PathOutsideSandbox),
            ("", Code::InvalidArgument),
            (".", Code::InvalidArgument),
            ("./", Code::InvalidArgument),
            ("a\0b", Code::InvalidArgument),
            (&deep, Code::InvalidArgument),
            (&long, Code::InvalidArgument),
        ];
        for (text, code) in cases {
            assert_eq!(RelativePath::parse(text).unwrap_err().code, code, "{text:?}");
        }
    }

    #[test]
    fn paths_that_are_taken() {
        let cases = [
            ("a", "a"),
            ("./a//b/", "a/b"),
            ("...", "..."),
            ("a..b/.c", "a..b/.c"),
            ("%2e%2e/x", "%2e%2e/x"),
        ];
        for (text, expected) in cases {
            assert_eq!(RelativePath::parse(text).unwrap().as_str(), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_path_that_is_taken_climbs(text in "[./\\\\a:~ ]{0,12}") {
            if let Ok(path) = RelativePath::parse(&text) {
                for component in std::path::Path::new(path.as_str()).components() {
                    prop_assert!(matches!(component, std::path::Component::Normal(_)), "{}", text);
                }
            }
        }
    }
}
