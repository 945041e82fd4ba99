//! Revisions of a repository.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Revision<'a> {
    /// The repository's default.
    Head,
    /// A branch or tag, or a full name below `refs/`.
    Name(&'a str),
    /// A commit by its full id.
    Commit(&'a str),
}

impl<'a> Revision<'a> {
    pub(super) const fn as_str(self) -> &'a str {
        match self {
            Self::Head => "HEAD",
            Self::Name(text) | Self::Commit(text) => text,
        }
    }

    /// Whether it is a SHA-256 id.
    pub(super) const fn is_sha256(self) -> bool {
        matches!(self, Self::Commit(id) if id.len() == 64)
    }
}

/// The longest name of file systems.
const MAX_BYTES: usize = 255;

/// Parses a revision by the rules of `git check-ref-format`, so that only names reach the command
/// line: no options, refspecs, patterns or expressions.
pub(super) fn parse(text: &str) -> Option<Revision<'_>> {
    let hexadecimal = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    if matches!(text.len(), 40 | 64) && hexadecimal {
        return Some(Revision::Commit(text));
    }
    if text == "HEAD" {
        return Some(Revision::Head);
    }
    let allowed = |character: char| {
        !character.is_control()
            && !character.is_whitespace()
            && !"~^:?*[\\+\"'`$;&|<>(){}!#".contains(character)
    };
    let segment = |segment: &str| {
        !segment.is_empty()
            && !segment.starts_with(['.', '-'])
            && !segment.ends_with('.')
            && !segment.ends_with(".lock")
    };
    let fits = text.len() <= MAX_BYTES
        && text != "@"
        && !text.contains("..")
        && !text.contains("@{")
        && text.chars().all(allowed)
        && text.split('/').all(segment);
    fits.then_some(Revision::Name(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_and_invalid_revisions() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(parse(commit), Some(Revision::Commit(commit)));
        assert_eq!(parse("HEAD"), Some(Revision::Head));
        for good in ["main", "v1.2.3", "feature/x", "refs/tags/v1", "release@2", "ünïcode"] {
            assert_eq!(parse(good), Some(Revision::Name(good)), "{good}");
        }
        let long = "x".repeat(256);
        let bad = [
            "",
            "-x",
            "--upload-pack=touch",
            "a b",
            "a:b",
            "+main",
            "^main",
            "main~1",
            "main^{tree}",
            "a..b",
            "@{1}",
            "@",
            "a//b",
            "/a",
            "a/",
            ".a",
            "a/.b",
            "a.lock",
            "refs/*",
            "a\\b",
            "a\nb",
            "a/-b",
            "$(x)",
            &long,
        ];
        for text in bad {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
