//! YAML, as far as it says what JSON can say.
//!
//! Keys are texts and stand once, there is one document, and aliases are replayed within a budget: a file
//! of a few lines must not become a gigabyte. Only `true` and `false` are booleans, so that a
//! level called `no` stays a text.

use serde_json::Value;

use super::{MAX_SOURCE_BYTES, MAX_YAML_DEPTH};
use crate::workflow::problem::{Problem, ProblemCode};

/// How many values a file may hold, those that aliases repeat included. A file of the greatest size holds
/// fewer when it is written out.
const MAX_NODES: usize = 100_000;

pub(super) fn read(bytes: &[u8]) -> Result<Value, Problem> {
    let refuse = |message: String, fix: &str| Problem::new("", ProblemCode::Unreadable, message, fix);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        refuse(format!("byte {} is not UTF-8", error.valid_up_to()), "Save the file as UTF-8.")
    })?;
    let mut alias_limits = serde_saphyr::options::AliasLimits::default();
    alias_limits.max_total_replayed_events = MAX_NODES;
    alias_limits.max_replay_stack_depth = 16;
    alias_limits.max_alias_expansions_per_anchor = 1000;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(MAX_SOURCE_BYTES),
            max_depth: MAX_YAML_DEPTH,
            flow_nesting_limit: MAX_YAML_DEPTH,
            max_events: 2 * MAX_NODES,
            max_nodes: MAX_NODES,
            max_aliases: 1000,
            max_anchors: 1000,
            max_documents: 1,
            max_merge_keys: 100,
            max_total_scalar_bytes: 4 * MAX_SOURCE_BYTES,
        },
        alias_limits: alias_limits,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        strict_booleans: true,
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let reason = error.without_snippet().to_string();
        let reason = canon::budget::truncate(reason.lines().next().unwrap_or_default(), 300).into_owned();
        refuse(reason, "Correct the YAML there.")
    })?;
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
