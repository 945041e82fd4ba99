//! `{{token}}` and `{argument}` in texts.

use std::ops::Range;

/// The trimmed content of each `{{…}}`, with the range of the whole token.
pub(super) fn tokens(text: &str) -> Vec<(Range<usize>, &str)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find("{{").map(|at| from + at) {
        let inside = start + 2;
        // The length of a token is limited, so that unclosed tokens do not make the search quadratic.
        let window = &text[inside..text.floor_char_boundary(inside + MAX_TOKEN_BYTES)];
        match window.find(['{', '}', '\n']) {
            Some(length) if window[length..].starts_with("}}") => {
                let end = inside + length + 2;
                found.push((start..end, window[..length].trim()));
                from = end;
            }
            // In `{{{a}}}` the token starts one brace later.
            _ => from = start + 1,
        }
    }
    found
}

const MAX_TOKEN_BYTES: usize = 256;

/// Whether a token is reserved for the program.
pub(super) fn is_reserved(token: &str) -> bool {
    token == "wr" || token.starts_with("wr.")
}

/// Replaces every token for which `replacement` returns a value.
pub(super) fn replace_tokens(
    text: &str,
    mut replacement: impl FnMut(&str) -> Option<String>,
) -> Option<String> {
    let mut result: Option<String> = None;
    let mut copied = 0;
    for (range, token) in tokens(text) {
        if let Some(other) = replacement(token) {
            let result = result.get_or_insert_default();
            result.push_str(&text[copied..range.start]);
            result.push_str(&other);
            copied = range.end;
        }
    }
    result.map(|mut result| {
        result.push_str(&text[copied..]);
        result
    })
}

/// Replaces every `{name}` that is not part of `{{name}}`. Replacements are not searched again.
pub(super) fn replace_arguments(
    text: &str,
    mut replacement: impl FnMut(&str) -> Option<String>,
) -> Option<String> {
    let bytes = text.as_bytes();
    let mut result: Option<String> = None;
    let (mut copied, mut at) = (0, 0);
    while let Some(start) = text[at..].find('{').map(|found| at + found) {
        let name = &bytes[start + 1..];
        let length = name.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        let end = start + 1 + length;
        let closed = length > 0 && bytes.get(end) == Some(&b'}');
        let doubled = start > 0 && bytes[start - 1] == b'{' || bytes.get(end + 1) == Some(&b'}');
        if closed
            && !doubled
            && !name[0].is_ascii_digit()
            && let Some(other) = replacement(&text[start + 1..end])
        {
            let result = result.get_or_insert_default();
            result.push_str(&text[copied..start]);
            result.push_str(&other);
            copied = end + 1;
        }
        at = start + 1 + length;
    }
    result.map(|mut result| {
        result.push_str(&text[copied..]);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found() {
        let cases: [(&str, &[&str]); 9] = [
            ("", &[]),
            ("{{a}}", &["a"]),
            ("x {{ a.b }} y {{c}}", &["a.b", "c"]),
            ("{{{a}}}", &["a"]),
            ("{{a", &[]),
            ("{{a\n}}", &[]),
            ("{{ {{a}} }}", &["a"]),
            ("{a} é{{é}}", &["é"]),
            ("{{}}", &[""]),
        ];
        for (text, expected) in cases {
            let found: Vec<&str> = tokens(text).into_iter().map(|(_, token)| token).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn arguments_have_single_braces() {
        let replace = |text: &str| replace_arguments(text, |name| Some(format!("<{name}>")));
        for (text, expected) in [
            ("{a} and {b_1}", Some("<a> and <b_1>")),
            ("{{a}}", None),
            ("{\"kind\": 1}", None),
            ("{1}", None),
            ("{a", None),
            ("{}", None),
            ("é{a}é", Some("é<a>é")),
        ] {
            assert_eq!(replace(text).as_deref(), expected, "{text}");
        }
    }
}
