//! Workflow files in YAML, within bounds.

use canon::yaml::{self, Booleans, Limits, Tags};
use serde_json::Value;

use super::order::{Order, Shape};
use super::{MAX_SOURCE_BYTES, MAX_YAML_DEPTH};
use crate::workflow::problem::{Problem, ProblemCode};

const LIMITS: Limits = Limits {
    max_bytes: MAX_SOURCE_BYTES,
    max_depth: MAX_YAML_DEPTH,
    // A file of the greatest size holds fewer when it is written out.
    max_nodes: 100_000,
    max_aliases: 1000,
    tags: Tags::Ignored,
    // A level called `no` stays a text.
    booleans: Booleans::TrueFalse,
};

/// The order of the members of a file that was read before, and so is bounded.
pub(super) fn order(bytes: &[u8]) -> Order {
    let shape = std::str::from_utf8(bytes).ok().and_then(|text| yaml::read::<Shape>(text, &LIMITS).ok());
    shape.map_or_else(Order::default, |shape| Order::of(&shape))
}

pub(super) fn read(bytes: &[u8]) -> Result<Value, Problem> {
    let refuse = |message: String, fix: &str| Problem::new("", ProblemCode::Unreadable, message, fix);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        refuse(format!("byte {} is not UTF-8", error.valid_up_to()), "Save the file as UTF-8.")
    })?;
    let value: Value =
        yaml::read(text, &LIMITS).map_err(|error| refuse(error.to_string(), "Correct the YAML there."))?;
    if !canon::json::within_depth(&value, MAX_YAML_DEPTH) {
        let message = format!("the file is nested deeper than {MAX_YAML_DEPTH} levels");
        return Err(refuse(message, "Flatten it."));
    }
    // Aliases repeat text as well as values: the file that this would be as JSON has the same bound.
    let written = canon::canonical::string_of(&value).len();
    if written > MAX_SOURCE_BYTES {
        return Err(Problem::new(
            "",
            ProblemCode::TooLarge,
            format!("written out, the file has {written} bytes, and at most {MAX_SOURCE_BYTES} are read"),
            "Repeat less with aliases.",
        ));
    }
    Ok(value)
}
