//! Validated relative paths.

use crate::args::refuse;
use crate::error::{Code, SurfaceError};

/// The maximum length of a path, in bytes.
pub const MAX_PATH_BYTES: usize = 1024;
/// The maximum number of path segments.
pub const MAX_SEGMENTS: usize = 64;
/// The maximum length of a name, in bytes, as in most file systems.
const MAX_NAME_BYTES: usize = 255;

/// A path in a tenant's folder: relative, `/`-separated, without `.` and `..`.
///
/// An absolute path is an error and never reinterpreted as relative.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelativePath(String);

impl RelativePath {
    /// Parses a path.
    ///
    /// # Errors
    /// `path_outside_sandbox`: it is absolute, has a drive, a backslash or `..`. `invalid_argument`: it is empty, too
    /// long or too deep.
    pub fn parse(text: &str) -> Result<Self, SurfaceError> {
        let outside = |why: &str| {
            let message =
                format!("the path {why}; use a path in the tenant's folder, such as `reports/may.csv`");
            Err(SurfaceError::new(Code::PathOutsideSandbox, message))
        };
        if text.len() > MAX_PATH_BYTES {
            return Err(refuse(format!("`path` is longer than {MAX_PATH_BYTES} bytes")));
        }
        if text.contains('\0') {
            return Err(refuse("`path` must not contain NUL"));
        }
        if text.starts_with('/') {
            return outside("is absolute");
        }
        if text.contains('\\') {
            return outside("contains a backslash, which is a separator on other systems");
        }
        let bytes = text.as_bytes();
        if bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' {
            return outside("contains a drive letter");
        }
        let mut segments = Vec::new();
        for segment in text.split('/') {
            match segment {
                "" | "." => {}
                ".." => return outside("contains `..`"),
                name if name.len() > MAX_NAME_BYTES => {
                    return Err(refuse(format!("a name in `path` is longer than {MAX_NAME_BYTES} bytes")));
                }
                name => segments.push(name),
            }
        }
        if segments.is_empty() {
            return Err(refuse("`path` does not name a file"));
        }
        if segments.len() > MAX_SEGMENTS {
            return Err(refuse(format!("`path` has more than {MAX_SEGMENTS} segments")));
        }
        Ok(Self(segments.join("/")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parent folder and the name. The parent is empty for a name in the tenant's folder.
    pub fn split(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or(("", &self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rejects_unsafe_paths() {
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
    fn accepts_relative_paths() {
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
        fn accepted_paths_stay_in_the_folder(text in "[./\\\\a:~ ]{0,12}") {
            if let Ok(path) = RelativePath::parse(&text) {
                for component in std::path::Path::new(path.as_str()).components() {
                    prop_assert!(matches!(component, std::path::Component::Normal(_)), "{}", text);
                }
            }
        }
    }
}
