//! The templates that conformance suites refer to by name. Only a host in test mode has them.
//!
//! The suites depend on the names, kinds and variables, not on the texts.

use serde_json::{Value, json};

use super::template::Template;

/// The version of all templates.
const VERSION: &str = "1.0.0";

/// A name after `conformance.prompt.`, the kind, the text, and the variable with the source of its value.
type Entry = (&'static str, &'static str, &'static str, Option<(&'static str, &'static str)>);

const ALL: [Entry; 7] = [
    ("writer-system", "system", "You write short reports. State what is known and nothing else.", None),
    ("writer-user", "user", "Write one paragraph about the topic, in plain words.", None),
    ("schema-hint", "schema-hint", "Reply with one JSON object: a `title` and a list of `points`.", None),
    (
        "few-shot",
        "few-shot",
        "CapabilityQuery: What is a queue?\nAnswer: A line in which the first to arrive is the first to leave.",
        None,
    ),
    (
        "few-shot-2",
        "few-shot",
        "CapabilityQuery: What is a stack?\nAnswer: A pile in which the last to arrive is the first to leave.",
        None,
    ),
    (
        "secret-redaction",
        "user",
        "The API key of the service is {{apiKey}}. Say whether its length is plausible.",
        Some(("apiKey", "secret")),
    ),
    (
        "trust-marker",
        "user",
        "A user sent this: {{userPayload}}\nSummarize it in one sentence.",
        Some(("userPayload", "input")),
    ),
];

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
        Template::read(&document).expect("the templates above are valid")
    })
}
