//! The results of validating an output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of validating an output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ValidationResult {
    /// Whether it passed.
    pub valid: bool,
    /// One entry for each violation.
    pub issues: Vec<String>,
    /// How to fix the issues.
    pub suggestions: Vec<String>,
}

/// The level of one dimension of an assessment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssessedDimension {
    /// The dimension.
    pub dimension_id: String,
    /// The level, in the workflow's spelling.
    pub level: String,
    /// The reason for the level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// Whether the caller's spelling was normalized.
    pub normalization: Normalization,
}

/// Whether the spelling of a level was normalized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Normalization {
    /// The caller used the workflow's spelling.
    Exact,
    /// Case or spacing was normalized.
    Normalized,
}
