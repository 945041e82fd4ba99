//! URLs with placeholders.

use serde_json::Value;

/// A URL whose path and query may have placeholders: `https://api.example/users/{{id}}`.
///
/// The scheme and the host are fixed, so that the data of a run cannot choose where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlTemplate<'u> {
    origin: &'u str,
    parts: Vec<Part<'u>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part<'u> {
    Text(&'u str),
    Placeholder(&'u str),
}

/// Why a URL is not a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlTemplateError {
    #[error("the URL must start with `https://` or `http://` and have a host")]
    NotHttp,
    #[error("placeholders are only allowed in the path or query, so that data cannot choose the host")]
    PlaceholderInHost,
    #[error("a placeholder must end with `}}}}`")]
    Unclosed,
    #[error("the name in a placeholder must have 1 to 128 letters, digits, `_` or `-`")]
    Name,
}

/// A URL, or the first placeholder without a value.
pub type Filled<'u> = Result<String, &'u str>;

impl<'u> UrlTemplate<'u> {
    /// Parses a template.
    ///
    /// # Errors
    /// The URL is not absolute, or a placeholder is malformed or in the host.
    pub fn parse(url: &'u str) -> Result<Self, UrlTemplateError> {
        let scheme = ["https://", "http://"].into_iter().find(|scheme| url.starts_with(scheme));
        let scheme = scheme.ok_or(UrlTemplateError::NotHttp)?.len();
        let end = url[scheme..].find(['/', '?', '#']).map_or(url.len(), |length| scheme + length);
        let host = &url[scheme..end];
        if host.contains("{{") {
            return Err(UrlTemplateError::PlaceholderInHost);
        }
        if host.is_empty() {
            return Err(UrlTemplateError::NotHttp);
        }
        let mut parts = Vec::new();
        let mut rest = url;
        while let Some((text, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}").ok_or(UrlTemplateError::Unclosed)?;
            let name = name.trim();
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            if name.is_empty() || name.len() > 128 || !name.bytes().all(is_part) {
                return Err(UrlTemplateError::Name);
            }
            parts.extend([Part::Text(text), Part::Placeholder(name)]);
            rest = after;
        }
        parts.push(Part::Text(rest));
        Ok(Self { origin: &url[..end], parts })
    }

    /// The scheme and the host, which are the same for all values.
    pub const fn origin(&self) -> &'u str {
        self.origin
    }

    /// The URL with the values of its placeholders. Strings, numbers and booleans can be values; each is percent-encoded, so that
    /// it stays within its segment or parameter.
    ///
    /// # Errors
    /// The name of a placeholder without a value.
    pub fn fill<'v>(&self, mut value: impl FnMut(&str) -> Option<&'v Value>) -> Filled<'u> {
        let mut url = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => url.push_str(text),
                Part::Placeholder(name) => match value(name) {
                    Some(Value::String(text)) => encode(text, &mut url),
                    Some(number @ (Value::Number(_) | Value::Bool(_))) => {
                        encode(&number.to_string(), &mut url);
                    }
                    Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => return Err(name),
                },
            }
        }
        Ok(url)
    }
}

/// Appends a text in which everything but unreserved characters (RFC 3986) is percent-encoded. A segment of only dots is encoded
/// too, because servers resolve `..`.
fn encode(text: &str, url: &mut String) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let is_dots = text.bytes().all(|byte| byte == b'.');
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) || (byte == b'.' && !is_dots) {
            url.push(char::from(byte));
        } else {
            url.extend(['%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn placeholders_are_filled_and_encoded() {
        let values = json!({"a": "x/../y?z=1#f", "n": 5, "dots": "..", "list": []});
        let fill = |url: &'static str| UrlTemplate::parse(url).unwrap().fill(|name| values.get(name));
        assert_eq!(
            fill("https://h.example/{{a}}").as_deref(),
            Ok("https://h.example/x%2F..%2Fy%3Fz%3D1%23f")
        );
        assert_eq!(
            fill("https://h.example/{{ n }}?q={{a}}").as_deref(),
            Ok("https://h.example/5?q=x%2F..%2Fy%3Fz%3D1%23f")
        );
        assert_eq!(fill("https://h.example/{{dots}}").as_deref(), Ok("https://h.example/%2E%2E"));
        assert_eq!(fill("https://h.example/{{missing}}"), Err("missing"));
        assert_eq!(fill("https://h.example/{{list}}"), Err("list"));
    }

    #[test]
    fn malformed_templates_are_refused() {
        let cases = [
            ("h.example/x", UrlTemplateError::NotHttp),
            ("https:///x", UrlTemplateError::NotHttp),
            ("https://{{h}}.example/", UrlTemplateError::PlaceholderInHost),
            ("https://h.example{{x}}", UrlTemplateError::PlaceholderInHost),
            ("https://h.example/{{x", UrlTemplateError::Unclosed),
            ("https://h.example/{{}}", UrlTemplateError::Name),
            ("https://h.example/{{a.b}}", UrlTemplateError::Name),
        ];
        for (url, expected) in cases {
            assert_eq!(UrlTemplate::parse(url), Err(expected), "{url}");
        }
    }

    proptest! {
        /// Whatever a value contains, it stays in its place of the URL.
        #[test]
        fn a_value_cannot_leave_its_segment(text in any::<String>()) {
            let value = json!(text);
            let url = UrlTemplate::parse("https://h.example/a/{{x}}/b").unwrap().fill(|_| Some(&value)).unwrap();
            let segment = url.strip_prefix("https://h.example/a/").and_then(|rest| rest.strip_suffix("/b")).unwrap();
            prop_assert!(segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_~.%".contains(&byte)));
            prop_assert!(segment != "." && segment != "..");
        }
    }
}
