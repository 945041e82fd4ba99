//! The templates that conformance suites refer to by name. A host has them only where it was started for tests.
//!
//! Suites look at the names, the kinds and the variables; the words are ours.

use serde_json::{Value, json};

use super::template::Template;

/// The version of all of them.
const VERSION: &str = "1.0.0";

/// A name behind `conformance.prompt.`, what it is for, its text, and its variable with the source of its value.
type Entry = (&'static str, &'static str, &'static str, Option<(&'static str, &'static str)>);

/// Every template.
const ALL: [Entry; 7] = [
    ("writer-system", "system", "You write short reports. Say what is known, and nothing else.", None),
    ("writer-user", "user", "Write one paragraph about the matter at hand, in plain words.", None),
    ("schema-hint", "schema-hint", "Answer with one JSON object: a `title` and a list of `points`.", None),
    (
        "few-shot",
        "few-shot",
        "Asked: What is a queue?\nAnswered: A line in which whoever came first leaves first.",
        None,
    ),
    (
        "few-shot-2",
        "few-shot",
        "Asked: What is a stack?\nAnswered: A pile from which whoever came last leaves first.",
        None,
    ),
    (
        "secret-redaction",
        "user",
        "The key of the service is {{apiKey}}. Say whether it has a fitting length.",
        Some(("apiKey", "secret")),
    ),
    (
        "trust-marker",
        "user",
        "Somebody sent this: {{userPayload}}\nSay in one sentence what it is about.",
        Some(("userPayload", "input")),
    ),
];

/// The templates.
pub fn templates() -> impl Iterator<Item = Template> {
    ALL.into_iter().map(|(name, kind, text, variable)| {
        let variables: Vec<Value> = variable
            .map(|(name, source)| json!({"name": name, "type": "string", "required": true, "source": source}))
            .into_iter()
            .collect();
        let document = json!({
            "templateId": format!("conformance.prompt.{name}"), "version": VERSION, "kind": kind, "text": text,
            "variables": variables, "meta": {"source": "host"},
        });
        Template::read(&document).expect("the templates above are templates")
    })
}
