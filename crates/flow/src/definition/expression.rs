//! Expressions of edges and ports: comparisons of paths and values. Evaluation always terminates.
//!
//! ```text
//! any      = all  { "||" all }
//! all      = test { "&&" test }
//! test     = value [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) value ]
//! value    = "!" value | "(" any ")" | number | text | true | false | null | path
//! path     = name { "." name | "[" digits "]" }
//! ```
//!
//! `===` and `!==` are accepted for `==` and `!=`, and an expression may be enclosed in `${ }` or `{{ }}`, because authors know these forms
//! from other tools. A path that leads nowhere is `null`.

mod evaluate;
mod parse;

use std::borrow::Cow;

use serde_json::Value;

pub(in crate::definition) use self::evaluate::equal;
pub use self::evaluate::{Scope, is_true, lookup};
pub use self::parse::ExpressionError;
use crate::meter::{Meter, OverBudget};

/// The maximum length of an expression, in bytes.
pub const MAX_BYTES: usize = 4096;
/// The maximum nesting of an expression.
pub const MAX_DEPTH: usize = 32;

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
    /// The text is not a valid expression, with the position of the problem.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        Ok(Self { text: text.to_owned(), root: parse::parse(text)? })
    }

    /// The source text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The cost of evaluation, as a multiple of the size of the values that the expression reads. It has fewer terms than bytes.
    pub(crate) fn weight(&self) -> u64 {
        self.text.len() as u64
    }

    /// The value of the expression.
    ///
    /// # Errors
    /// The step budget is exceeded.
    pub fn evaluate(&self, scope: &Scope<'_>, meter: &mut Meter) -> Result<Value, OverBudget> {
        let value = evaluate::evaluate(&self.root, scope, meter)?;
        if let Cow::Borrowed(value) = &value {
            // The value is copied.
            meter.charge_value(value)?;
        }
        Ok(value.into_owned())
    }

    /// Whether the value counts as true.
    ///
    /// # Errors
    /// The step budget is exceeded.
    pub fn holds(&self, scope: &Scope<'_>, meter: &mut Meter) -> Result<bool, OverBudget> {
        Ok(is_true(&*evaluate::evaluate(&self.root, scope, meter)?))
    }
}
