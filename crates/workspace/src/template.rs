//! Templates of seed files: a small, closed subset of Handlebars.
//!
//! | Written | Gives |
//! |---|---|
//! | `{{name}}`, `{{a.b}}`, `{{list.0}}` | the value, escaped for HTML |
//! | `{{{name}}}`, `{{&name}}` | the value as it is |
//! | `{{#if x}}…{{else}}…{{/if}}`, `{{#unless x}}…{{/unless}}` | one part or the other |
//! | `{{#each x}}…{{else}}…{{/each}}` | the part once for each item or member, else the other |
//! | `this`, `../name`, `@index`, `@key`, `@first`, `@last` | inside `#each` |
//! | `{{! … }}`, `{{!-- … --}}` | nothing |
//! | `{{~x~}}` | the same without the white space beside it |
//!
//! Nothing else is supported: no partials, helpers, decorators, literals or prototypes. A missing
//! variable is an error, except in the condition of `#if` and `#unless`. False are `false`, `null`,
//! missing, `""`, `0` and `[]`. A block tag or comment that is alone on its line removes the line.
//!
//! The engine is hand-written. The `handlebars` crate parses with a recursive grammar that a deep
//! template overflows, has helpers that cannot be removed in strict mode without replacing `if` and
//! `each`, and limits neither loop steps nor output. Everything here is bounded in advance.
//!
//! ```
//! use serde_json::json;
//! let vars = json!({"name": "Ada & Co", "tags": ["a", "b"]});
//! let text = "{{name}}: {{#each tags}}{{this}}{{#unless @last}}, {{/unless}}{{/each}}";
//! assert_eq!(workspace::template::render(text, &vars)?, "Ada &amp; Co: a, b");
//! # Ok::<(), workspace::Error>(())
//! ```

mod lex;
mod parse;
mod render;

use serde_json::Value;

use crate::{Code, Error};

/// The largest template, in bytes; the same limit applies to the output.
pub const MAX_TEMPLATE: usize = 2 << 20;

/// The largest output, in bytes.
pub const MAX_OUTPUT: usize = 2 << 20;

/// The nesting limit of blocks.
pub const MAX_NESTING: usize = 16;

/// The limit of all loop iterations together.
pub const MAX_LOOP_STEPS: u64 = 100_000;

/// The limit of visited parts. A loop over a long body without output would otherwise take hours
/// within the limit of its iterations.
pub const MAX_VISITS: u64 = 2_000_000;

/// Renders a template with variables, which must be an object.
///
/// # Errors
/// `TEMPLATE_SYNTAX` and `TEMPLATE_MISSING_VAR` with line and column, `LIMIT_EXCEEDED` with the
/// limit.
pub fn render(text: &str, variables: &Value) -> Result<String, Error> {
    if text.len() > MAX_TEMPLATE {
        return Err(Error::limit("bytes of a template", MAX_TEMPLATE as u64, text.len() as u64));
    }
    if !canon::json::within_depth(variables, canon::json::MAX_DEPTH) {
        let most = canon::json::MAX_DEPTH as u64;
        return Err(Error::limit("levels of the variables of a template", most, most + 1));
    }
    let parsed = lex::tokens(text).and_then(parse::parse);
    let template = parsed.map_err(|fault| fault.into_error(text))?;
    render::render(&template, variables).map_err(|fault| fault.into_error(text))
}

/// Checks the syntax of a template without rendering it.
///
/// # Errors
/// As [`render`], except for errors that depend on variables.
pub fn check(text: &str) -> Result<(), Error> {
    if text.len() > MAX_TEMPLATE {
        return Err(Error::limit("bytes of a template", MAX_TEMPLATE as u64, text.len() as u64));
    }
    let parsed = lex::tokens(text).and_then(parse::parse);
    parsed.map(drop).map_err(|fault| fault.into_error(text))
}

/// An error and its byte offset.
#[derive(Debug)]
struct Fault {
    at: usize,
    kind: FaultKind,
}

#[derive(Debug)]
enum FaultKind {
    Syntax(String),
    Missing { name: String, message: String },
    Limit { limit: &'static str, max: u64, seen: u64 },
}

impl Fault {
    fn syntax(at: usize, message: impl Into<String>) -> Self {
        Self { at, kind: FaultKind::Syntax(message.into()) }
    }

    fn limit(at: usize, limit: &'static str, max: u64) -> Self {
        Self { at, kind: FaultKind::Limit { limit, max, seen: max + 1 } }
    }

    fn into_error(self, text: &str) -> Error {
        let before = &text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
        let error = match self.kind {
            FaultKind::Syntax(message) => {
                Error::new(Code::TemplateSyntax, format!("line {line}, column {column}: {message}"))
            }
            FaultKind::Missing { name, message } => {
                let message = format!("line {line}, column {column}: {message}");
                Error::new(Code::TemplateMissingVar, message).detail("variable", name)
            }
            FaultKind::Limit { limit, max, seen } => Error::limit(limit, max, seen),
        };
        error.detail("line", line).detail("column", column)
    }
}

/// A piece of a template, for a message.
fn quoted(text: &str) -> String {
    format!("`{}`", canon::budget::truncate(text, 80).escape_debug())
}
