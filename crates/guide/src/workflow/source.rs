//! The authoring format: JSON or YAML. Unknown fields are rejected everywhere.
//!
//! [`parse`] reads a file to its end and returns every [`Problem`] at once. A [`Source`] that it returns is
//! valid in itself; the [compiler](super::compile) checks whether everything that it refers to exists.
//!
//! ```
//! use guide::workflow::source::{self, Format};
//!
//! let text = br#"{"id": "project.triage", "name": "Triage", "description": "Classify a report.",
//!     "version": "1.0.0", "steps": [{"id": "read", "titel": "Read", "prompt": "Read {{goal}}."}]}"#;
//! let problems = source::parse(text, Format::Json).unwrap_err();
//! assert_eq!(problems.len(), 1);
//! assert_eq!(
//!     problems[0].to_string(),
//!     "steps[0].titel: unknown field `titel` [UNKNOWN_MEMBER] Did you mean `title`?",
//! );
//! ```

mod blocks;
mod context_keys;
mod definitions;
mod loops;
mod model;
mod names;
mod order;
mod reader;
mod steps;
mod workflow;
mod yaml;

use canon::json::{self, Limits, Numbers};
use serde_json::Value;

pub(crate) use self::order::Order;
use self::reader::Reader;
use super::{
    ids::SourceOrigin,
    problem::{Problem, ProblemCode, item, member, report},
};

pub use model::{
    AcceptedKind, Audit, BlockPart, BlockText, Body, ConditionDefinition, ConditionSource, ConditionTest,
    ExtensionPoint, FunctionCall, FunctionDefinition, Instruction, JumpIf, LoopSpec, LoopStep, LoopTag,
    LoopType, MetricsProfile, ParallelStep, ParallelTag, Parameter, ParameterType, PromptBlocks,
    RecommendedPreferences, ScopeName, Source, SourceStep, StandardStep, Synthesis, TemplateCall,
    Verification,
};

/// The maximum size of a file, in bytes.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;
/// The maximum nesting depth of a file: enough for eight loops with the deepest condition in the innermost.
pub const MAX_SOURCE_DEPTH: usize = 100;
/// The maximum nesting depth of a YAML file. Its reader is recursive, with stack frames of about 25 KiB in an
/// unoptimized build: this depth takes half of a thread's stack. Deeper workflows must be written in JSON.
pub const MAX_YAML_DEPTH: usize = 40;
/// The maximum nesting depth of loops.
pub const MAX_LOOP_DEPTH: usize = 8;
/// The maximum number of steps and loops, including those of templates.
pub const MAX_STEPS: usize = 4096;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// RFC 8259, read strictly.
    Json,
    /// YAML 1.2, with limits, read to the same values.
    Yaml,
}

