//! The authoring format: JSON, or YAML for people. Unknown members are refused everywhere.
//!
//! [`parse`] reads a file to its end and gives every [`Problem`] at once. A [`Source`] that came out of it is
//! well formed in itself; whether what it refers to exists is for the [compiler](super::compile) to say.
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
//!     "steps[0].titel: there is no member `titel` here [UNKNOWN_MEMBER] Did you mean `title`?",
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

/// The longest file, in bytes.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;
/// The deepest nesting of a file: room for eight loops with the deepest condition in the innermost.
pub const MAX_SOURCE_DEPTH: usize = 100;
/// The deepest nesting of a YAML file. Its reader recurses, with frames of some 25 KiB in an unoptimised
/// build: this depth takes half of the stack that a thread has. Deeper workflows are written in JSON.
pub const MAX_YAML_DEPTH: usize = 40;
/// How deep loops may stand within one another.
pub const MAX_LOOP_DEPTH: usize = 8;
/// How many steps and loops there may be, those of templates included.
pub const MAX_STEPS: usize = 4096;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// RFC 8259, read strictly.
    Json,
    /// YAML 1.2, within bounds, to the same values.
    Yaml,
}

impl Format {
    /// The format of a file by the end of its name.
    pub fn of_name(name: &str) -> Option<Self> {
        let extension = name.rsplit_once('.')?.1;
        match extension.to_ascii_lowercase().as_str() {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// Whether a file of this name is a script of `interlock workflow test` and not a workflow: `release.test.yaml`.
pub fn is_script_name(name: &str) -> bool {
    let stem = name.rsplit_once('.').map_or("", |(stem, _)| stem);
    Format::of_name(name).is_some() && stem.len() > ".test".len() && stem.ends_with(".test")
}

/// Reads a workflow file that is not one of the program's own.
///
/// # Errors
/// Every problem of the file, in the order of their paths.
pub fn parse(bytes: &[u8], format: Format) -> Result<Source, Vec<Problem>> {
    parse_from(bytes, format, SourceOrigin::User)
}

/// Reads a workflow file that was found at `origin`, which decides whether its id may be in `wr.`.
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

/// The value that a file holds, whatever it means.
///
/// # Errors
/// The file is too large, or neither JSON nor YAML.
pub fn read_value(bytes: &[u8], format: Format) -> Result<Value, Problem> {
    if bytes.len() > MAX_SOURCE_BYTES {
        return Err(Problem::new(
            "",
            ProblemCode::TooLarge,
            format!("the file has {} bytes, and at most {MAX_SOURCE_BYTES} are read", bytes.len()),
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
                let fix = "Correct the JSON there.";
                Problem::new("", ProblemCode::Unreadable, error.to_string(), fix)
            })?
        }
        Format::Yaml => yaml::read(bytes)?,
    };
    match inexact_number(&value) {
        Some((path, number)) => Err(Problem::new(
            path,
            ProblemCode::NumberOutOfRange,
            format!("{number} is beyond ±2^53, where numbers are no longer exact"),
            "Write it as a text.",
        )),
        None => Ok(value),
    }
}

/// The value that a file holds, and the order in which its author wrote what is read in order.
///
/// # Errors
/// As [`read_value`].
pub(crate) fn read_ordered(bytes: &[u8], format: Format) -> Result<(Value, Order), Problem> {
    let value = read_value(bytes, format)?;
    let order = match format {
        Format::Json => Order::of_json(bytes),
        Format::Yaml => yaml::order(bytes),
    };
    Ok((value, order))
}

/// Reads as much as there is to read, and says what is wrong with it.
///
/// What is broken is replaced by something harmless, for the sake of further checks: only
/// a source without problems is one.
pub(crate) fn read(value: &Value, order: Order, origin: SourceOrigin) -> (Source, Vec<Problem>) {
    let mut reader = Reader { order, ..Reader::default() };
    let source = workflow::read(&mut reader, value, origin);
    (source, reader.problems)
}

/// The first integer that the canonical form could not tell from its neighbours.
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
    fn the_name_of_a_file_says_its_format() {
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
