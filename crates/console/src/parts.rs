//! Building blocks of pages.

pub(crate) mod forms;
mod json;
mod markdown;
mod status;
mod time;

pub(crate) use self::json::{excerpt, json, json_beside, json_line, json_whole};
pub(crate) use self::markdown::markdown;
pub(crate) use self::status::{status, status_word, tone};
pub(crate) use self::time::{duration, time};

use std::fmt::Write as _;

use maud::{Markup, html};

/// The name of the CSRF field.
pub(crate) const CSRF_FIELD: &str = "csrf";

/// An empty state: a sentence, and what to do.
pub(crate) fn empty(what: &str, then: &Markup) -> Markup {
    html! { div.empty { p { strong { (what) } } (then) } }
}

/// A link to the next page of a list.
pub(crate) fn more(href: Option<&str>, label: &str) -> Markup {
    html! { @if let Some(href) = href { p.more { a.button href=(href) rel="next" { (label) } } } }
}

/// Percent-encodes a path segment.
pub(crate) fn segment(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~' | b'.') {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Decodes a path segment; `None` if it is not valid UTF-8 or has a broken escape.
pub(crate) fn unescaped(segment: &str) -> Option<String> {
    let mut rest = segment.bytes();
    let mut bytes = Vec::with_capacity(segment.len());
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(if byte == b'%' { u8::try_from(digit()? * 16 + digit()?).ok()? } else { byte });
    }
    String::from_utf8(bytes).ok()
}

/// Percent-encodes a query value.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(pairs);
    format!("?{}", text.finish())
}

/// The text truncated to a number of characters.
pub(crate) fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_times_and_values_render() {
        let moment = canon::time::Timestamp(1_700_000_000_000);
        let cases = [
            (status("waiting-input"), r#"<span class="status wait">waiting input</span>"#),
            (status("\"><b>"), r#"<span class="status calm">&quot;&gt;&lt;b&gt;</span>"#),
            (
                time(moment, moment.plus(61_000)),
                r#"<time datetime="2023-11-14T22:13:20.000Z" title="2023-11-14T22:13:20.000Z">1 min ago</time>"#,
            ),
            (
                json(&serde_json::json!(["<b>"])),
                "<pre class=\"json\" tabindex=\"0\">[\n  &quot;&lt;b&gt;&quot;\n]</pre>",
            ),
            (
                more(Some("?before=7"), "Older"),
                r#"<p class="more"><a class="button" href="?before=7" rel="next">Older</a></p>"#,
            ),
        ];
        for (markup, expected) in cases {
            assert_eq!(markup.0, expected);
        }
    }

    #[test]
    fn path_segments_round_trip() {
        for name in ["run_1", "a b", "ü/..%", "a:pause", "<script>"] {
            assert_eq!(unescaped(&segment(name)).as_deref(), Some(name));
        }
        for bad in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(unescaped(bad), None);
        }
    }
}
