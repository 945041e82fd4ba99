//! Grammars of names, route paths and renderer claims.

mod claim;
mod path;

pub use claim::{ClaimFault, MAX_CLAIM_BYTES, PROTECTED_CLAIMS, claim_fault, is_protected};
pub use path::{MAX_PATH_BYTES, MAX_PATH_SEGMENTS, PathFault, path_fault, path_shape};

/// The pattern of instance ids and local ids.
pub const NAME_PATTERN: &str = "^[a-z0-9][a-z0-9-]*$";

/// The pattern of the ids of built-in owners.
pub const BUILTIN_ID_PATTERN: &str = "^builtin-[a-z0-9][a-z0-9-]*$";

/// The reserved prefix of built-in owner ids.
pub const BUILTIN_PREFIX: &str = "builtin-";

/// The maximum length of an instance id, owner id or local id, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// Whether `text` matches [`NAME_PATTERN`], of any length.
pub fn is_name(text: &str) -> bool {
    !text.starts_with('-')
        && !text.is_empty()
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// Whether `text` is an instance id or a local id.
pub fn is_id(text: &str) -> bool {
    text.len() <= MAX_NAME_BYTES && is_name(text)
}

/// Whether `text` is the id of a built-in owner.
pub fn is_builtin_id(text: &str) -> bool {
    text.len() <= MAX_NAME_BYTES && text.strip_prefix(BUILTIN_PREFIX).is_some_and(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let longest = "a".repeat(MAX_NAME_BYTES);
        let too_long = "a".repeat(MAX_NAME_BYTES + 1);
        let cases = [
            ("plain", "data-lab", true),
            ("one digit", "0", true),
            ("ends in a hyphen", "a-", true),
            ("as long as may be", longest.as_str(), true),
            ("too long", too_long.as_str(), false),
            ("empty", "", false),
            ("starts with a hyphen", "-a", false),
            ("upper case", "Lab", false),
            ("underscore", "a_b", false),
            ("not ASCII", "é", false),
        ];
        for (name, text, expected) in cases {
            assert_eq!(is_id(text), expected, "{name}");
        }
        assert!(is_builtin_id("builtin-a") && !is_builtin_id("builtin-") && !is_builtin_id("a"));
        assert!(!is_builtin_id("builtin--a"));
    }
}
