//! Reads a closed JSON object and collects every problem with its position.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::prompt::PromptRef;

/// The maximum number of problems reported for one configuration.
const MAX_PROBLEMS: usize = 64;
/// The maximum number of few-shot prompts of a node.
const MAX_EXAMPLES: usize = 32;

/// A problem and its position. The invalid value is not quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A JSON Pointer into the configuration.
    pub pointer: String,
    pub message: String,
}

/// A configuration being read.
pub(super) struct Reader<'r> {
    members: Option<&'r Map<String, Value>>,
    known: BTreeSet<&'static str>,
    problems: Vec<Problem>,
}

impl<'r> Reader<'r> {
    pub(super) fn new(config: &'r Value) -> Self {
        let mut reader = Self { members: config.as_object(), known: BTreeSet::new(), problems: Vec::new() };
        if reader.members.is_none() {
            reader.problems.push(Problem {
                pointer: String::new(),
                message: "a configuration must be an object".to_owned(),
            });
        }
        reader
    }

    fn get(&mut self, name: &'static str) -> Option<&'r Value> {
        self.known.insert(name);
        self.members?.get(name)
    }

    pub(super) fn problem(&mut self, name: &str, message: impl Into<String>) {
        let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { pointer, message: message.into() });
        }
    }

    /// A required member.
    pub(super) fn needed(&mut self, name: &'static str) -> Option<&'r Value> {
        let value = self.get(name);
        if value.is_none() && self.members.is_some() {
            self.problem(name, "required");
        }
        value
    }

    /// A member parsed by `read`.
    pub(super) fn with<T>(
        &mut self,
        name: &'static str,
        message: &str,
        read: impl Fn(&'r Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(name)?;
        let read = read(value);
        if read.is_none() {
            self.problem(name, message);
        }
        read
    }

    pub(super) fn text(&mut self, name: &'static str, most: usize) -> Option<String> {
        let message = format!("must be a string of 1 to {most} characters");
        self.with(name, &message, |value| {
            value.as_str().filter(|text| (1..=most).contains(&text.chars().count())).map(ToOwned::to_owned)
        })
    }

    pub(super) fn texts(&mut self, name: &'static str, most: usize) -> Vec<String> {
        let message = format!("must be a list of at most {most} strings of 1 to 256 characters");
        let text = |item: &Value| {
            item.as_str().filter(|text| (1..=256).contains(&text.chars().count())).map(ToOwned::to_owned)
        };
        let texts = self.with(name, &message, |value| {
            value.as_array().filter(|items| items.len() <= most)?.iter().map(text).collect::<Option<Vec<_>>>()
        });
        texts.unwrap_or_default()
    }

    pub(super) fn flag(&mut self, name: &'static str) -> Option<bool> {
        self.with(name, "must be `true` or `false`", Value::as_bool)
    }

    pub(super) fn count(&mut self, name: &'static str, most: u32) -> Option<u32> {
        let message = format!("must be an integer from 0 to {most}");
        self.with(name, &message, |value| {
            value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|number| *number <= most)
        })
    }

    /// Reports that a number must be at least 1. Always returns false, for use at the end of a condition.
    pub(super) fn at_least_one(&mut self, name: &str) -> bool {
        self.problem(name, "must be at least 1");
        false
    }

    pub(super) fn number(&mut self, name: &'static str, most: f64) -> Option<f64> {
        let message = format!("must be a number from 0 to {most}");
        self.with(name, &message, |value| value.as_f64().filter(|number| (0.0..=most).contains(number)))
    }

    pub(super) fn prompt(&mut self, name: &'static str) -> Option<PromptRef> {
        self.with(name, "must be a prompt reference, such as `prompt:writer@1.0.0`", PromptRef::read)
    }

    /// A reference whose `prompt:` prefix is optional.
    pub(super) fn prompt_id(&mut self, name: &'static str) -> Option<PromptRef> {
        let message = "must be the name of a prompt, such as `writer` or `writer@1.0.0`";
        self.with(name, message, |value| {
            let text = value.as_str()?;
            PromptRef::parse(text).or_else(|| PromptRef::parse(&format!("prompt:{text}")))
        })
    }

    pub(super) fn prompts(&mut self, name: &'static str) -> Vec<PromptRef> {
        let message = format!("must be a list of at most {MAX_EXAMPLES} prompt references");
        let prompts = self.with(name, &message, |value| {
            value
                .as_array()
                .filter(|items| items.len() <= MAX_EXAMPLES)?
                .iter()
                .map(PromptRef::read)
                .collect::<Option<Vec<_>>>()
        });
        prompts.unwrap_or_default()
    }

    /// All problems, including unknown members.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        let unknown: Vec<String> = self
            .members
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .filter(|name| !self.known.contains(name.as_str()))
            .collect();
        for name in unknown.into_iter().take(MAX_PROBLEMS) {
            let near = canon::nearest::nearest(&name, self.known.iter().copied(), 1);
            let message = match near.first() {
                Some(near) => format!("unknown field; did you mean `{near}`?"),
                None => "unknown field".to_owned(),
            };
            let clipped: String = name.chars().take(128).collect();
            self.problem(&clipped, message);
        }
        self.problems
    }
}
