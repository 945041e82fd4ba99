//! URIs of resources, and URI templates.

/// The maximum length of a URI, in bytes.
pub const MAX_BYTES: usize = 2048;
/// The allowed schemes.
pub const SCHEMES: [&str; 3] = ["mcp", "openwop-resource", "https"];
/// The maximum number of nested percent-encodings.
const MAX_ESCAPES: usize = 4;

/// Checks a URI: its scheme is one of [`SCHEMES`], and it has no `.` or `..` segment, even after repeated percent-decoding.
///
/// # Errors
/// The problem.
pub fn check(uri: &str) -> Result<(), &'static str> {
    if uri.len() > MAX_BYTES {
        return Err("a URI is limited to 2048 bytes");
    }
    if uri.chars().any(|character| character.is_control() || character.is_whitespace()) {
        return Err("a URI must not contain spaces or control characters");
    }
    let (scheme, rest) = uri.split_once(':').ok_or("a URI must start with its scheme, for example `mcp:`")?;
    if !SCHEMES.contains(&scheme) || rest.is_empty() {
        return Err("a URI must start with `mcp:`, `openwop-resource:` or `https:`");
    }
    let mut path = rest.split(['?', '#']).next().unwrap_or_default().to_owned();
    for _ in 0..=MAX_ESCAPES {
        if path.split(['/', '\\']).any(|segment| matches!(segment, "." | "..")) {
            return Err("a URI must not contain the segments `.` and `..`");
        }
        let decoded = decode(&path).ok_or("a URI contains an invalid percent-encoding")?;
        if decoded == path {
            return Ok(());
        }
        path = decoded;
    }
    Err("a URI must be percent-encoded only once")
}

/// Decodes percent-encoding. Returns `None` if it is invalid.
pub fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digit = |index: usize| char::from(*after.get(index)?).to_digit(16);
            let byte = digit(0)? * 16 + digit(1)?;
            bytes.push(u8::try_from(byte).ok()?);
            rest = after.get(2..)?;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// A URI template: literals, and `{name}` for variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The literal before the first variable.
    head: String,
    /// Each variable, and the literal after it.
    parts: Vec<(String, String)>,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// The problem.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const INVALID: &str = "a URI template must have unique `{name}` variables of letters, digits and `_`, with a literal between two of them";
        let (head, mut rest) =
            text.split_once('{').ok_or("a URI template must contain a `{name}` variable")?;
        let mut parts: Vec<(String, String)> = Vec::new();
        loop {
            let (name, after) = rest.split_once('}').ok_or(INVALID)?;
            let is_name = (1..=64).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name || parts.iter().any(|(known, _)| known == name) {
                return Err(INVALID);
            }
            let (literal, more) =
                after.split_once('{').map_or((after, None), |(text, more)| (text, Some(more)));
            if literal.contains('}') || (literal.is_empty() && more.is_some()) {
                return Err(INVALID);
            }
            parts.push((name.to_owned(), literal.to_owned()));
            let Some(more) = more else { break };
            rest = more;
        }
        if head.contains('}') {
            return Err(INVALID);
        }
        let example = parts.iter().fold(head.to_owned(), |text, (_, literal)| text + "x" + literal);
        check(&example)?;
        Ok(Self { head: head.to_owned(), parts })
    }

    /// The decoded values of the variables in a URI. Returns `None` if the URI does not match the template.
    pub fn matches(&self, uri: &str) -> Option<Vec<(&str, String)>> {
        let mut rest = uri.strip_prefix(self.head.as_str())?;
        let mut found = Vec::with_capacity(self.parts.len());
        for (index, (name, literal)) in self.parts.iter().enumerate() {
            let is_last = index + 1 == self.parts.len();
            let end = if is_last {
                rest.strip_suffix(literal.as_str())?.len()
            } else {
                rest.find(literal.as_str())?
            };
            let value = decode(&rest[..end])?;
            // A variable matches exactly one segment, so that it cannot change the rest of the URI.
            if value.is_empty()
                || value.contains(['/', '\\', '?', '#'])
                || value.chars().any(char::is_control)
            {
                return None;
            }
            rest = &rest[end + literal.len()..];
            found.push((name.as_str(), value));
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn uris_with_another_scheme_or_dot_segments_are_refused() {
        for good in
            ["mcp://notes/today", "openwop-resource:a", "https://a.test/b?c=..#d", "mcp:a%20b", "mcp:..."]
        {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let long = format!("mcp:{}", "a".repeat(MAX_BYTES));
        for bad in [
            "",
            "notes",
            "file:///etc/passwd",
            "http://a.test/",
            "MCP:a",
            "mcp:",
            "mcp:a b",
            "mcp:a\n",
            "mcp://a/../b",
            "mcp://a/./b",
            "mcp://a/%2e%2e/b",
            "mcp://a/%2E./b",
            "mcp:a%2f..%2fb",
            "mcp:a\\..\\b",
            "mcp://a/%252e%252e/b",
            "mcp:%",
            "mcp:%zz",
            "mcp:%ff",
            "mcp:%252525252561",
            long.as_str(),
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_variable_of_a_template_matches_one_segment() {
        type Names = &'static [(&'static str, &'static str)];
        let cases: [(&str, &str, Option<Names>); 9] = [
            ("mcp://n/{id}", "mcp://n/1", Some(&[("id", "1")])),
            ("mcp://n/{id}", "mcp://n/a%20b", Some(&[("id", "a b")])),
            ("mcp://n/{id}", "mcp://n/", None),
            ("mcp://n/{id}", "mcp://n/a/b", None),
            ("mcp://n/{id}", "mcp://n/a%2fb", None),
            ("mcp://n/{id}.json", "mcp://n/a.json.json", Some(&[("id", "a.json")])),
            ("mcp://n/{a}/{b}", "mcp://n/1/2", Some(&[("a", "1"), ("b", "2")])),
            ("mcp://n/{a}-{b}/x", "mcp://n/1-2-3/x", Some(&[("a", "1"), ("b", "2-3")])),
            ("mcp://n/{a}", "https://n/a", None),
        ];
        for (template, uri, found) in cases {
            let matched = Template::parse(template).unwrap().matches(uri).map(|found| {
                found.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Vec<_>>()
            });
            let expected = found.map(|found| {
                found.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
            });
            assert_eq!(matched, expected, "{template} {uri}");
        }
        for bad in [
            "mcp://n",
            "mcp://{",
            "mcp://{}",
            "mcp://{a",
            "mcp://{a}{b}",
            "mcp://{a}/{a}",
            "mcp://}{a}",
            "file:{a}",
            "mcp://{a-b}",
        ] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(template in ".{0,60}", uri in ".{0,60}") {
            let _ = check(&uri);
            if let Ok(template) = Template::parse(&template) {
                let _ = template.matches(&uri);
            }
        }

        #[test]
        fn matching_returns_the_encoded_values(a in "[a-z0-9 ü]{1,9}", b in "[a-z0-9]{1,9}") {
            let escaped = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
            let template = Template::parse("mcp://n/{a}/{b}.txt").unwrap();
            let uri = format!("mcp://n/{}/{}.txt", escaped(&a), escaped(&b));
            prop_assert_eq!(template.matches(&uri), Some(vec![("a", a), ("b", b)]));
        }
    }
}
