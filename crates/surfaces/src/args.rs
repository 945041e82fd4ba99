//! Arguments, read strictly: each one is known, of its type and within its bound, or the call is refused.

use canon::nearest::nearest;
use serde_json::{Map, Value};

use crate::error::{Code, SurfaceError};

/// How deep arguments may nest. What is stored has to be read again by readers that stop at 128 levels, inside answers that add a few.
pub const MAX_DEPTH: usize = 64;
/// How many bytes of a wrong name are shown.
const SHOWN: usize = 80;

/// The arguments of one call.
#[derive(Debug)]
pub struct Args(Map<String, Value>);

impl Args {
    /// Takes the arguments, none of which may be unknown.
    ///
    /// # Errors
    /// `invalid_argument`: one is unknown, or nested too deep.
    pub fn new(args: Map<String, Value>, known: &[&str]) -> Result<Self, SurfaceError> {
        for (name, value) in &args {
            if !known.contains(&name.as_str()) {
                let shown = shown(name);
                let near = nearest(&shown, known, 1);
                let advice = match near.first() {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => "there are none".to_owned(),
                    None => format!("there are {}", known.join(", ")),
                };
                return Err(refuse(format!("`{shown}` is not an argument here; {advice}")));
            }
            if !canon::json::within_depth(value, MAX_DEPTH) {
                return Err(refuse(format!("`{name}` is nested deeper than {MAX_DEPTH} levels")));
            }
        }
        Ok(Self(args))
    }

    /// An argument, where it was given and is not null.
    pub fn optional(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    /// An argument of any type, null included.
    ///
    /// # Errors
    /// `invalid_argument`: it was not given.
    pub fn value(&mut self, name: &str) -> Result<Value, SurfaceError> {
        self.0.remove(name).ok_or_else(|| refuse(format!("`{name}` is needed")))
    }

    /// The first of these that was given, null included; several names for one thing.
    ///
    /// # Errors
    /// `invalid_argument`: none, or more than one of them was given.
    pub fn one_of(&mut self, names: &[&str]) -> Result<Value, SurfaceError> {
        let mut found = None;
        for name in names {
            match (self.0.remove(*name), found.is_some()) {
                (Some(_), true) => {
                    return Err(refuse(format!("{} mean the same; give one", names.join(" and "))));
                }
                (Some(value), false) => found = Some(value),
                (None, _) => {}
            }
        }
        found.ok_or_else(|| refuse(format!("`{}` is needed", names.first().copied().unwrap_or_default())))
    }

    /// A text.
    ///
    /// # Errors
    /// `invalid_argument`: it was not given, or is no text.
    pub fn text(&mut self, name: &str) -> Result<String, SurfaceError> {
        match self.0.remove(name) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(refuse(format!("`{name}` is a text"))),
            None => Err(refuse(format!("`{name}` is needed, a text"))),
        }
    }

    /// A text, where it was given.
    ///
    /// # Errors
    /// `invalid_argument`: it is no text.
    pub fn optional_text(&mut self, name: &str) -> Result<Option<String>, SurfaceError> {
        match self.optional(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(refuse(format!("`{name}` is a text"))),
        }
    }

    /// A whole number within bounds, where it was given.
    ///
    /// # Errors
    /// `invalid_argument`: it is no whole number, or beyond the bounds.
    pub fn optional_count(&mut self, name: &str, least: u64, most: u64) -> Result<Option<u64>, SurfaceError> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        match value.as_u64() {
            Some(count) if (least..=most).contains(&count) => Ok(Some(count)),
            _ => Err(refuse(format!("`{name}` is a whole number from {least} to {most}"))),
        }
    }

    /// A whole number with a sign, where it was given.
    ///
    /// # Errors
    /// `invalid_argument`: it is no whole number of 64 bits.
    pub fn optional_integer(&mut self, name: &str) -> Result<Option<i64>, SurfaceError> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        match value.as_i64() {
            Some(integer) => Ok(Some(integer)),
            None => Err(refuse(format!("`{name}` is a whole number of 64 bits"))),
        }
    }

    /// Yes or no; no where it was not given.
    ///
    /// # Errors
    /// `invalid_argument`: it is neither.
    pub fn flag(&mut self, name: &str) -> Result<bool, SurfaceError> {
        Ok(self.optional_flag(name)?.unwrap_or(false))
    }

    /// Yes or no, where it was given.
    ///
    /// # Errors
    /// `invalid_argument`: it is neither.
    pub fn optional_flag(&mut self, name: &str) -> Result<Option<bool>, SurfaceError> {
        match self.optional(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(refuse(format!("`{name}` is true or false"))),
        }
    }

    /// An object.
    ///
    /// # Errors
    /// `invalid_argument`: it was not given, or is no object.
    pub fn object(&mut self, name: &str) -> Result<Map<String, Value>, SurfaceError> {
        match self.0.remove(name) {
            Some(Value::Object(object)) => Ok(object),
            _ => Err(refuse(format!("`{name}` is needed, an object"))),
        }
    }

    /// A lifetime in seconds, as milliseconds, where it was given. Fractions of a second are allowed.
    ///
    /// # Errors
    /// `invalid_argument`: it is no positive number; `beyond` where it is longer than `most` seconds.
    pub fn lifetime_ms(&mut self, name: &str, most: u64, beyond: Code) -> Result<Option<u64>, SurfaceError> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        let seconds = value.as_f64().filter(|seconds| *seconds > 0.0);
        let Some(seconds) = seconds else {
            return Err(refuse(format!("`{name}` is a number of seconds above 0")));
        };
        #[expect(clippy::cast_precision_loss, reason = "bounds are far below 2^53")]
        if seconds > most as f64 {
            return Err(SurfaceError::new(beyond, format!("`{name}` is at most {most}")));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and bounded just above"
        )]
        Ok(Some((seconds * 1000.0).ceil() as u64))
    }
}

/// The refusal of an argument.
pub fn refuse(message: impl Into<String>) -> SurfaceError {
    SurfaceError::new(Code::InvalidArgument, message)
}

/// Enough of a name that came from outside to recognise it.
pub fn shown(name: &str) -> String {
    name.chars()
        .filter(|c| !c.is_control())
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= SHOWN).then_some(c)
        })
        .collect()
}

/// Checks a name that becomes part of a key: not empty, not too long, no NUL.
///
/// # Errors
/// `invalid_argument`, or `beyond` where it is too long.
pub fn check_name(what: &str, name: &str, most: usize, beyond: Code) -> Result<(), SurfaceError> {
    if name.is_empty() {
        return Err(refuse(format!("`{what}` may not be empty")));
    }
    if name.len() > most {
        return Err(SurfaceError::new(
            beyond,
            format!("`{what}` has {} bytes, and at most {most} are allowed", name.len()),
        ));
    }
    if name.contains('\0') {
        return Err(refuse(format!("`{what}` may not contain NUL")));
    }
    Ok(())
}
