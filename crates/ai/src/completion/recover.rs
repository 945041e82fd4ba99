//! Extracts a JSON document from a reply that may contain other text.
//!
//! Three methods are tried, the strictest first. Each examines every byte a bounded number of times and uses the strict
//! JSON reader. Broken documents are never repaired.

use canon::json::{self, Limits};
use serde_json::Value;

use crate::provider::MAX_REPLY_BYTES;
use crate::wire_enum::wire_enum;

/// The maximum nesting depth of a reply.
pub const MAX_DEPTH: usize = 64;
/// The maximum number of candidate positions.
const MAX_CANDIDATES: usize = 16;
const LIMITS: Limits = Limits::DEFAULT.max_bytes(MAX_REPLY_BYTES).max_depth(MAX_DEPTH);

wire_enum! {
    pub enum RecoveryPath {
        /// The whole reply is the document.
        Direct => "direct",
        /// The document is in a Markdown code fence.
        MarkdownFence => "markdown-fence",
        /// The document is the last balanced pair of brackets.
        BraceWalker => "brace-walker",
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct RecoveredDocument {
    pub value: Value,
    pub path: RecoveryPath,
    /// Byte offset of the document in the reply.
    pub offset: usize,
}

/// Recovers the document of a reply, if there is one.
pub fn read(text: &str) -> Option<RecoveredDocument> {
    if text.len() > MAX_REPLY_BYTES {
        return None;
    }
    direct(text).or_else(|| fenced(text)).or_else(|| walked(text))
}

/// Whether a reply is prose rather than a broken document.
pub fn is_prose(text: &str) -> bool {
    let text = text.trim_start();
    !text.is_empty() && !text.starts_with(['{', '[', '`'])
}

fn parsed(text: &str) -> Option<Value> {
    json::read(text.as_bytes(), &LIMITS).ok()
}

fn direct(text: &str) -> Option<RecoveredDocument> {
    let offset = text.len() - text.trim_start().len();
    Some(RecoveredDocument { value: parsed(text.trim())?, path: RecoveryPath::Direct, offset })
}

/// The first document in a code fence. An unclosed fence ends with the reply.
fn fenced(text: &str) -> Option<RecoveredDocument> {
    const FENCE: &str = "```";
    let mut from = 0;
    for _ in 0..MAX_CANDIDATES {
        let open = from + text[from..].find(FENCE)? + FENCE.len();
        // The word after the fence names a language. The document may also start immediately.
        let word =
            text[open..].find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(text.len() - open);
        let start = open + word;
        let end = text[start..].find(FENCE).map_or(text.len(), |length| start + length);
        let inner = &text[start..end];
        if let Some(value) = parsed(inner.trim()).filter(is_container) {
            let offset = start + inner.len() - inner.trim_start().len();
            return Some(RecoveredDocument { value, path: RecoveryPath::MarkdownFence, offset });
        }
        from = text.len().min(end + FENCE.len());
    }
    None
}

/// The last document in top-level brackets.
fn walked(text: &str) -> Option<RecoveredDocument> {
    let spans = spans(text);
    spans.into_iter().rev().take(MAX_CANDIDATES).find_map(|(start, end)| {
        let value = parsed(&text[start..end]).filter(is_container)?;
        Some(RecoveredDocument { value, path: RecoveryPath::BraceWalker, offset: start })
    })
}

fn is_container(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// The outermost pairs of brackets, from left to right. Unclosed brackets are ignored.
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
            // Quotes in prose do not start a JSON string.
            b'"' => in_text = !open.is_empty(),
            b'{' | b'[' => open.push((place, byte)),
            b'}' | b']' => {
                let wanted = if byte == b'}' { b'{' } else { b'[' };
                match open.pop() {
                    Some((start, bracket)) if bracket == wanted => {
                        // Inner spans are part of this one.
                        while spans.last().is_some_and(|(inner, _)| *inner > start) {
                            spans.pop();
                        }
                        spans.push((start, place + 1));
                    }
                    // The brackets do not match, so no open span can be a document.
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
    fn recovers_documents() {
        let ok = json!({"result": "ok"});
        let cases = [
            ("{\"result\":\"ok\"}", Some((ok.clone(), RecoveryPath::Direct, 0))),
            (" \n{\"result\":\"ok\"}\n", Some((ok.clone(), RecoveryPath::Direct, 2))),
            ("7", Some((json!(7), RecoveryPath::Direct, 0))),
            ("```json\n{\"result\":\"ok\"}\n```", Some((ok.clone(), RecoveryPath::MarkdownFence, 8))),
            (
                "Here:\n```\n{\"result\":\"ok\"}\n```\nBye.",
                Some((ok.clone(), RecoveryPath::MarkdownFence, 10)),
            ),
            ("```{\"result\":\"ok\"}", Some((ok.clone(), RecoveryPath::MarkdownFence, 3))),
            (
                "```py\nx\n```\n```json\n{\"result\":\"ok\"}```",
                Some((ok.clone(), RecoveryPath::MarkdownFence, 20)),
            ),
            ("Sure! {\"result\":\"ok\"} Bye.", Some((ok.clone(), RecoveryPath::BraceWalker, 6))),
            ("a } { b {\"result\":\"ok\"}", Some((ok.clone(), RecoveryPath::BraceWalker, 8))),
            ("{\"a\":1} then {\"result\":\"ok\"}", Some((ok.clone(), RecoveryPath::BraceWalker, 13))),
            ("say \"{\" and {\"result\":\"ok\"}", None),
            ("{\"result\":\"}{\"} x", Some((json!({"result": "}{"}), RecoveryPath::BraceWalker, 0))),
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
    fn hostile_replies_take_linear_time() {
        for unit in ["{", "[{", "}", "```", "```{", "{\"", "{}", "[1,", "\\\"", "{\"a\":"] {
            let text = unit.repeat(MAX_REPLY_BYTES / unit.len());
            let _ = read(&text);
        }
        assert_eq!(read(&" ".repeat(MAX_REPLY_BYTES + 1)), None);
    }

    #[test]
    fn distinguishes_prose_from_broken_documents() {
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
