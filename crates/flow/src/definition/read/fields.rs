//! Reads the members of an object and collects problems.

use canon::nearest::nearest;
use serde_json::{Map, Value};

use crate::definition::Problem;

/// The members of an object, and its location.
pub(super) struct Fields<'d, 'p> {
    object: &'d Map<String, Value>,
    path: String,
    problems: &'p mut Vec<Problem>,
}

impl<'d, 'p> Fields<'d, 'p> {
    pub(super) fn new(object: &'d Map<String, Value>, path: String, problems: &'p mut Vec<Problem>) -> Self {
        Self { object, path, problems }
    }

    /// The members of a value that must be an object.
    pub(super) fn of(value: &'d Value, path: String, problems: &'p mut Vec<Problem>) -> Option<Self> {
        match value {
            Value::Object(object) => Some(Self::new(object, path, problems)),
            _ => {
                problems.push(Problem::at(path, "expected an object"));
                None
            }
        }
    }

    pub(super) fn problem(&mut self, name: &str, message: impl Into<String>) {
        self.problems.push(Problem::at(format!("{}/{name}", self.path), message));
    }

    pub(super) fn push(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Reads an object inside this one.
    pub(super) fn nested<T>(
        &mut self,
        object: &Map<String, Value>,
        path: String,
        read: impl FnOnce(&mut Fields<'_, '_>) -> T,
    ) -> T {
        read(&mut Fields::new(object, path, self.problems))
    }

    pub(super) fn value(&self, name: &str) -> Option<&'d Value> {
        self.object.get(name)
    }

    pub(super) fn text(&mut self, name: &str, min: usize, max: usize) -> Option<String> {
        match self.object.get(name) {
            Some(Value::String(text)) if (min..=max).contains(&text.chars().count()) => Some(text.clone()),
            Some(Value::String(_)) => {
                self.problem(name, format!("must be a string of {min} to {max} characters"));
                None
            }
            Some(_) => {
                self.problem(name, "expected a string");
                None
            }
            None => {
                self.problem(name, "required");
                None
            }
        }
    }

    pub(super) fn optional_text(&mut self, name: &str) -> Option<String> {
        match self.object.get(name)? {
            Value::String(text) => Some(text.clone()),
            _ => {
                self.problem(name, "expected a string");
                None
            }
        }
    }

    pub(super) fn one_of(&mut self, name: &str, text: &str, allowed: &[&str]) {
        if !allowed.contains(&text) {
            self.problem(name, format!("must be one of {}", allowed.join(", ")));
        }
    }

    pub(super) fn flag(&mut self, name: &str, default: bool) -> bool {
        match self.object.get(name) {
            None => default,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.problem(name, "expected true or false");
                default
            }
        }
    }

    pub(super) fn optional_integer(&mut self, name: &str, min: u64, max: u64) -> Option<u64> {
        let value = self.object.get(name)?;
        let integer = value.as_u64().or_else(|| {
            // JSON Schema treats 5.0 as an integer.
            let number =
                value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..=9e15).contains(number))?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "just checked")]
            Some(number as u64)
        });
        match integer {
            Some(integer) if (min..=max).contains(&integer) => Some(integer),
            _ if max == u64::MAX => {
                self.problem(name, format!("must be an integer of at least {min}"));
                None
            }
            _ => {
                self.problem(name, format!("must be an integer from {min} to {max}"));
                None
            }
        }
    }

    pub(super) fn list(&mut self, name: &str, min: usize, max: usize) -> Option<&'d [Value]> {
        match self.object.get(name) {
            Some(Value::Array(items)) if (min..=max).contains(&items.len()) => Some(items),
            Some(Value::Array(items)) => {
                self.problem(name, format!("must have {min} to {max} items, but has {}", items.len()));
                None
            }
            Some(_) => {
                self.problem(name, "expected a list");
                None
            }
            None => {
                self.problem(name, "required");
                None
            }
        }
    }

    pub(super) fn object(&mut self, name: &str) -> Option<&'d Map<String, Value>> {
        match self.object.get(name) {
            Some(Value::Object(object)) => Some(object),
            Some(_) => {
                self.problem(name, "expected an object");
                None
            }
            None => {
                self.problem(name, "required");
                None
            }
        }
    }

    /// Reports every other member, with a suggestion if a known name is similar.
    pub(super) fn only(&mut self, names: &[&str]) {
        for name in self.object.keys().filter(|name| !names.contains(&name.as_str())) {
            let message = match nearest(name, names.iter().copied(), 1).first() {
                Some(similar) => format!("unknown; did you mean `{similar}`?"),
                None => "unknown".to_owned(),
            };
            self.problems.push(Problem::at(format!("{}/{name}", self.path), message));
        }
    }
}
