//! Names from a plan that become paths of the library.

use crate::{Code, Error};

/// The longest name of common file systems.
const MAX_SEGMENT_BYTES: usize = 255;
/// Long enough for every path of a plan.
const MAX_KEY_BYTES: usize = 1024;
/// The depth limit of skill keys.
const MAX_SKILL_SEGMENTS: usize = 4;
/// The longest segment of a skill key.
const MAX_SKILL_SEGMENT_BYTES: usize = 64;

/// Whether a string is a valid relative path in a library: plain segments, none hidden.
pub(super) fn is_path(text: &str) -> bool {
    text.len() <= MAX_KEY_BYTES
        && text.split('/').all(|segment| is_name(segment) && !segment.starts_with('.'))
}

/// Whether a string is a valid name in a workspace.
pub(super) fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..")
        && text.len() <= MAX_SEGMENT_BYTES
        && !text.contains(['/', '\\'])
        && !text.chars().any(char::is_control)
}

/// Whether a string is a valid skill key.
pub(super) fn is_skill(text: &str) -> bool {
    text.split('/').count() <= MAX_SKILL_SEGMENTS && text.split('/').all(is_skill_segment)
}

fn is_skill_segment(segment: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    segment.len() <= MAX_SKILL_SEGMENT_BYTES
        && segment.bytes().next().is_some_and(plain)
        && segment.bytes().all(|byte| plain(byte) || byte == b'-')
}

/// The path for a key, or the refusal of an invalid key.
pub(super) fn path(what: &str, key: &str, path: impl FnOnce() -> String) -> Result<String, Error> {
    if is_path(key) {
        return Ok(path());
    }
    Err(impossible(what, key))
}

/// An invalid key is reported as not found.
pub(super) fn impossible(what: &str, key: &str) -> Error {
    let shown = shown(key);
    let message = format!("invalid name of {what}: `{shown}` must consist of plain path segments");
    Error::new(Code::ResolveNotFound, message).detail("key", shown)
}

/// A key for a message: short and on one line.
pub(super) fn shown(key: &str) -> String {
    const MAX_SHOWN: usize = 120;
    let plain =
        |character: char| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
    let mut shown: String = key.chars().take(MAX_SHOWN).map(plain).collect();
    if key.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_and_invalid_path_keys() {
        for good in ["a", "a/b", "a@b", "Ä ö", "a..b", "a.md", "a:b"] {
            assert!(is_path(good), "{good}");
        }
        let long = "x".repeat(256);
        for bad in ["", "/", "a/", "/a", "a//b", "..", "a/../b", ".git", "a/.b", "a\\b", "a\0", "a\nb", &long]
        {
            assert!(!is_path(bad), "{bad:?}");
        }
    }

    #[test]
    fn valid_and_invalid_skill_keys() {
        for good in ["a", "code-review", "writing/release-notes", "a/b/c/d", "0"] {
            assert!(is_skill(good), "{good}");
        }
        for bad in ["", "-a", "A", "a_b", "a/b/c/d/e", "a/", "../a", "a.b", &"x".repeat(65)] {
            assert!(!is_skill(bad), "{bad:?}");
        }
    }
}
