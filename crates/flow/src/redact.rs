//! Keeps credentials out of events, errors and bundles.
//!
//! Recognizes the formats of widely used credentials. A match is replaced; the rest of the text or document is unchanged.

mod shapes;

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::Regex;
use serde_json::{Map, Value};

use self::shapes::CredentialFinder;

/// The replacement of a credential.
pub const MARK: &str = "[REDACTED]";

/// Matches the prefix and the minimum length of every kind of credential. It is a fast test that rules out most texts;
/// [`CredentialFinder`] then finds the exact ranges.
fn prefixes() -> &'static Regex {
    static PREFIXES: OnceLock<Regex> = OnceLock::new();
    PREFIXES.get_or_init(|| {
        let prefixes = [
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
        Regex::new(&prefixes.join("|")).expect("the prefixes above form a valid pattern")
    })
}

/// Replaces the credentials in a text.
pub fn text(text: &str) -> Cow<'_, str> {
    if !prefixes().is_match(text) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::new();
    let mut copied = 0;
    for range in CredentialFinder::new(text) {
        clean.push_str(&text[copied..range.start]);
        clean.push_str(MARK);
        copied = range.end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    clean.push_str(&text[copied..]);
    Cow::Owned(clean)
}

/// Whether a text contains a credential.
pub fn is_suspicious(text: &str) -> bool {
    prefixes().is_match(text) && CredentialFinder::new(text).next().is_some()
}

/// Replaces the credentials in a JSON text, including those in member names. A text without credentials is returned unchanged.
pub fn json(text: &str) -> Cow<'_, str> {
    if !prefixes().is_match(text) || CredentialFinder::in_json(text).next().is_none() {
        return Cow::Borrowed(text);
    }
    let Ok(mut document) = canon::json::read(text.as_bytes(), &canon::json::Limits::default()) else {
        return self::text(text);
    };
    if clean(&mut document) { Cow::Owned(document.to_string()) } else { Cow::Borrowed(text) }
}

/// Replaces the credentials in a document, including those in member names.
pub fn value(value: &mut Value) {
    clean(value);
}

/// Replaces the credentials in a document, and returns whether there were any.
fn clean(value: &mut Value) -> bool {
    let mut changed = false;
    // An explicit stack instead of recursion: documents can be nested as deeply as the reader allows.
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
    fn credentials_are_replaced_and_the_rest_is_unchanged() {
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
    fn each_format_is_recognized_within_its_limits() {
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
    fn a_json_text_without_credentials_is_returned_unchanged() {
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
    fn the_search_takes_linear_time() {
        // Without remembering earlier results, each of these texts would be scanned again from every position in it.
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
