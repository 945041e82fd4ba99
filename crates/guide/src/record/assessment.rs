//! What was checked of an output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of checking an output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ValidationResult {
    /// Whether it passed.
    pub valid: bool,
    /// Each thing that is wrong.
    pub issues: Vec<String>,
    /// What to do about it.
    pub suggestions: Vec<String>,
}

/// A level of one dimension of an assessment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssessedDimension {
    /// Which dimension.
    pub dimension_id: String,
    /// The level, as the workflow spells it.
    pub level: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// Whether the caller spelled it otherwise.
    pub normalization: Normalization,
}

/// Whether a level had to be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Normalization {
    /// As the workflow spells it.
    Exact,
    /// Case or spacing was corrected.
    Normalized,
}
