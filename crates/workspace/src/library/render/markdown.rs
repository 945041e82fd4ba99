//! Escapes untrusted text in Markdown.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The shown bytes of one input. The rest is in `context.json`.
pub(super) const MAX_SHOWN_BYTES: usize = 16 << 10;

/// A short text as a code span on one line.
pub(super) fn code(text: &str) -> String {
    span(&one_line(text))
}

/// A short text as a code span in a table, where `|` would start the next cell.
pub(super) fn cell(text: &str) -> String {
    let mut line = String::new();
    for character in one_line(text).chars() {
        if character == '|' {
            // An even number of backslashes escape each other and leave the `|` unescaped.
            let backslashes = line.len() - line.trim_end_matches('\\').len();
            line.push_str(if backslashes.is_multiple_of(2) { "\\" } else { "\\\\" });
        }
        line.push(character);
    }
    span(&line)
}

fn span(line: &str) -> String {
    let fence = "`".repeat(longest_run(line, '`') + 1);
    // Without the spaces, a text that starts or ends with a backtick would lengthen the fence.
    let padding =
        if line.starts_with('`') || line.ends_with('`') || line.trim().is_empty() { " " } else { "" };
    format!("{fence}{padding}{line}{padding}{fence}")
}

/// A text as a paragraph of one line, without markup.
pub(super) fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in one_line(text).chars() {
        // The characters with a meaning within a line. Line breaks would have one too, but there
        // are none.
        if matches!(character, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '|' | '~' | '#' | '!') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    // List and rule markers matter only at the start.
    let digits = escaped.bytes().take_while(u8::is_ascii_digit).count();
    let begins_list = digits > 0 && escaped[digits..].starts_with(['.', ')']);
    if begins_list {
        escaped.insert(digits, '\\');
    } else if escaped.starts_with(['-', '+', '=', ':']) {
        escaped.insert(0, '\\');
    }
    escaped
}

/// A long text in a fence that it cannot close.
pub(super) fn fenced(out: &mut String, language: &str, text: &str) {
    let shown = visible(text);
    let shown = canon::budget::truncate(&shown, MAX_SHOWN_BYTES);
    let fence = "`".repeat(longest_run(&shown, '`').max(2) + 1);
    let end = if shown.ends_with('\n') { "" } else { "\n" };
    let _ = write!(out, "{fence}{language}\n{shown}{end}{fence}\n");
}

/// The text with invisible and direction-changing characters replaced.
fn visible(text: &str) -> Cow<'_, str> {
    let hidden = |character: char| match character {
        '\n' | '\t' => false,
        // Line and paragraph separators unknown to Markdown, and bidirectional controls.
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        // Zero-width characters and tags.
        | '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}' => true,
        other => other.is_control(),
    };
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let replaced = text.replace("\r\n", "\n");
    Cow::Owned(replaced.chars().map(|c| if hidden(c) { char::REPLACEMENT_CHARACTER } else { c }).collect())
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split(['\n', '\r', '\t', '\u{2028}', '\u{2029}']).collect();
    visible(words.join(" ").trim()).into_owned()
}

fn longest_run(text: &str, of: char) -> usize {
    text.split(|character| character != of).map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn code_spans_escape_backticks_and_line_breaks() {
        #[rustfmt::skip]
        let cases = [
            ("a",        "`a`"),
            ("a`b",      "``a`b``"),
            ("`a",       "`` `a ``"),
            ("a\n# b",   "`a # b`"),
            ("a|b",      "`a|b`"),
            ("",         "`  `"),
            ("a\u{202e}b", "`a\u{fffd}b`"),
        ];
        for (text, expected) in cases {
            assert_eq!(code(text), expected, "{text:?}");
        }
    }

    #[test]
    fn table_cells_escape_pipes() {
        assert_eq!(cell("a|b"), "`a\\|b`");
        assert_eq!(cell("a\\|b"), "`a\\\\\\|b`");
        assert_eq!(cell("a\\\\|b"), "`a\\\\\\|b`");
    }

    #[test]
    fn paragraphs_escape_markup() {
        assert_eq!(plain("# a\n## b <b> [x](y)"), "\\# a \\#\\# b \\<b\\> \\[x\\](y)");
        assert_eq!(plain("- a"), "\\- a");
        assert_eq!(plain("1. a"), "1\\. a");
        assert_eq!(plain("Plain, as it is (mostly)."), "Plain, as it is (mostly).");
    }

    proptest! {
        #[test]
        fn content_cannot_close_its_fence(text in "[`~#a\\r\\n \\u{2028}-]{0,60}") {
            let mut out = String::new();
            fenced(&mut out, "text", &text);
            let lines: Vec<&str> = out.lines().collect();
            let (last, rest) = lines.split_last().unwrap();
            let closing = |line: &&&str| line.trim().starts_with(last) && line.trim().chars().all(|c| c == '`');
            prop_assert!(rest[1..].iter().find(closing).is_none(), "{}", out);
        }

        #[test]
        fn spans_and_paragraphs_stay_on_one_line(text in "\\PC{0,20}[\\r\\n\\t\\u{2028}`]{0,5}\\PC{0,20}") {
            let breaks = ['\n', '\r', '\u{2028}'];
            prop_assert!(!code(&text).contains(breaks), "{}", code(&text));
            prop_assert!(!plain(&text).contains(breaks), "{}", plain(&text));
        }
    }
}
