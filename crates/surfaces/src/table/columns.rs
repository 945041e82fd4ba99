//! Column types.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MAX_NAME_BYTES, Row};
use crate::args::{check_name, shown};
use crate::error::{Code, SurfaceError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    String,
    Number,
    Boolean,
    /// Objects and lists.
    Json,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::String, Self::Number, Self::Boolean, Self::Json];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Json => "json",
        }
    }

    /// Parses a type name.
    pub fn parse(name: &str) -> Option<Self> {
        // A synonym in other systems.
        let name = if name == "object" { "json" } else { name };
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The type of a value; null has none.
    pub const fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::Bool(_) => Some(Self::Boolean),
            Value::Number(_) => Some(Self::Number),
            Value::String(_) => Some(Self::String),
            Value::Array(_) | Value::Object(_) => Some(Self::Json),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Columns(BTreeMap<String, Kind>);

impl Columns {
    /// The type of a column, if fixed.
    pub(super) fn kind(&self, name: &str) -> Option<Kind> {
        self.0.get(name).copied()
    }

    /// Checks a row against the column types and adds new columns. Returns whether any were added.
    pub(super) fn admit(&mut self, row: &Row, most: usize) -> Result<bool, SurfaceError> {
        let before = self.0.len();
        for (name, value) in row {
            check_name("column", name, MAX_NAME_BYTES, Code::TableSchemaViolation)?;
            if let Some(kind) = Kind::of(value) {
                self.fix(name, kind, most)?;
            }
        }
        // Null values fix no column, but the number of members is limited all the same.
        if row.len() > most {
            return Err(too_many(most));
        }
        Ok(self.0.len() > before)
    }

    /// Fixes the type of a column.
    pub(super) fn fix(&mut self, name: &str, kind: Kind, most: usize) -> Result<(), SurfaceError> {
        match self.0.get(name) {
            Some(fixed) if *fixed == kind => Ok(()),
            Some(fixed) => {
                let (fixed, kind, name) = (fixed.as_str(), kind.as_str(), shown(name));
                let message = format!("the column `{name}` has type {fixed}; the value has type {kind}");
                Err(SurfaceError::new(Code::TableSchemaViolation, message))
            }
            None if self.0.len() >= most => Err(too_many(most)),
            None => {
                self.0.insert(name.to_owned(), kind);
                Ok(())
            }
        }
    }
}

fn too_many(most: usize) -> SurfaceError {
    SurfaceError::new(Code::TableSchemaViolation, format!("a table can have at most {most} columns"))
}
