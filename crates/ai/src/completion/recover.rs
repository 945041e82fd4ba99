//! Reading a document out of a reply that may have more around it.
//!
//! Three ways are tried, the strict one first; each looks at every byte a bounded number of times. What is read is read by
//! the strict reader in all three: a document is found, never mended. There is no way here that guesses what a broken
//! document was meant to be.

use canon::json::{self, Limits};
use serde_json::Value;

use crate::provider::MAX_REPLY_BYTES;
use crate::words::words;

/// The deepest nesting of a reply.
pub const MAX_DEPTH: usize = 64;
/// The most places at which a document is looked for.
const MAX_CANDIDATES: usize = 16;
const LIMITS: Limits = Limits::DEFAULT.max_bytes(MAX_REPLY_BYTES).max_depth(MAX_DEPTH);

words! {
    /// How a document was found.
    pub enum Path {
        /// The reply is the document.
        Direct => "direct",
        /// It stands between fences.
        MarkdownFence => "markdown-fence",
        /// It stands somewhere, between its own brackets.
        BraceWalker => "brace-walker",
    }
}

/// A document that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The document.
    pub value: Value,
    /// How it was found.
    pub path: Path,
    /// Where it begins, in bytes.
    pub offset: usize,
}

/// The document of a reply, if there is one.
pub fn read(text: &str) -> Option<Found> {
    if text.len() > MAX_REPLY_BYTES {
        return None;
    }
    direct(text).or_else(|| fenced(text)).or_else(|| walked(text))
}

/// Whether a reply is words, and not a document that went wrong.
pub fn is_prose(text: &str) -> bool {
    let text = text.trim_start();
    !text.is_empty() && !text.starts_with(['{', '[', '`'])
}

fn parsed(text: &str) -> Option<Value> {
    json::read(text.as_bytes(), &LIMITS).ok()
}

fn direct(text: &str) -> Option<Found> {
    let offset = text.len() - text.trim_start().len();
    Some(Found { value: parsed(text.trim())?, path: Path::Direct, offset })
}

/// The first document between two fences. A fence that is not closed ends with the reply.
fn fenced(text: &str) -> Option<Found> {
    const FENCE: &str = "```";
    let mut from = 0;
    for _ in 0..MAX_CANDIDATES {
        let open = from + text[from..].find(FENCE)? + FENCE.len();
        // What stands behind the fence names a language. A document may also follow at once.
        let word =
            text[open..].find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(text.len() - open);
        let start = open + word;
        let end = text[start..].find(FENCE).map_or(text.len(), |length| start + length);
        let inner = &text[start..end];
        if let Some(value) = parsed(inner.trim()).filter(is_container) {
            let offset = start + inner.len() - inner.trim_start().len();
            return Some(Found { value, path: Path::MarkdownFence, offset });
        }
        from = text.len().min(end + FENCE.len());
    }
    None
}

/// The last document that stands between its own brackets and in no other ones.
fn walked(text: &str) -> Option<Found> {
    let spans = spans(text);
    spans.into_iter().rev().take(MAX_CANDIDATES).find_map(|(start, end)| {
        let value = parsed(&text[start..end]).filter(is_container)?;
        Some(Found { value, path: Path::BraceWalker, offset: start })
    })
}

fn is_container(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// The outermost pairs of brackets, from left to right. A bracket that is never closed counts for nothing.
fn spans(text: &str) -> Vec<(usize, usize)> {
    let mut open: Vec<(usize, u8)> = Vec::new();
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let mut in_text = false;
    let mut escaped = false;
    for (place, byte) in text.bytes().enumerate() {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            // Quotes of prose are no texts of a document.
            b'"' => in_text = !open.is_empty(),
            b'{' | b'[' => open.push((place, byte)),
            b'}' | b']' => {
                let wanted = if byte == b'}' { b'{' } else { b'[' };
                match open.pop() {
                    Some((start, bracket)) if bracket == wanted => {
                        // What stands inside is a part of this one.
                        while spans.last().is_some_and(|(inner, _)| *inner > start) {
                            spans.pop();
                        }
                        spans.push((start, place + 1));
                    }
                    // Brackets that do not belong together: nothing that was open can be a document.
                    Some(_) => open.clear(),
                    None => {}
                }
            }
            _ => {}
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replies_and_how_they_are_read() {
        let ok = json!({"result": "ok"});
        let cases = [
            ("{\"result\":\"ok\"}", Some((ok.clone(), Path::Direct, 0))),
            (" \n{\"result\":\"ok\"}\n", Some((ok.clone(), Path::Direct, 2))),
            ("7", Some((json!(7), Path::Direct, 0))),
            ("```json\n{\"result\":\"ok\"}\n```", Some((ok.clone(), Path::MarkdownFence, 8))),
            ("Here:\n```\n{\"result\":\"ok\"}\n```\nBye.", Some((ok.clone(), Path::MarkdownFence, 10))),
            ("```{\"result\":\"ok\"}", Some((ok.clone(), Path::MarkdownFence, 3))),
            ("```py\nx\n```\n```json\n{\"result\":\"ok\"}```", Some((ok.clone(), Path::MarkdownFence, 20))),
            ("Sure! {\"result\":\"ok\"} Bye.", Some((ok.clone(), Path::BraceWalker, 6))),
            ("a } { b {\"result\":\"ok\"}", Some((ok.clone(), Path::BraceWalker, 8))),
            ("{\"a\":1} then {\"result\":\"ok\"}", Some((ok.clone(), Path::BraceWalker, 13))),
            ("say \"{\" and {\"result\":\"ok\"}", None),
            ("{\"result\":\"}{\"} x", Some((json!({"result": "}{"}), Path::BraceWalker, 0))),
            ("{\"valid\":", None),
            ("no document", None),
            ("", None),
            ("{\"a\":1,\"a\":2}", None),
        ];
        for (text, expected) in cases {
            let found = read(text).map(|found| (found.value, found.path, found.offset));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn hostile_replies_are_read_in_a_moment() {
        for unit in ["{", "[{", "}", "```", "```{", "{\"", "{}", "[1,", "\\\"", "{\"a\":"] {
            let text = unit.repeat(MAX_REPLY_BYTES / unit.len());
            let _ = read(&text);
        }
        assert_eq!(read(&" ".repeat(MAX_REPLY_BYTES + 1)), None);
    }

    #[test]
    fn prose_is_told_from_a_document_that_went_wrong() {
        for (text, prose) in [
            ("Sure, here.", true),
            ("{\"a", false),
            (" [1", false),
            ("```", false),
            ("", false),
            (" \n", false),
        ] {
            assert_eq!(is_prose(text), prose, "{text:?}");
        }
    }
}
