//! Nothing that looks like a credential gets into an event, an error or a bundle.
//!
//! The shapes are those of widely used credentials. A text that holds one is kept, with the credential replaced; the
//! rest of a document passes as it is.

mod shapes;

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::Regex;
use serde_json::{Map, Value};

use self::shapes::Finder;

/// What stands where a credential stood.
pub const MARK: &str = "[REDACTED]";

/// How every credential begins, with as much as has to follow. Most texts have nothing of the kind, and this is found out many bytes at a
/// time. It only says whether to look: where a credential begins and ends, the [`Finder`] knows.
fn beginnings() -> &'static Regex {
    static BEGINNINGS: OnceLock<Regex> = OnceLock::new();
    BEGINNINGS.get_or_init(|| {
        let beginnings = [
            "sk-[A-Za-z0-9_-]{16}",
            "eyJ[A-Za-z0-9_-]{8}",
            "A[KS]IA[A-Z0-9]{16}",
            "AIza[A-Za-z0-9_-]{30}",
            "gh[pousr]_[A-Za-z0-9]{20}",
            "github_pat_[A-Za-z0-9_]{20}",
            "xox[abprs]-[A-Za-z0-9-]{10}",
            "ilk_(?:live|test)_[A-Za-z0-9]{16}",
            "-----BEGIN ",
        ];
        Regex::new(&beginnings.join("|")).expect("the beginnings above are a pattern")
    })
}

/// A text without credentials.
pub fn text(text: &str) -> Cow<'_, str> {
    if !beginnings().is_match(text) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::new();
    let mut copied = 0;
    for found in Finder::new(text) {
        clean.push_str(&text[copied..found.start]);
        clean.push_str(MARK);
        copied = found.end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    clean.push_str(&text[copied..]);
    Cow::Owned(clean)
}

/// Whether a text holds something that looks like a credential.
pub fn is_suspicious(text: &str) -> bool {
    beginnings().is_match(text) && Finder::new(text).next().is_some()
}

/// The JSON text of a document without credentials, names included: the very same text where there are none.
pub fn json(text: &str) -> Cow<'_, str> {
    if !beginnings().is_match(text) || Finder::in_json(text).next().is_none() {
        return Cow::Borrowed(text);
    }
    let Ok(mut document) = canon::json::read(text.as_bytes(), &canon::json::Limits::default()) else {
        return self::text(text);
    };
    if clean(&mut document) { Cow::Owned(document.to_string()) } else { Cow::Borrowed(text) }
}

/// A document without credentials, names included.
pub fn value(value: &mut Value) {
    clean(value);
}

/// Takes the credentials out of a document, and says whether there were any.
fn clean(value: &mut Value) -> bool {
    let mut changed = false;
    // A stack of its own: documents may be nested as deeply as the reader allows.
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(string) => {
                if let Cow::Owned(clean) = text(string) {
                    *string = clean;
                    changed = true;
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
                    changed = true;
                }
                open.extend(members.values_mut());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    changed
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

    #[test]
    fn texts_and_what_is_left_of_them() {
        let key =
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE\n-----END RSA PRIVATE KEY-----";
        let cases = [
            ("x=sk-abcdefghijklmnop", "x=[REDACTED]"),
            ("API_KEY_sk-abcdefghijklmnop.", "API_KEY_[REDACTED]."),
            ("sk-abcdefghijklmno", "sk-abcdefghijklmno"),
            ("task-abcdefghijklmnop-1234", "task-abcdefghijklmnop-1234"),
            ("monkeyJumpsOver.some.things", "monkeyJumpsOver.some.things"),
            ("eyJhbGciOiJI.eyJz.", "[REDACTED]"),
            ("eyJhbGciOiJI.eyJ.x", "eyJhbGciOiJI.eyJ.x"),
            ("-eyJ-eyJhbGciOiJI.abcd.e-f g", "-[REDACTED] g"),
            ("AKIAABCDEFGHIJKLMNOP-x ASIAABCDEFGHIJKLMNOPQ", "[REDACTED]-x ASIAABCDEFGHIJKLMNOPQ"),
            ("AIzaSyA0123456789012345678901234567890", "[REDACTED]"),
            ("ghp_abcdefghijklmnopqrst_x,gho_short", "[REDACTED]_x,gho_short"),
            ("github_pat_abcdefghij_abcdefghij", "[REDACTED]"),
            ("xoxb-12345-67890_x xoxz-1234567890", "[REDACTED]_x xoxz-1234567890"),
            ("ilk_live_0000000000000001 ilk_live_1", "[REDACTED] ilk_live_1"),
            ("ünsk-abcdefghijklmnop ü", "ünsk-abcdefghijklmnop ü"),
            ("-----BEGIN PUBLIC KEY-----\nMIIE", "-----BEGIN PUBLIC KEY-----\nMIIE"),
            ("-----BEGIN PRIVATE KEY-----\nMIIE", "[REDACTED]"),
            ("key-----BEGIN PRIVATE KEY-----\nMIIE", "key[REDACTED]"),
        ];
        for (given, left) in cases {
            assert_eq!(text(given), left, "{given}");
            assert_eq!(is_suspicious(given), given != left, "{given}");
        }
        assert_eq!(text(&format!("a {key} b {key}")), "a [REDACTED] b [REDACTED]");
    }

    #[test]
    fn the_text_of_a_document_is_the_same_text_where_there_is_nothing_to_hide() {
        for document in [json!({"id": "task-abcdefghijklmnop", "n": 1.50}), json!(["\\nghp_", "sk-", "eyJ"])]
        {
            let text = document.to_string();
            assert!(matches!(json(&text), Cow::Borrowed(same) if same == text), "{text}");
        }
        for before in ["", "\n", "\t", "\u{1}", "\\", "\"", "ü", "x-", "\\n "] {
            let mut document = json!({"a": format!("{before}ghp_abcdefghijklmnopqrst"), "b": 1.5});
            let text = document.to_string();
            value(&mut document);
            assert_eq!(json(&text), document.to_string());
            assert!(!json(&text).contains("ghp_"), "{text}");
        }
    }

    #[test]
    fn no_text_takes_longer_than_in_proportion_to_its_length() {
        // Each of these would be looked at again from every place in it, if what was seen were not remembered.
        for part in [
            "eyJ-ghp_abcdefghijklmnopqrst-",
            "eyJ-",
            "eyJaaaaaaaaa.",
            "-----BEGIN ",
            "-----BEGIN PRIVATE KEY-----",
            "-",
        ] {
            let long = part.repeat((1 << 20) / part.len());
            let once = text(&long).into_owned();
            assert_eq!(text(&once), once);
        }
    }
}
