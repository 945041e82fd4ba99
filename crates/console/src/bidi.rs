//! Makes bidirectional controls visible.
//!
//! A character such as U+202E reverses the text after it. An author or an agent could make an approver read something else than what is
//! stored. Pages therefore show the code of the character in its place.

use std::fmt::Write as _;

/// Replaces bidirectional controls in the text of a page by their code. Attributes and text areas stay as they are, because forms
/// send their values back.
pub(crate) fn show_controls(html: String) -> String {
    if !html.contains(is_control) {
        return html;
    }
    let mut shown = String::with_capacity(html.len() + 64);
    for (number, piece) in html.split('<').enumerate() {
        // Text is escaped, so every `<` starts a tag and the next `>` ends it.
        let (tag, text) =
            if number == 0 { ("", piece) } else { piece.split_once('>').unwrap_or((piece, "")) };
        if number > 0 {
            shown.push('<');
            shown.push_str(tag);
            shown.extend(piece.contains('>').then_some('>'));
        }
        if tag.starts_with("textarea") {
            shown.push_str(text);
            continue;
        }
        for character in text.chars() {
            if is_control(character) {
                let _ = write!(shown, "[U+{:04X}]", u32::from(character));
            } else {
                shown.push(character);
            }
        }
    }
    shown
}

fn is_control(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_shown_in_text_and_kept_in_values() {
        let cases = [
            ("<p>plain · text…</p>", "<p>plain · text…</p>"),
            ("<p>pay \u{202e}001</p>", "<p>pay [U+202E]001</p>"),
            ("\u{2066}a<br>b\u{2069}", "[U+2066]a<br>b[U+2069]"),
            ("<input value=\"a\u{202e}b\">a\u{61c}b", "<input value=\"a\u{202e}b\">a[U+061C]b"),
            (
                "<textarea name=\"x\">a\u{202e}b</textarea>c\u{200f}d",
                "<textarea name=\"x\">a\u{202e}b</textarea>c[U+200F]d",
            ),
            ("a\u{202e}<unfinished", "a[U+202E]<unfinished"),
        ];
        for (html, expected) in cases {
            assert_eq!(show_controls(html.to_owned()), expected);
        }
    }
}
