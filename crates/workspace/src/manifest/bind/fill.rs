//! Filling tokens with values, within a budget.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::manifest::compiled::EnvPiece;
use crate::manifest::model::Expression;
use crate::manifest::problem::{MAX_PROBLEMS, quoted};
use crate::manifest::token::{Piece, Text};
use crate::{Code, Error};

/// How much inputs may add to a manifest, in bytes. Many tokens may name one large input: a megabyte of each
/// would be a hundred gigabytes.
pub(super) const MAX_FILLED_BYTES: usize = 8 << 20;

/// About how many bytes a value has as JSON. Recursive: inputs are of bounded depth.
pub(super) fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| size_of(item) + 1).sum::<usize>(),
        Value::Object(members) => {
            2 + members.iter().map(|(key, value)| key.len() + 4 + size_of(value)).sum::<usize>()
        }
    }
}

pub(super) struct Fill<'a> {
    /// Each value with its size, so that a large one is measured once.
    values: BTreeMap<&'a str, (&'a Value, usize)>,
    filled: usize,
    errors: Vec<Error>,
}

impl<'a> Fill<'a> {
    pub(super) fn new(values: &BTreeMap<&'a str, &'a Value>) -> Self {
        let values = values.iter().map(|(name, value)| (*name, (*value, size_of(value)))).collect();
        Self { values, filled: 0, errors: Vec::new() }
    }

    pub(super) fn finish(self) -> Result<(), Error> {
        if self.filled > MAX_FILLED_BYTES {
            return Err(Error::limit(
                "bytes that inputs add to a manifest",
                MAX_FILLED_BYTES as u64,
                self.filled as u64,
            ));
        }
        match Error::first_of(self.errors) {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// The value of an expression. Recursive: a manifest is of bounded depth.
    pub(super) fn value(&mut self, expression: &Expression) -> Value {
        match expression {
            Expression::Plain(value) => value.clone(),
            Expression::Text(text) => match text.whole() {
                Some(Piece::Input { name, default }) => self.input(text, name, default.as_ref()),
                _ => Value::String(self.joined(text)),
            },
            Expression::List(items) => items.iter().map(|item| self.value(item)).collect(),
            Expression::Object(members) => {
                members.iter().map(|(key, value)| (key.clone(), self.value(value))).collect()
            }
        }
    }

    /// The text of an expression, whatever the type of the input.
    pub(super) fn text(&mut self, expression: &Expression) -> String {
        match expression {
            Expression::Text(text) => self.joined(text),
            other => as_text(&self.value(other)),
        }
    }

    /// The text of an environment variable, in which credentials stay what they are.
    pub(super) fn pieces(&mut self, expression: &Expression) -> Vec<EnvPiece> {
        let Expression::Text(text) = expression else {
            return vec![EnvPiece::Text(self.text(expression))];
        };
        let pieces = text.pieces.iter().map(|piece| match piece {
            Piece::Literal(literal) => EnvPiece::Text(literal.clone()),
            Piece::Input { name, default } => {
                EnvPiece::Text(as_text(&self.input(text, name, default.as_ref())))
            }
            Piece::Credential { name } => EnvPiece::Credential(name.clone()),
        });
        pieces.collect()
    }

    fn joined(&mut self, text: &Text) -> String {
        let mut joined = String::new();
        for piece in &text.pieces {
            match piece {
                Piece::Literal(literal) => joined.push_str(literal),
                Piece::Input { name, default } => {
                    joined.push_str(&as_text(&self.input(text, name, default.as_ref())));
                }
                // Only environment variables have them, and those are not joined here.
                Piece::Credential { .. } => {}
            }
        }
        joined
    }

    /// What an input is, for the text that names it; once over the budget, nothing.
    fn input(&mut self, text: &Text, name: &str, default: Option<&Value>) -> Value {
        let (value, size) = match (self.values.get(name), default) {
            (Some(known), _) => *known,
            (None, Some(default)) => (default, size_of(default)),
            (None, None) => {
                if self.errors.len() < MAX_PROBLEMS {
                    let message = format_args!(
                        "the input {} was not given, and nothing says what it is then; give it a `default`",
                        quoted(name)
                    );
                    let error = text.place.refuse(Code::BindInputMissing, message);
                    self.errors.push(error.detail("input", name));
                }
                return Value::Null;
            }
        };
        self.filled = self.filled.saturating_add(size);
        if self.filled > MAX_FILLED_BYTES { Value::Null } else { value.clone() }
    }
}

/// A text as it is; everything else as canonical JSON, which for numbers and booleans is what anybody
/// would write.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => canon::canonical::string_of(other),
    }
}