impl Format {
    /// The format of a file, by its extension.
    pub fn of_name(name: &str) -> Option<Self> {
        let extension = name.rsplit_once('.')?.1;
        match extension.to_ascii_lowercase().as_str() {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// Whether the file name is that of a script for `interlock workflow test` instead of a workflow:
/// `release.test.yaml`.
pub fn is_script_name(name: &str) -> bool {
    let stem = name.rsplit_once('.').map_or("", |(stem, _)| stem);
    Format::of_name(name).is_some() && stem.len() > ".test".len() && stem.ends_with(".test")
}

/// Reads a workflow file that is not bundled.
///
/// # Errors
/// Every problem of the file, in the order of their paths.
pub fn parse(bytes: &[u8], format: Format) -> Result<Source, Vec<Problem>> {
    parse_from(bytes, format, SourceOrigin::User)
}

/// Reads a workflow file that was found at `origin`, which determines whether its id may be in `wr.`.
///
/// # Errors
/// Every problem of the file, in the order of their paths.
pub fn parse_from(bytes: &[u8], format: Format, origin: SourceOrigin) -> Result<Source, Vec<Problem>> {
    let (value, order) = read_ordered(bytes, format).map_err(|problem| vec![problem])?;
    match read(&value, order, origin) {
        (source, problems) if problems.is_empty() => Ok(source),
        (_, problems) => Err(report(problems)),
    }
}

/// The value in a file, without interpretation.
///
/// # Errors
/// The file is too large, or neither JSON nor YAML.
pub fn read_value(bytes: &[u8], format: Format) -> Result<Value, Problem> {
    if bytes.len() > MAX_SOURCE_BYTES {
        return Err(Problem::new(
            "",
            ProblemCode::TooLarge,
            format!("the file has {} bytes; the limit is {MAX_SOURCE_BYTES}", bytes.len()),
            "Split the workflow, or move shared text into references.",
        ));
    }
    let value = match format {
        Format::Json => {
            let limits = Limits::default()
                .max_bytes(MAX_SOURCE_BYTES)
                .max_depth(MAX_SOURCE_DEPTH)
                .numbers(Numbers::Exact);
            json::read(bytes, &limits).map_err(|error| {
                let fix = "Fix the JSON at this position.";
                Problem::new("", ProblemCode::Unreadable, error.to_string(), fix)
            })?
        }
        Format::Yaml => yaml::read(bytes)?,
    };
    match inexact_number(&value) {
        Some((path, number)) => Err(Problem::new(
            path,
            ProblemCode::NumberOutOfRange,
            format!("{number} is outside of ±2^53 and cannot be represented exactly"),
            "Write it as a string.",
        )),
        None => Ok(value),
    }
}

/// The value in a file, and the author's order of ordered fields.
///
/// # Errors
/// The errors of [`read_value`].
pub(crate) fn read_ordered(bytes: &[u8], format: Format) -> Result<(Value, Order), Problem> {
    let value = read_value(bytes, format)?;
    let order = match format {
        Format::Json => Order::of_json(bytes),
        Format::Yaml => yaml::order(bytes),
    };
    Ok((value, order))
}

/// Reads as much as possible, and collects all problems.
///
/// Invalid parts are replaced by harmless values, so that the rest can be checked. Use the source only if
/// there are no problems.
pub(crate) fn read(value: &Value, order: Order, origin: SourceOrigin) -> (Source, Vec<Problem>) {
    let mut reader = Reader { order, ..Reader::default() };
    let source = workflow::read(&mut reader, value, origin);
    (source, reader.problems)
}

/// The first integer that the canonical form cannot represent exactly.
fn inexact_number(value: &Value) -> Option<(String, String)> {
    let mut waiting = vec![(value, String::new())];
    while let Some((next, path)) = waiting.pop() {
        match next {
            Value::Number(number) => {
                let most = canon::canonical::MAX_EXACT_INTEGER;
                let exact = number.as_u64().is_none_or(|number| number <= most)
                    && number.as_i64().is_none_or(|number| number.unsigned_abs() <= most);
                if !exact {
                    return Some((path, number.to_string()));
                }
            }
            Value::Array(items) => {
                let scalar = |value: &Value| matches!(value, Value::String(_) | Value::Bool(_) | Value::Null);
                let below = items.iter().enumerate().filter(|(_, value)| !scalar(value));
                waiting.extend(below.map(|(index, value)| (value, item(&path, index))));
            }
            Value::Object(members) => {
                waiting.extend(members.iter().map(|(key, value)| (value, member(&path, key))));
            }
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_has_a_schema_for_editors() {
        let schema = serde_json::to_value(schemars::schema_for!(Source)).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        assert!(schema["$defs"]["LoopSpec"]["properties"]["maxIterations"].is_object());
    }

    #[test]
    fn the_format_follows_from_the_file_name() {
        for (name, expected) in [
            ("a.json", Some(Format::Json)),
            ("a.v2.YAML", Some(Format::Yaml)),
            ("a.yml", Some(Format::Yaml)),
            ("a.toml", None),
            ("json", None),
        ] {
            assert_eq!(Format::of_name(name), expected, "{name}");
        }
    }
}
