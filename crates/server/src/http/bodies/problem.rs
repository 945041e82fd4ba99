//! Validation errors of request bodies.

use std::borrow::Cow;

use runs::{ApiCode, Refusal};

/// A validation error, and the field that it is about.
#[derive(Debug)]
pub(in crate::http) struct Problem {
    /// The field names that lead to the value, innermost first. Empty for the body itself.
    path: Vec<&'static str>,
    what: What,
    hint: Option<&'static str>,
}

#[derive(Debug)]
enum What {
    /// A required field is missing.
    Missing { expected: Cow<'static, str> },
    /// A value is invalid.
    Wrong { expected: Cow<'static, str> },
    /// An object has an unknown field.
    Unknown { known: &'static [&'static str], meant: Option<&'static str> },
    /// A message about a field.
    Other { message: Cow<'static, str> },
}

impl Problem {
    fn new(what: What) -> Self {
        Self { path: Vec::new(), what, hint: None }
    }

    pub(super) fn missing(expected: impl Into<Cow<'static, str>>) -> Self {
        Self::new(What::Missing { expected: expected.into() })
    }

    pub(super) fn wrong(expected: impl Into<Cow<'static, str>>) -> Self {
        Self::new(What::Wrong { expected: expected.into() })
    }

    /// `name` is what the caller sent. It is compared but never echoed, because it may be a secret in the wrong field.
    pub(super) fn unknown(name: &str, known: &'static [&'static str]) -> Self {
        let meant = canon::nearest::nearest(name, known.iter().copied(), 1).first().copied();
        Self::new(What::Unknown { known, meant })
    }

    /// A message that continues the name of the field.
    pub(super) fn other(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(What::Other { message: message.into() })
    }

    /// The same error, inside the field `name` of an object.
    pub(super) fn below(mut self, name: &'static str) -> Self {
        self.path.push(name);
        self
    }

    /// Adds a hint for the caller.
    pub(super) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    pub(super) fn refusal(self) -> Refusal {
        let Self { mut path, what, hint } = self;
        path.reverse();
        let field = if path.is_empty() { "body".to_owned() } else { path.join(".") };
        let subject = if path.is_empty() { "the body".to_owned() } else { format!("`{field}`") };
        let mut message = match &what {
            What::Missing { expected } => format!("{subject} is required: {expected}"),
            What::Wrong { expected } => format!("{subject} must be {expected}"),
            What::Unknown { meant: Some(meant), .. } => {
                format!("{subject} has an unknown field; did you mean `{meant}`?")
            }
            What::Unknown { meant: None, .. } => format!("{subject} has an unknown field"),
            What::Other { message } => format!("{subject} {message}"),
        };
        if let Some(hint) = hint {
            message.push_str("; ");
            message.push_str(hint);
        }
        let refusal = Refusal::new(ApiCode::ValidationError, message).detail("field", field);
        match what {
            What::Unknown { known, .. } => refusal.detail("known", known.to_vec()),
            What::Missing { .. } | What::Wrong { .. } | What::Other { .. } => refusal,
        }
    }
}
