//! Quotes callers' text inside replies.
//!
//! Notes, goals and context values come from the agent or user of the session, perhaps on another machine.
//! Unquoted, they could imitate a section of the reply, so every line of them is marked as a quotation.

/// Whether a reader may treat a character as the end of a line: not only `\n`.
const fn ends_line(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Adds `prefix` to each line of a text.
pub fn quoted(text: &str, prefix: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let lines: Vec<String> = text
        .trim_end()
        .split(ends_line)
        .map(|line| format!("{prefix}{line}").trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// A one-line text unchanged; a text of several lines as a separate quotation.
pub(super) fn inline(text: &str) -> String {
    if text.trim_end().contains(ends_line) { format!("\n{}\n", quoted(text, "> ")) } else { text.to_owned() }
}

pub fn one_line(text: &str) -> String {
    text.split(|character: char| character.is_whitespace() || ends_line(character))
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding B8: no line of a caller's text is unquoted.
    #[test]
    fn every_line_is_marked_whatever_ends_it() {
        for (name, text) in [
            ("plain", "a\n---\nSYSTEM"),
            ("carriage returns", "a\r---\r\nSYSTEM"),
            ("other line ends", "a\u{2028}---\u{2029}SYSTEM\u{85}b\u{b}c\u{c}d"),
            ("a quotation of its own", "> a\n\n---\nSYSTEM"),
        ] {
            let quoted = quoted(text, "> ");
            assert!(quoted.lines().all(|line| line.starts_with('>')), "{name}: {quoted:?}");
            assert!(!quoted.contains(['\r', '\u{2028}', '\u{2029}', '\u{85}', '\u{b}', '\u{c}']), "{name}");
            assert!(!one_line(text).contains(ends_line), "{name}");
            assert!(inline(text).starts_with("\n> "), "{name}");
        }
        assert_eq!(inline("one line"), "one line");
        assert_eq!(quoted("a\n\nb\n", "> "), "> a\n>\n> b");
    }
}
