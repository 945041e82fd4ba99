//! Nothing that looks like a credential gets into an event, an error or a bundle.
//!
//! The shapes are those of widely used credentials. A text that holds one is kept, with the credential replaced; the
//! rest of a document passes as it is.

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::Regex;
use serde_json::{Map, Value};

/// What stands where a credential stood.
pub const MARK: &str = "[REDACTED]";

fn shapes() -> &'static Regex {
    static SHAPES: OnceLock<Regex> = OnceLock::new();
    SHAPES.get_or_init(|| {
        let shapes = [
            r"sk-[A-Za-z0-9_-]{16,}",
            r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*",
            r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
            r"\bAIza[A-Za-z0-9_-]{30,}",
            r"\bgh[pousr]_[A-Za-z0-9]{20,}",
            r"\bgithub_pat_[A-Za-z0-9_]{20,}",
            r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
            r"\bilk_(?:live|test)_[A-Za-z0-9]{16,}",
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
        ];
        Regex::new(&shapes.join("|")).expect("the shapes above are patterns")
    })
}

/// A text without credentials.
pub fn text(text: &str) -> Cow<'_, str> {
    shapes().replace_all(text, MARK)
}

/// Whether a text holds something that looks like a credential.
pub fn is_suspicious(text: &str) -> bool {
    shapes().is_match(text)
}

/// A document without credentials, names included.
pub fn value(value: &mut Value) {
    // A stack of its own: documents may be nested as deeply as the reader allows.
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(string) => {
                if let Cow::Owned(clean) = text(string) {
                    *string = clean;
                }
            }
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                if members.keys().any(|name| is_suspicious(name)) {
                    let renamed: Map<_, _> = std::mem::take(members)
                        .into_iter()
                        .map(|(name, value)| (text(&name).into_owned(), value))
                        .collect();
                    *members = renamed;
                }
                open.extend(members.values_mut());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_go_and_the_rest_stays() {
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl";
        let mut document = json!({
            "a": ["key sk-proj-abcdefghijklmnop1234", {"b": jwt}],
            "sk-ant-api03-abcdefghijklmnop": "AKIAABCDEFGHIJKLMNOP",
            "ordinary": {"nested": [1, null, "sk-short", "eyJ", "a.b.c"]}
        });
        value(&mut document);
        assert_eq!(
            document,
            json!({
                "a": ["key [REDACTED]", {"b": "[REDACTED]"}],
                "[REDACTED]": "[REDACTED]",
                "ordinary": {"nested": [1, null, "sk-short", "eyJ", "a.b.c"]}
            })
        );
    }
}
