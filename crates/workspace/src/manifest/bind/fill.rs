//! Fills tokens with values, within a size budget.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::manifest::compiled::EnvPiece;
use crate::manifest::model::Expression;
use crate::manifest::problem::{MAX_PROBLEMS, quoted};
use crate::manifest::token::{Piece, Text};
use crate::{Code, Error};

/// The limit of bytes that inputs add to a manifest. Many tokens may refer to one large input: a
/// megabyte each would be a hundred gigabytes.
pub(super) const MAX_FILLED_BYTES: usize = 8 << 20;

/// The approximate size of a value as JSON. Recursive: inputs have bounded depth.
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

    /// The value of an expression. Recursive: a manifest has bounded depth.
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

    /// The string value of an expression, whatever the type of the input.
    pub(super) fn text(&mut self, expression: &Expression) -> String {
        match expression {
            Expression::Text(text) => self.joined(text),
            other => as_text(&self.value(other)),
        }
    }

    /// The value of an environment variable; credentials remain references.
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
                // Only environment variables contain them, and those are not joined here.
                Piece::Credential { .. } => {}
            }
        }
        joined
    }

    /// The value of an input for its token; empty once over the budget.
    fn input(&mut self, text: &Text, name: &str, default: Option<&Value>) -> Value {
        let (value, size) = match (self.values.get(name), default) {
            (Some(known), _) => *known,
            (None, Some(default)) => (default, size_of(default)),
            (None, None) => {
                if self.errors.len() < MAX_PROBLEMS {
                    let message =
                        format_args!("the input {} was not provided and has no `default`", quoted(name));
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

/// A string unchanged; everything else as canonical JSON, which is the usual form for numbers and
/// booleans.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => canon::canonical::string_of(other),
    }
}
