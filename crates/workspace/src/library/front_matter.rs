//! YAML front matter of Markdown files, between two lines of `---`.

use canon::yaml::{Booleans, Limits, Tags};
use serde_json::{Map, Value};

use super::limits::FRONT_MATTER;

/// Front matter is mostly flat, with an occasional list or table.
const LIMITS: Limits = Limits {
    // `FRONT_MATTER` is the limit.
    max_bytes: usize::MAX,
    max_depth: 16,
    max_nodes: 2_000,
    max_aliases: 100,
    // Other tools write it too.
    tags: Tags::Ignored,
    booleans: Booleans::TrueFalse,
};

/// A Markdown file in two parts.
#[derive(Debug, PartialEq)]
pub(super) struct Document<'a> {
    /// The front matter; `None` if there is none.
    pub(super) matter: Option<Map<String, Value>>,
    /// The rest of the file.
    pub(super) body: &'a str,
}

pub(super) fn split(text: &str) -> Result<Document<'_>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(inside) = text.strip_prefix("---").and_then(|rest| {
        let rest = rest.trim_start_matches([' ', '\t']);
        rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))
    }) else {
        return Ok(Document { matter: None, body: text });
    };
    let mut length = 0;
    for line in inside.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let (yaml, rest) = inside.split_at(length);
            return Ok(Document {
                matter: Some(members(yaml)?),
                body: rest.get(line.len()..).unwrap_or_default(),
            });
        }
        length += line.len();
    }
    Err("starts with `---`, but a second `---` line is missing".to_owned())
}

fn members(yaml: &str) -> Result<Map<String, Value>, String> {
    if yaml.len() as u64 > FRONT_MATTER.max() {
        return Err(format!("has more than {} bytes of front matter", FRONT_MATTER.max()));
    }
    let value: Value = canon::yaml::read(yaml, &LIMITS)
        .map_err(|error| format!("has front matter that is not valid YAML: {error}"))?;
    match value {
        Value::Object(members) => Ok(members),
        Value::Null => Ok(Map::new()),
        _ => Err("has front matter that is not a mapping of `name: value`".to_owned()),
    }
}

/// A member that is a non-blank string.
pub(super) fn text_of<'a>(matter: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    matter.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_ends_at_the_second_marker() {
        for text in [
            "---\nname: a\n---\nbody\n",
            "\u{feff}---\r\nname: a\r\n---\r\nbody\n",
            "--- \nname: a\n--- \nbody\n",
        ] {
            let document = split(text).unwrap();
            assert_eq!(text_of(&document.matter.unwrap(), "name"), Some("a"), "{text:?}");
            assert_eq!(document.body, "body\n", "{text:?}");
        }
        assert_eq!(split("# Title\n---\n").unwrap().matter, None);
        assert_eq!(split("----\n").unwrap().matter, None);
        assert_eq!(split("---\n---").unwrap(), Document { matter: Some(Map::new()), body: "" });
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_split_or_rejected(text in "(---)?[\\n\\r\\u{feff}:a&*\\[{ \\-]{0,60}") {
            if let Ok(document) = split(&text) {
                proptest::prop_assert!(text.ends_with(document.body), "the body is complete");
            }
        }
    }

    #[test]
    fn invalid_front_matter_is_rejected() {
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n";
        let deep = format!("a: {}{}\n", "[".repeat(5_000), "]".repeat(5_000));
        let long = format!("a: {}\n", "x".repeat(70_000));
        for yaml in ["- a\n", "a: 1\na: 2\n", "a: [\n", "just text\n", bomb, &deep, &long] {
            let refused = split(&format!("---\n{yaml}---\nbody")).unwrap_err();
            assert!(refused.contains("front matter"), "{refused}");
        }
        assert!(split("---\nname: a\n").unwrap_err().contains("second `---` line is missing"));
    }
}
