//! YAML, as far as it says what JSON can say.
//!
//! One document, keys that are texts and appear once, and aliases replayed within a budget: a file of a few lines must not become
//! a gigabyte.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_saphyr::options::AliasLimits;
use serde_saphyr::{DuplicateKeyPolicy, Location};

use crate::budget::truncate;

/// The most bytes of an error's text, which may quote the file.
const REASON_BYTES: usize = 300;
/// How many aliases may lead through each other.
const ALIAS_DEPTH: usize = 16;

/// How much a file may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of the file. Its texts may have four times as many once aliases are replaced.
    pub max_bytes: usize,
    /// The most levels.
    pub max_depth: usize,
    /// The most values, those that aliases repeat included.
    pub max_nodes: usize,
    /// The most anchors, the most aliases, and the most aliases of one anchor. Keys that merge objects count as ten.
    pub max_aliases: usize,
    /// What becomes of tags that are not YAML's own.
    pub tags: Tags,
    /// Which words are booleans.
    pub booleans: Booleans,
}

/// What becomes of tags that are not YAML's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tags {
    /// The value behind the tag counts: files written by other tools have them.
    Ignored,
    /// The file is refused: where a file is the contract, nothing in it goes without effect.
    Refused,
}

/// Which words are booleans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Booleans {
    /// `true` and `false`, so that a value `no` stays a text.
    TrueFalse,
    /// The words of YAML 1.1 too, such as `yes` and `off`: for files that were always read like that.
    Yaml11,
}

/// Why a text could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlError {
    /// The line and the column, from 1, where they are known.
    pub position: Option<(u64, u64)>,
    /// What is wrong there.
    pub fault: Fault,
    shown: String,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A key appears twice in one object.
    DuplicateKey(String),
    /// Anything else, in a sentence without the position.
    Other(String),
}

/// In a sentence with the position.
impl fmt::Display for YamlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)
    }
}

impl std::error::Error for YamlError {}

/// Reads a text within the limits.
///
/// # Errors
/// When it is not YAML, breaks a limit or a rule above, or is not what `T` takes.
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
        let reason = format!("the text has {} bytes, and at most {max_bytes} are read", text.len());
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
