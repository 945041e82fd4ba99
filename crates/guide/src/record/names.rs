//! Names that are parts of keys and so must not contain the separators of keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid name: use only a-z, 0-9, `_` and `-`{}", if *.dotted { ", in parts joined by `.`" } else { "" })]
pub struct NameError {
    text: String,
    dotted: bool,
}

fn is_part(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

macro_rules! names {
    ($($(#[$docs:meta])* $name:ident($pattern:literal, dotted: $dotted:literal, $check:expr);)+) => {
        $(
            $(#[$docs])*
            #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
            #[serde(try_from = "String", into = "String")]
            pub struct $name(#[schemars(regex(pattern = $pattern))] String);

            impl $name {
                /// Parses a name.
                ///
                /// # Errors
                /// The text is not a valid name.
                pub fn parse(text: &str) -> Result<Self, NameError> {
                    let check: fn(&str) -> bool = $check;
                    if check(text) {
                        Ok(Self(text.to_owned()))
                    } else {
                        Err(NameError { text: text.chars().take(80).collect(), dotted: $dotted })
                    }
                }

                pub fn as_str(&self) -> &str {
                    &self.0
                }
            }

            impl std::fmt::Display for $name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.pad(&self.0)
                }
            }

            impl TryFrom<String> for $name {
                type Error = NameError;

                fn try_from(text: String) -> Result<Self, NameError> {
                    Self::parse(&text)
                }
            }

            impl From<$name> for String {
                fn from(name: $name) -> Self {
                    name.0
                }
            }
        )+
    };
}

names! {
    /// A name of `[a-z0-9_-]+`: loop ids, condition ids, context keys in pointers.
    DelimiterSafe(r"^[a-z0-9_-]+$", dotted: false, is_part);
    /// The id of a step: one such name, or several joined by dots if a template was expanded.
    StepName(r"^[a-z0-9_-]+(\.[a-z0-9_-]+)*$", dotted: true, |text| text.split('.').all(is_part));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_contain_no_delimiters() {
        for (text, plain, dotted) in [
            ("collect", true, true),
            ("a_b-9", true, true),
            ("call.step", false, true),
            ("", false, false),
            (".", false, false),
            ("A", false, false),
            ("a@b", false, false),
            ("a::b", false, false),
        ] {
            assert_eq!(DelimiterSafe::parse(text).is_ok(), plain, "{text:?}");
            assert_eq!(StepName::parse(text).is_ok(), dotted, "{text:?}");
        }
    }
}
