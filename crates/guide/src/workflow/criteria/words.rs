//! Criteria in words, for the prompt of the step that has to keep them.

use serde_json::{Map, Value};

use super::{MAX_DEPTH, evaluate::takes_part};
use crate::workflow::{compiled::Criteria, problem::quoted};

/// What the notes have to keep, one line per requirement.
///
/// Conditions are evaluated first: a rule that takes no part in this context is not described.
pub fn requirements(criteria: &Criteria, context: &Map<String, Value>) -> Vec<String> {
    let words = match &criteria.0 {
        Value::Array(rules) => all(rules, context, 1),
        node => describe(node, context, 1).unwrap_or_else(|| Words::All(Vec::new())),
    };
    match words {
        Words::All(lines) => lines.into_iter().map(|line| sentence(&line)).collect(),
        Words::One(line) => vec![sentence(&line)],
    }
}

/// Several requirements that stand beside one another, or one.
enum Words {
    All(Vec<String>),
    One(String),
}

impl Words {
    fn joined(self) -> String {
        match self {
            Self::One(line) => line,
            Self::All(lines) => match &lines[..] {
                [line] => line.clone(),
                _ => format!("all of ({})", lines.join("; ")),
            },
        }
    }
}

fn all(rules: &[Value], context: &Map<String, Value>, depth: usize) -> Words {
    let mut lines = Vec::new();
    for words in rules.iter().filter_map(|rule| describe(rule, context, depth + 1)) {
        match words {
            Words::All(mut more) => lines.append(&mut more),
            Words::One(line) => lines.push(line),
        }
    }
    Words::All(lines)
}

/// Nothing for what takes no part.
fn describe(node: &Value, context: &Map<String, Value>, depth: usize) -> Option<Words> {
    let members = node.as_object().filter(|_| depth <= MAX_DEPTH)?;
    if members.contains_key("type") {
        // A condition that cannot be evaluated never got here; if it did, saying more is safer than less.
        return takes_part(members, context).unwrap_or(true).then(|| Words::One(rule(members)));
    }
    if let Some(Value::Array(rules)) = members.get("and") {
        return match all(rules, context, depth) {
            Words::All(lines) if lines.is_empty() => None,
            words => Some(words),
        };
    }
    if let Some(Value::Array(rules)) = members.get("or") {
        let mut choices: Vec<String> =
            rules.iter().filter_map(|rule| describe(rule, context, depth + 1)).map(Words::joined).collect();
        return match choices.len() {
            0 => None,
            1 => choices.pop().map(Words::One),
            _ => Some(Words::One(format!("at least one of ({})", choices.join("; or ")))),
        };
    }
    let inner = describe(members.get("not")?, context, depth + 1)?.joined();
    Some(Words::One(format!("not: {inner}")))
}

fn rule(members: &Map<String, Value>) -> String {
    let text = |key: &str| members.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| members.get(key).and_then(Value::as_u64);
    let what = match text("type") {
        "contains" => format!("contain {:?}", text("value")),
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
            format!("be JSON that keeps the schema `{shown}`")
        }
    };
    format!("{what} ({})", text("message").trim().trim_end_matches('.'))
}

/// A line of its own begins with a capital letter.
fn sentence(line: &str) -> String {
    let line = line.strip_prefix("not: ").map_or_else(
        || {
            if ["all of", "at least one of"].iter().any(|start| line.starts_with(start)) {
                line.to_owned()
            } else {
                format!("must {line}")
            }
        },
        |rest| format!("must not {rest}"),
    );
    let mut characters = line.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
