//! Workflow files in YAML, with limits.

use canon::yaml::{self, Booleans, Limits, Tags};
use serde_json::Value;

use super::order::{Order, Shape};
use super::{MAX_SOURCE_BYTES, MAX_YAML_DEPTH};
use crate::workflow::problem::{Problem, ProblemCode};

const LIMITS: Limits = Limits {
    max_bytes: MAX_SOURCE_BYTES,
    max_depth: MAX_YAML_DEPTH,
    // A file of the maximum size has fewer values when its aliases are expanded.
    max_nodes: 100_000,
    max_aliases: 1000,
    tags: Tags::Ignored,
    // A level called `no` must stay a string.
    booleans: Booleans::TrueFalse,
};

/// The field order of a file that was already read, and so is within the limits.
pub(super) fn order(bytes: &[u8]) -> Order {
    let shape = std::str::from_utf8(bytes).ok().and_then(|text| yaml::read::<Shape>(text, &LIMITS).ok());
    shape.map_or_else(Order::default, |shape| Order::of(&shape))
}

pub(super) fn read(bytes: &[u8]) -> Result<Value, Problem> {
    let refuse = |message: String, fix: &str| Problem::new("", ProblemCode::Unreadable, message, fix);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        refuse(format!("byte {} is not UTF-8", error.valid_up_to()), "Save the file as UTF-8.")
    })?;
    let value: Value = yaml::read(text, &LIMITS)
        .map_err(|error| refuse(error.to_string(), "Fix the YAML at this position."))?;
    if !canon::json::within_depth(&value, MAX_YAML_DEPTH) {
        let message = format!("the file is nested deeper than {MAX_YAML_DEPTH} levels");
        return Err(refuse(message, "Flatten it."));
    }
    // Aliases repeat strings as well as values: the expanded file has the same limit.
    let written = canon::canonical::string_of(&value).len();
    if written > MAX_SOURCE_BYTES {
        return Err(Problem::new(
            "",
            ProblemCode::TooLarge,
            format!(
                "with its aliases expanded, the file has {written} bytes; the limit is {MAX_SOURCE_BYTES}"
            ),
            "Use fewer aliases.",
        ));
    }
    Ok(value)
}
