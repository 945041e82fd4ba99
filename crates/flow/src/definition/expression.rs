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

use serde_json::Value;

pub(in crate::definition) use self::evaluate::equal;
pub use self::evaluate::{Scope, is_true, lookup};
pub use self::parse::ExpressionError;

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

    /// Its value.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Value {
        evaluate::evaluate(&self.root, scope)
    }
}
