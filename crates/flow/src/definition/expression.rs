//! Expressions of edges and ports: comparisons of paths and values, and nothing that could run away.
//!
//! ```text
//! any      = all  { "||" all }
//! all      = test { "&&" test }
//! test     = value [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) value ]
//! value    = "!" value | "(" any ")" | number | text | true | false | null | path
//! path     = name { "." name | "[" digits "]" }
//! ```
//!
//! `===` and `!==` are read as `==` and `!=`, and an expression may stand in `${ }` or `{{ }}`: authors
//! bring those habits along. A path that leads nowhere is `null`.

mod evaluate;
mod parse;

use std::borrow::Cow;

use serde_json::Value;

pub(in crate::definition) use self::evaluate::equal;
pub use self::evaluate::{Scope, is_true, lookup};
pub use self::parse::ExpressionError;
use crate::meter::{Meter, OverBudget};

/// The longest expression, in bytes: more than a line of a condition, and short enough to parse at every registration.
pub const MAX_BYTES: usize = 4096;
/// The deepest nesting of an expression.
pub const MAX_DEPTH: usize = 32;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    root: Term,
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    Value(Value),
    Path(Vec<String>),
    Not(Box<Term>),
    All(Vec<Term>),
    Any(Vec<Term>),
    Compare(Box<Term>, Comparison, Box<Term>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// When it is none, with the place.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        Ok(Self { text: text.to_owned(), root: parse::parse(text)? })
    }

    /// The text that it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How much it looks at, as a multiple of the values that it looks at: it has fewer terms than bytes.
    pub(crate) fn weight(&self) -> u64 {
        self.text.len() as u64
    }

    /// Its value.
    ///
    /// # Errors
    /// When that takes more steps than there are.
    pub fn evaluate(&self, scope: &Scope<'_>, meter: &mut Meter) -> Result<Value, OverBudget> {
        let value = evaluate::evaluate(&self.root, scope, meter)?;
        if let Cow::Borrowed(value) = &value {
            // It is copied.
            meter.charge_value(value)?;
        }
        Ok(value.into_owned())
    }

    /// Whether its value counts as true.
    ///
    /// # Errors
    /// When that takes more steps than there are.
    pub fn holds(&self, scope: &Scope<'_>, meter: &mut Meter) -> Result<bool, OverBudget> {
        Ok(is_true(&*evaluate::evaluate(&self.root, scope, meter)?))
    }
}
