//! Schemas that authors write: of options, of channels, of answers.

use serde_json::Value;

/// A validator of a schema that an author wrote. Nothing is fetched, and patterns take linear time.
pub(crate) fn compiled(schema: &Value) -> Result<jsonschema::Validator, String> {
    jsonschema::draft202012::options()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(schema)
        .map_err(|error| format!("no JSON Schema of 2020-12: {error}"))
}
