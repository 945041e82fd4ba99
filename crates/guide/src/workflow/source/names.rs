//! The spelling of names, and the length limits that several readers share.

use std::ops::RangeInclusive;

use super::reader::NameRule;

pub(super) const TITLE: RangeInclusive<usize> = 1..=256;
pub(super) const PROMPT: RangeInclusive<usize> = 1..=8192;
pub(super) const FRAGMENT: RangeInclusive<usize> = 1..=4096;
pub(super) const AGENT_ROLE: RangeInclusive<usize> = 10..=1024;
pub(super) const GUIDANCE: RangeInclusive<usize> = 1..=1024;
pub(super) const SHORT: RangeInclusive<usize> = 1..=256;
pub(super) const PURPOSE: RangeInclusive<usize> = 1..=512;
pub(super) const REGISTRY_ID: RangeInclusive<usize> = 1..=128;

/// The id of a step or loop.
pub(super) const STEP_ID: NameRule = NameRule {
    what: "step id",
    pattern: "a-z, 0-9, `_` and `-`",
    length: 3..=64,
    accepts: is_delimiter_safe,
    fix: suggest_delimiter_safe,
};

/// The id of an assessment, a dimension, a fragment, a reference or a condition.
pub(super) const PART_ID: NameRule = NameRule {
    what: "id",
    pattern: "a-z, 0-9, `_` and `-`",
    length: 1..=64,
    accepts: is_delimiter_safe,
    fix: suggest_delimiter_safe,
};

/// A command in the operator's settings.
pub(super) const COMMAND: NameRule = NameRule { what: "command name", ..PART_ID };

/// A context variable.
pub(super) const VARIABLE: NameRule = NameRule {
    what: "variable name",
    pattern: "a letter or `_`, then letters, digits and `_`",
    length: 1..=64,
    accepts: is_variable,
    fix: |_| "Use a name such as `currentItem`.".to_owned(),
};

pub(super) const FUNCTION: NameRule = NameRule {
    what: "function name",
    pattern: "a letter or `_`, then letters, digits and `_`, without `()`",
    length: 1..=64,
    accepts: is_variable,
    fix: |text| format!("Write `{}`.", text.trim_end_matches("()")),
};

/// A slot of an extension point.
pub(super) const SLOT: NameRule = NameRule {
    what: "slot id",
    pattern: "a-z, then a-z, 0-9 and `_`",
    length: 1..=64,
    accepts: |text| {
        text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    },
    fix: |text| format!("Write `{}`.", suggestion(text).replace('-', "_")),
};

pub(super) fn is_variable(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_delimiter_safe(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

fn suggestion(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|character| character.to_ascii_lowercase())
        .map(|character| if character.is_ascii_alphanumeric() || character == '_' { character } else { '-' })
        .collect();
    plain.trim_matches('-').to_owned()
}

fn suggest_delimiter_safe(text: &str) -> String {
    match suggestion(text) {
        name if name.is_empty() => "Use lower-case letters, digits, `_` and `-`.".to_owned(),
        name => format!("Write `{name}`."),
    }
}
