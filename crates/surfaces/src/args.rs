//! Strict argument parsing: every argument is known, has the right type and is within its limits, or the call fails.

use canon::nearest::nearest;
use serde_json::{Map, Value};

use crate::error::{Code, SurfaceError};

/// The maximum nesting depth of arguments. Stored values must be readable by parsers that stop at 128 levels, inside
/// responses that add a few.
pub const MAX_DEPTH: usize = 64;
/// The maximum length of a quoted name, in bytes.
const SHOWN: usize = 80;

/// The arguments of one call.
#[derive(Debug)]
pub struct Args(Map<String, Value>);

impl Args {
    /// Takes the arguments.
    ///
    /// # Errors
    /// `invalid_argument`: an argument is unknown or nested too deeply.
    pub fn new(args: Map<String, Value>, known: &[&str]) -> Result<Self, SurfaceError> {
        for (name, value) in &args {
            if !known.contains(&name.as_str()) {
                let shown = shown(name);
                let near = nearest(&shown, known, 1);
                let advice = match near.first() {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => "it takes no arguments".to_owned(),
                    None => format!("the arguments are {}", known.join(", ")),
                };
                return Err(refuse(format!("unknown argument `{shown}`; {advice}")));
            }
            if !canon::json::within_depth(value, MAX_DEPTH) {
                return Err(refuse(format!("`{name}` is nested deeper than {MAX_DEPTH} levels")));
            }
        }
        Ok(Self(args))
    }

    /// An argument that is present and not null.
    pub fn optional(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    /// A required argument of any type, including null.
    ///
    /// # Errors
    /// `invalid_argument`: it is missing.
    pub fn value(&mut self, name: &str) -> Result<Value, SurfaceError> {
        self.0.remove(name).ok_or_else(|| refuse(format!("`{name}` is required")))
    }

    /// A required argument with several names, including null.
    ///
    /// # Errors
    /// `invalid_argument`: it is missing, or given under more than one name.
    pub fn one_of(&mut self, names: &[&str]) -> Result<Value, SurfaceError> {
        let mut found = None;
        for name in names {
            match (self.0.remove(*name), found.is_some()) {
                (Some(_), true) => {
                    return Err(refuse(format!("{} are synonyms; use only one", names.join(" and "))));
                }
                (Some(value), false) => found = Some(value),
                (None, _) => {}
            }
        }
        found.ok_or_else(|| refuse(format!("`{}` is required", names.first().copied().unwrap_or_default())))
    }

    /// A required string.
    ///
    /// # Errors
    /// `invalid_argument`: it is missing or not a string.
    pub fn text(&mut self, name: &str) -> Result<String, SurfaceError> {
        match self.0.remove(name) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(refuse(format!("`{name}` must be a string"))),
            None => Err(refuse(format!("`{name}` is required and must be a string"))),
        }
    }

    /// An optional string.
    ///
    /// # Errors
    /// `invalid_argument`: it is not a string.
    pub fn optional_text(&mut self, name: &str) -> Result<Option<String>, SurfaceError> {
        match self.optional(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(refuse(format!("`{name}` must be a string"))),
        }
    }

    /// An optional integer with limits.
    ///
    /// # Errors
    /// `invalid_argument`: it is not an integer or not within the limits.
    pub fn optional_count(&mut self, name: &str, least: u64, most: u64) -> Result<Option<u64>, SurfaceError> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        match value.as_u64() {
            Some(count) if (least..=most).contains(&count) => Ok(Some(count)),
            _ => Err(refuse(format!("`{name}` must be an integer from {least} to {most}"))),
        }
    }

    /// An optional signed integer.
    ///
    /// # Errors
    /// `invalid_argument`: it is not a 64-bit integer.
    pub fn optional_integer(&mut self, name: &str) -> Result<Option<i64>, SurfaceError> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        match value.as_i64() {
            Some(integer) => Ok(Some(integer)),
            None => Err(refuse(format!("`{name}` must be a 64-bit integer"))),
        }
    }

    /// A boolean; false by default.
    ///
    /// # Errors
    /// `invalid_argument`: it is not a boolean.
    pub fn flag(&mut self, name: &str) -> Result<bool, SurfaceError> {
        Ok(self.optional_flag(name)?.unwrap_or(false))
    }

    /// An optional boolean.
    ///
    /// # Errors
    /// `invalid_argument`: it is not a boolean.
    pub fn optional_flag(&mut self, name: &str) -> Result<Option<bool>, SurfaceError> {
        match self.optional(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(refuse(format!("`{name}` must be true or false"))),
        }
    }

    /// A required object.
    ///
    /// # Errors
    /// `invalid_argument`: it is missing or not an object.
    pub fn object(&mut self, name: &str) -> Result<Map<String, Value>, SurfaceError> {
        match self.0.remove(name) {
            Some(Value::Object(object)) => Ok(object),
            _ => Err(refuse(format!("`{name}` is required and must be an object"))),
        }
    }

    /// An optional time to live in seconds, returned in milliseconds. Fractions are allowed.
    ///
    /// # Errors
    /// `invalid_argument`: it is not a positive number; `beyond`: it is longer than `most` seconds.
    pub fn lifetime_ms(&mut self, name: &str, most: u64, beyond: Code) -> Result<Option<u64>, SurfaceError> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        let seconds = value.as_f64().filter(|seconds| *seconds > 0.0);
        let Some(seconds) = seconds else {
            return Err(refuse(format!("`{name}` must be a positive number of seconds")));
        };
        #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^53")]
        if seconds > most as f64 {
            return Err(SurfaceError::new(beyond, format!("`{name}` must be at most {most}")));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and limited just above"
        )]
        Ok(Some((seconds * 1000.0).ceil() as u64))
    }
}

/// An `invalid_argument` error.
pub fn refuse(message: impl Into<String>) -> SurfaceError {
    SurfaceError::new(Code::InvalidArgument, message)
}

/// Shortens a name for an error message.
pub fn shown(name: &str) -> String {
    name.chars()
        .filter(|c| !c.is_control())
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= SHOWN).then_some(c)
        })
        .collect()
}

/// Validates a name that becomes part of a key: not empty, not too long, no NUL.
///
/// # Errors
/// `invalid_argument`; `beyond` if it is too long.
pub fn check_name(what: &str, name: &str, most: usize, beyond: Code) -> Result<(), SurfaceError> {
    if name.is_empty() {
        return Err(refuse(format!("`{what}` must not be empty")));
    }
    if name.len() > most {
        return Err(SurfaceError::new(
            beyond,
            format!("`{what}` is {} bytes; the limit is {most}", name.len()),
        ));
    }
    if name.contains('\0') {
        return Err(refuse(format!("`{what}` must not contain NUL")));
    }
    Ok(())
}
