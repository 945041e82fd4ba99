//! The input of a composition.

use canon::json::{self, Limits, ReadError};
use serde_json::Value;

use crate::declare::Workspace;

/// Any JSON to be composed.
///
/// The kernel validates the *content*; this type only guarantees limited nesting, so no step can overflow the stack.
///
/// Create one [from typed declarations](Input::declare), [from bytes](Input::read) or [from a JSON
/// value](Input::from_value).
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
    /// Reads strict JSON: no duplicate keys, no lone surrogates, limited size and depth.
    ///
    /// # Errors
    /// Invalid JSON, with its position.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        json::read(bytes, &Limits::default()).map(Self)
    }

    /// Takes a JSON value.
    ///
    /// # Errors
    /// [`TooDeep`], which values from [`Input::read`] never are.
    pub fn from_value(value: Value) -> Result<Self, TooDeep> {
        if json::within_depth(&value, json::MAX_DEPTH) { Ok(Self(value)) } else { Err(TooDeep) }
    }

    /// Takes typed declarations.
    ///
    /// # Errors
    /// [`TooDeep`], if `metadata` or `data` is nested too deeply.
    pub fn declare(workspace: &Workspace) -> Result<Self, TooDeep> {
        let value = serde_json::to_value(workspace).expect("declarations are strings, lists and JSON values");
        Self::from_value(value)
    }

    pub const fn as_value(&self) -> &Value {
        &self.0
    }
}
