//! YAML restricted to JSON values.
//!
//! One document, unique string keys, and aliases expanded within a budget, so that a small file cannot become a
//! gigabyte.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_saphyr::options::AliasLimits;
use serde_saphyr::{DuplicateKeyPolicy, Location};

use crate::budget::truncate;

/// The maximum size of an error text, in bytes; it may quote the file.
const REASON_BYTES: usize = 300;
/// The maximum depth of nested aliases.
const ALIAS_DEPTH: usize = 16;

/// Limits of a file.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The size of the file, in bytes. Its strings may have four times as many after alias expansion.
    pub max_bytes: usize,
    /// The nesting depth.
    pub max_depth: usize,
    /// The number of values, including those repeated by aliases.
    pub max_nodes: usize,
    /// The number of anchors, of aliases, and of aliases per anchor. Merge keys count ten times.
    pub max_aliases: usize,
    /// How custom tags are handled.
    pub tags: Tags,
    /// Which words are booleans.
    pub booleans: Booleans,
}

/// How custom tags are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tags {
    /// The tag is ignored: files of other tools have them.
    Ignored,
    /// The file is rejected, because an ignored tag could hide a mistake.
    Refused,
}

/// Which words are booleans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Booleans {
    /// `true` and `false`, so that `no` stays a string.
    TrueFalse,
    /// Also the words of YAML 1.1, such as `yes` and `off`, for compatibility.
    Yaml11,
}

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlError {
    /// The one-based line and column, if known.
    pub position: Option<(u64, u64)>,
    pub fault: Fault,
    shown: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    DuplicateKey(String),
    /// Anything else, as a sentence without the position.
    Other(String),
}

/// A sentence with the position.
impl fmt::Display for YamlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)
    }
}

impl std::error::Error for YamlError {}

/// Reads a text within the limits.
///
/// # Errors
/// The text is not YAML, exceeds a limit, violates a rule above, or does not match `T`.
pub fn read<T: DeserializeOwned>(text: &str, limits: &Limits) -> Result<T, YamlError> {
    let Limits { max_bytes, max_depth, max_nodes, max_aliases, tags, booleans } = *limits;
    let mut alias_limits = AliasLimits::default();
    alias_limits.max_total_replayed_events = max_nodes;
    alias_limits.max_replay_stack_depth = ALIAS_DEPTH;
    alias_limits.max_alias_expansions_per_anchor = max_aliases;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(max_bytes),
            max_depth: max_depth,
            flow_nesting_limit: max_depth,
            max_events: max_nodes.saturating_mul(2),
            max_nodes: max_nodes,
            max_aliases: max_aliases,
            max_anchors: max_aliases,
            max_documents: 1,
            max_merge_keys: max_aliases / 10,
            max_total_scalar_bytes: max_bytes.saturating_mul(4),
        },
        alias_limits: alias_limits,
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: booleans == Booleans::TrueFalse,
        reject_unsupported_tags: tags == Tags::Refused,
    };
    if text.len() > max_bytes {
        let reason = format!("the text is {} bytes; the limit is {max_bytes}", text.len());
        return Err(YamlError { position: None, fault: Fault::Other(reason.clone()), shown: reason });
    }
    serde_saphyr::from_str_with_options(text, options).map_err(|error| refused(&error))
}

fn refused(error: &serde_saphyr::Error) -> YamlError {
    let position = error.location().filter(|location| *location != Location::UNKNOWN);
    let position = position.map(|location| (location.line(), location.column()));
    let error = error.without_snippet();
    let whole = error.to_string();
    let line = whole.lines().next().unwrap_or_default();
    let fault = match error {
        serde_saphyr::Error::DuplicateMappingKey { key, .. } => {
            Fault::DuplicateKey(key.as_deref().unwrap_or_default().to_owned())
        }
        _ => {
            let reason = line.rsplit_once(" at line ").map_or(line, |(reason, _)| reason);
            Fault::Other(truncate(reason, REASON_BYTES).into_owned())
        }
    };
    YamlError { position, fault, shown: truncate(line, REASON_BYTES).into_owned() }
}
