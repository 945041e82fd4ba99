//! Words of documents and queries.

use serde_json::{Map, Value};

/// The searchable text of a document: its values without member names.
pub(super) fn text_of(fields: &Map<String, Value>) -> String {
    let mut text = String::new();
    for value in fields.values() {
        gather(value, &mut text);
    }
    text
}

/// Recursion is bounded by the argument depth.
fn gather(value: &Value, text: &mut String) {
    match value {
        Value::Null => {}
        Value::String(part) => line(part, text),
        Value::Bool(_) | Value::Number(_) => line(&value.to_string(), text),
        Value::Array(items) => items.iter().for_each(|item| gather(item, text)),
        Value::Object(members) => members.values().for_each(|member| gather(member, text)),
    }
}

fn line(part: &str, text: &mut String) {
    text.push_str(part);
    text.push('\n');
}

/// Builds an FTS5 expression: quoted words joined by `OR`. User text is always quoted and contains no quote, so it
/// cannot have syntax. Returns `None` without words, and the word count as an error if there are more than `most`.
pub(super) fn expression(query: &str, most: usize) -> Result<Option<String>, usize> {
    let mut words: Vec<&str> =
        query.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    words.dedup();
    if words.len() > most {
        return Err(words.len());
    }
    if words.is_empty() {
        return Ok(None);
    }
    Ok(Some(words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn queries_are_quoted_words() {
        let table = [
            ("durable workflow runs", Some("\"durable\" OR \"runs\" OR \"workflow\"")),
            ("a a", Some("\"a\"")),
            (
                "body:x* AND NEAR(\"y\" z)^2",
                Some("\"2\" OR \"AND\" OR \"NEAR\" OR \"body\" OR \"x\" OR \"y\" OR \"z\""),
            ),
            ("", None),
            (" \"'*:^()-+ \0", None),
            ("Größe", Some("\"Größe\"")),
        ];
        for (query, expected) in table {
            assert_eq!(expression(query, 64).unwrap().as_deref(), expected, "{query}");
        }
        assert_eq!(expression("a b c", 2), Err(3));
    }

    #[test]
    fn text_has_all_values() {
        let fields = json!({"title": "One", "tags": ["two", {"deep": "three"}], "year": 2026, "open": true, "none": null});
        let Value::Object(fields) = fields else { unreachable!() };
        let text = text_of(&fields);
        for word in ["One", "two", "three", "2026", "true"] {
            assert!(text.lines().any(|line| line == word), "{word} in {text}");
        }
        assert!(!text.contains("title"));
    }

    proptest! {
        #[test]
        fn every_query_is_valid_fts5(query in "\\PC{0,60}") {
            let connection = rusqlite::Connection::open_in_memory().unwrap();
            connection.execute_batch("CREATE VIRTUAL TABLE texts USING fts5(body)").unwrap();
            if let Some(expression) = expression(&query, 64).unwrap() {
                let count = connection.query_row("SELECT count(*) FROM texts WHERE texts MATCH ?1", [expression], |row| row.get::<_, i64>(0));
                prop_assert_eq!(count.unwrap(), 0);
            }
        }
    }
}
