//! The input of a composition.

use canon::json::{self, Limits, ReadError};
use serde_json::Value;

use crate::declare::Workspace;

/// Anything that asks to be composed.
///
/// The kernel judges the *content* of an input, whatever it is; this type only proves that
/// its nesting is bounded, so that no step can be made to overflow the stack.
///
/// Build one [from typed declarations](Input::declare), [from bytes](Input::read) or
/// [from a JSON value](Input::from_value).
#[derive(Clone, Debug, PartialEq)]
pub struct Input(Value);

/// The value nests deeper than [`json::MAX_DEPTH`] levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooDeep;

impl std::fmt::Display for TooDeep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the value nests deeper than {} levels", json::MAX_DEPTH)
    }
}

impl std::error::Error for TooDeep {}

impl Input {
    /// Reads strict JSON: no duplicate keys, no lone surrogates, bounded size and depth.
    ///
    /// # Errors
    /// Whatever is no JSON, with its position.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        json::read(bytes, &Limits::default()).map(Self)
    }

    /// Takes a value that is already in memory.
    ///
    /// # Errors
    /// [`TooDeep`], which no value that came out of [`Input::read`] is.
    pub fn from_value(value: Value) -> Result<Self, TooDeep> {
        if json::within_depth(&value, json::MAX_DEPTH) { Ok(Self(value)) } else { Err(TooDeep) }
    }

    /// Takes what was declared in code.
    ///
    /// # Errors
    /// [`TooDeep`], when `metadata` or `data` was given such a value.
    pub fn declare(workspace: &Workspace) -> Result<Self, TooDeep> {
        let value = serde_json::to_value(workspace).expect("declarations are strings, lists and JSON values");
        Self::from_value(value)
    }

    /// The JSON that will be judged.
    pub const fn as_value(&self) -> &Value {
        &self.0
    }
}
