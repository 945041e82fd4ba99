//! Words of documents and of queries.

use serde_json::{Map, Value};

/// The text of a document: whatever is not a name or a bracket.
pub(super) fn text_of(fields: &Map<String, Value>) -> String {
    let mut text = String::new();
    for value in fields.values() {
        gather(value, &mut text);
    }
    text
}

/// Arguments are not nested deep.
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

/// The words of a query for FTS5: each in quotes, joined by `OR`. Nothing of the user's text is outside of quotes, and no quote is inside, so it
/// has no syntax. Nothing where there are no words; the count of words where there are more than `most`.
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
    fn a_query_is_words_and_nothing_else() {
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
    fn the_text_of_a_document_is_its_values() {
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
        fn no_text_is_a_fault_in_the_language_of_queries(query in "\\PC{0,60}") {
            let connection = rusqlite::Connection::open_in_memory().unwrap();
            connection.execute_batch("CREATE VIRTUAL TABLE texts USING fts5(body)").unwrap();
            if let Some(expression) = expression(&query, 64).unwrap() {
                let count = connection.query_row("SELECT count(*) FROM texts WHERE texts MATCH ?1", [expression], |row| row.get::<_, i64>(0));
                prop_assert_eq!(count.unwrap(), 0);
            }
        }
    }
}
