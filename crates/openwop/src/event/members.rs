//! Extension members: how a member of version 1 without a place in version 2 is named.

use serde_json::Value;

const PREFIX: &str = "x-interlock-";
/// Members that version 1 left out and version 2 derives from another one.
pub(super) const ABSENT: &str = "x-interlock-absent";

/// The extension member of a member. `pausedAt` is `x-interlock-paused-at`; a name that is not camel case follows a second dash.
pub(super) fn extension(name: &str) -> String {
    let mut dashed = String::with_capacity(name.len() + PREFIX.len() + 4);
    dashed.push_str(PREFIX);
    for found in name.chars() {
        if found.is_ascii_uppercase() {
            dashed.push('-');
        }
        dashed.push(found.to_ascii_lowercase());
    }
    if camel(&dashed[PREFIX.len()..]).as_deref() == Some(name) { dashed } else { format!("{PREFIX}-{name}") }
}

/// The member of an extension member. `None` if it is not one of this program.
pub(super) fn member(extension: &str) -> Option<String> {
    let rest = extension.strip_prefix(PREFIX)?;
    match rest.strip_prefix('-') {
        Some(name) => Some(name.to_owned()),
        None => camel(rest),
    }
}

/// `paused-at` as `pausedAt`. `None` if the text is not made of words with dashes between them.
fn camel(dashed: &str) -> Option<String> {
    let mut name = String::with_capacity(dashed.len());
    for (place, word) in dashed.split('-').enumerate() {
        let first = word.chars().next().filter(char::is_ascii_lowercase)?;
        if !word.chars().all(|found| found.is_ascii_lowercase() || found.is_ascii_digit()) {
            return None;
        }
        match place {
            0 => name.push_str(word),
            _ => {
                name.push(first.to_ascii_uppercase());
                name.push_str(&word[1..]);
            }
        }
    }
    Some(name)
}

/// Whether version 2 admits a member of this name on types with extension members.
pub(super) fn is_extension(name: &str) -> bool {
    ["x-", "openwop-", "vendor."].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a list of texts contains one.
pub(super) fn lists(list: Option<&Value>, name: &str) -> bool {
    list.and_then(Value::as_array).is_some_and(|list| list.iter().any(|found| found == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable() {
        for (name, expected) in [
            ("pausedAt", "x-interlock-paused-at"),
            ("outcome", "x-interlock-outcome"),
            ("a1B2", "x-interlock-a1-b2"),
            ("paused-at", "x-interlock--paused-at"),
            ("Paused", "x-interlock--Paused"),
            ("", "x-interlock--"),
        ] {
            assert_eq!(extension(name), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn every_name_comes_back(name in r"\PC{0,20}|[a-z][a-zA-Z0-9-]{0,20}") {
            proptest::prop_assert_eq!(member(&extension(&name)), Some(name));
        }
    }
}
