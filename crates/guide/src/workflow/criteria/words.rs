//! Describes criteria for the prompt of a step.

use serde_json::{Map, Value};

use super::{MAX_DEPTH, evaluate::applies};
use crate::workflow::{compiled::Criteria, problem::quoted};

/// One requirement of the notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The description, as a line.
    pub text: String,
    /// The author's messages of the rules behind it.
    pub messages: Vec<String>,
}

/// The requirements of the notes, one entry each.
///
/// Rules whose condition does not hold in this context are omitted.
pub fn requirements(criteria: &Criteria, context: &Map<String, Value>) -> Vec<Requirement> {
    let lines = match &criteria.0 {
        Value::Array(rules) => all(rules, context, 1),
        node => describe(node, context, 1),
    };
    lines.into_iter().map(|line| Requirement { text: sentence(&line), messages: line.messages }).collect()
}

/// A part of a requirement.
struct Line {
    text: String,
    form: Form,
    messages: Vec<String>,
}

/// The grammatical form of a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A verb phrase after "must": `contain "x"`.
    Verb,
    /// A verb phrase after "must not".
    NegatedVerb,
    /// A complete sentence: the author's, or a junction.
    Sentence,
}

/// Joins several parts to one.
fn joined(mut lines: Vec<Line>) -> Option<Line> {
    if lines.len() <= 1 {
        return lines.pop();
    }
    let text = format!("all of ({})", texts(&lines, "; "));
    Some(Line { text, form: Form::Sentence, messages: messages(lines) })
}

fn texts(lines: &[Line], separator: &str) -> String {
    let text = |line: &Line| match line.form {
        Form::Verb | Form::Sentence => line.text.clone(),
        Form::NegatedVerb => format!("not: {}", line.text),
    };
    lines.iter().map(text).collect::<Vec<_>>().join(separator)
}

fn messages(lines: Vec<Line>) -> Vec<String> {
    lines.into_iter().flat_map(|line| line.messages).collect()
}

fn all(rules: &[Value], context: &Map<String, Value>, depth: usize) -> Vec<Line> {
    rules.iter().flat_map(|rule| describe(rule, context, depth + 1)).collect()
}

/// The parts of a node; empty if the node is ignored.
fn describe(node: &Value, context: &Map<String, Value>, depth: usize) -> Vec<Line> {
    let Some(members) = node.as_object().filter(|_| depth <= MAX_DEPTH) else { return Vec::new() };
    if members.contains_key("type") {
        // A condition that cannot be evaluated is rejected earlier. If not, describe the rule: more is safer
        // than less.
        let part = applies(members, context).unwrap_or(true);
        return part.then(|| rule(members)).into_iter().collect();
    }
    if let Some(Value::Array(rules)) = members.get("and") {
        return all(rules, context, depth);
    }
    if let Some(Value::Array(rules)) = members.get("or") {
        let mut choices: Vec<Line> =
            rules.iter().filter_map(|rule| joined(describe(rule, context, depth + 1))).collect();
        if choices.len() > 1 {
            let text = format!("at least one of ({})", texts(&choices, "; or "));
            choices = vec![Line { text, form: Form::Sentence, messages: messages(choices) }];
        }
        return choices;
    }
    let inner = members.get("not").and_then(|inner| joined(describe(inner, context, depth + 1)));
    inner.map(negated).into_iter().collect()
}

fn negated(line: Line) -> Line {
    let Line { text, form, messages } = line;
    match form {
        Form::Verb => Line { text, form: Form::NegatedVerb, messages },
        Form::NegatedVerb => Line { text, form: Form::Verb, messages },
        // The author's message says what not to do; a junction is negated as a whole.
        Form::Sentence if messages.len() == 1 => Line { text, form, messages },
        Form::Sentence => Line { text: format!("not: {text}"), form, messages },
    }
}

/// Describes a rule. A pattern is shown only if the author gave no message: readers would write for the
/// pattern.
fn rule(members: &Map<String, Value>) -> Line {
    let text = |key: &str| members.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| members.get(key).and_then(Value::as_u64);
    let message = text("message").trim().trim_end_matches('.').to_owned();
    let messages = vec![message.clone()];
    let what = match text("type") {
        "contains" => format!("contain {:?}", text("value")),
        "regex" if !message.is_empty() => return Line { text: message, form: Form::Sentence, messages },
        "regex" => {
            let case = if text("flags").contains('i') { ", in any case" } else { "" };
            format!("match the pattern `{}`{case}", text("pattern"))
        }
        "length" => match (number("min"), number("max")) {
            (Some(min), Some(max)) => format!("have {min} to {max} characters"),
            (Some(min), None) => format!("have at least {min} characters"),
            (None, Some(max)) => format!("have at most {max} characters"),
            (None, None) => "have any length".to_owned(),
        },
        _ => {
            let schema = members.get("schema").unwrap_or(&Value::Null);
            let bytes = canon::canonical::to_string(schema).unwrap_or_default();
            let shown = if bytes.len() <= 1024 { bytes } else { quoted(&bytes) };
            match members.get("block").and_then(Value::as_str) {
                Some(block) => {
                    format!("have a fenced block ```json {block} of JSON that matches the schema `{shown}`")
                }
                None => format!("be JSON that matches the schema `{shown}`"),
            }
        }
    };
    let text = if message.is_empty() { what } else { format!("{what} ({message})") };
    Line { text, form: Form::Verb, messages }
}

/// The line starts with a capital letter.
fn sentence(line: &Line) -> String {
    let text = match line.form {
        Form::Verb => format!("must {}", line.text),
        Form::NegatedVerb => format!("must not {}", line.text),
        Form::Sentence => line.text.clone(),
    };
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
