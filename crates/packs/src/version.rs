//! Pack versions.

pub use semver::Version;

/// The maximum length of a version, in bytes. It is a folder name.
pub const MAX_VERSION_BYTES: usize = 128;

/// Parses a complete version of SemVer 2.0.0: `1.0`, `v1.0.0` and `01.0.0` are invalid.
pub fn parse(text: &str) -> Option<Version> {
    if text.len() > MAX_VERSION_BYTES {
        return None;
    }
    Version::parse(text).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn requires_complete_versions() {
        for (text, accepted) in [
            ("1.0.0", true),
            ("1.0.0-rc.1+build.5", true),
            ("v1.0.0", false),
            ("1.0", false),
            ("01.0.0", false),
            ("1.0.0-01", false),
            ("not-a-semver", false),
            ("", false),
            ("99999999999999999999.0.0", false),
        ] {
            assert_eq!(super::parse(text).is_some(), accepted, "{text}");
        }
        assert!(super::parse(&format!("1.0.0-{}", "a".repeat(200))).is_none());
    }
}
