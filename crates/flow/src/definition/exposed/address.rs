//! Addresses of resources, and templates of them.

/// The longest address, in bytes.
pub const MAX_BYTES: usize = 2048;
/// What an address may begin with. Nothing else is a resource of a workflow.
pub const SCHEMES: [&str; 3] = ["mcp", "openwop-resource", "https"];
/// How often something may have been escaped.
const MAX_ESCAPES: usize = 4;

/// Checks an address: its scheme is one of [`SCHEMES`], and no segment leads up, however often it was escaped.
///
/// # Errors
/// What is wrong with it.
pub fn check(uri: &str) -> Result<(), &'static str> {
    if uri.len() > MAX_BYTES {
        return Err("an address has at most 2048 bytes");
    }
    if uri.chars().any(|character| character.is_control() || character.is_whitespace()) {
        return Err("an address has no spaces and no control characters");
    }
    let (scheme, rest) = uri.split_once(':').ok_or("an address begins with its scheme, such as `mcp:`")?;
    if !SCHEMES.contains(&scheme) || rest.is_empty() {
        return Err("an address begins with `mcp:`, `openwop-resource:` or `https:`");
    }
    let mut path = rest.split(['?', '#']).next().unwrap_or_default().to_owned();
    for _ in 0..=MAX_ESCAPES {
        if path.split(['/', '\\']).any(|segment| matches!(segment, "." | "..")) {
            return Err("an address has no segment `.` or `..`");
        }
        let decoded = decode(&path).ok_or("an address is escaped as UTF-8 with `%` and two digits")?;
        if decoded == path {
            return Ok(());
        }
        path = decoded;
    }
    Err("an address is escaped once")
}

/// A text without its escapes. Nothing where one of them is none.
pub fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digit = |place: usize| char::from(*after.get(place)?).to_digit(16);
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

/// A template of addresses: texts, with `{name}` where something varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// What stands before the first name.
    head: String,
    /// Each name, and what stands after it.
    parts: Vec<(String, String)>,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const WRONG: &str =
            "a template has names of letters, digits and `_` in braces, with a text between two of them";
        let (head, mut rest) = text.split_once('{').ok_or("a template has at least one `{name}`")?;
        let mut parts: Vec<(String, String)> = Vec::new();
        loop {
            let (name, after) = rest.split_once('}').ok_or(WRONG)?;
            let is_name = (1..=64).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name || parts.iter().any(|(known, _)| known == name) {
                return Err(WRONG);
            }
            let (literal, more) =
                after.split_once('{').map_or((after, None), |(text, more)| (text, Some(more)));
            if literal.contains('}') || (literal.is_empty() && more.is_some()) {
                return Err(WRONG);
            }
            parts.push((name.to_owned(), literal.to_owned()));
            let Some(more) = more else { break };
            rest = more;
        }
        if head.contains('}') {
            return Err(WRONG);
        }
        let example = parts.iter().fold(head.to_owned(), |text, (_, literal)| text + "x" + literal);
        check(&example)?;
        Ok(Self { head: head.to_owned(), parts })
    }

    /// What stands for the names in an address, unescaped. Nothing where the address is no example of the template.
    pub fn matches(&self, uri: &str) -> Option<Vec<(&str, String)>> {
        let mut rest = uri.strip_prefix(self.head.as_str())?;
        let mut found = Vec::with_capacity(self.parts.len());
        for (place, (name, literal)) in self.parts.iter().enumerate() {
            let is_last = place + 1 == self.parts.len();
            let end = if is_last {
                rest.strip_suffix(literal.as_str())?.len()
            } else {
                rest.find(literal.as_str())?
            };
            let value = decode(&rest[..end])?;
            // One name is one segment: what it stands for leads nowhere else.
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
    fn an_address_that_leads_up_or_elsewhere_is_refused() {
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
    fn a_template_stands_for_addresses_with_one_segment_for_each_name() {
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
        fn no_text_is_too_much(template in ".{0,60}", uri in ".{0,60}") {
            let _ = check(&uri);
            if let Ok(template) = Template::parse(&template) {
                let _ = template.matches(&uri);
            }
        }

        #[test]
        fn what_a_template_is_filled_with_is_what_it_finds(a in "[a-z0-9 ü]{1,9}", b in "[a-z0-9]{1,9}") {
            let escaped = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
            let template = Template::parse("mcp://n/{a}/{b}.txt").unwrap();
            let uri = format!("mcp://n/{}/{}.txt", escaped(&a), escaped(&b));
            prop_assert_eq!(template.matches(&uri), Some(vec![("a", a), ("b", b)]));
        }
    }
}
