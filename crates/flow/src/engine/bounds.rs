//! The maximum size of values: inputs and outputs of nodes, and answers.
//!
//! A node can nest the outputs of another node in its own. In a loop, such a value doubles in size with every iteration, or becomes more
//! deeply nested than the reader of the log allows. The limits stop it at the node that would pass it on.

use canon::json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Refusal, Reported};
use crate::failure::FailureCode;
use crate::state::RunError;

/// The maximum nesting of a value. The reader of the log allows 128 levels, and an event adds a few levels around its values.
pub const MAX_VALUE_DEPTH: usize = 96;
/// The approximate maximum size of a value, in bytes. The state of a run is kept in memory, where a thousand such values still fit.
pub const MAX_VALUE_BYTES: usize = 4 << 20;

/// The maximum number of tokens of an agent's reasoning, if the caller wants a summary.
pub const MAX_REASONING_TOKENS: usize = 512;
/// The same limit in bytes, at four bytes per token.
pub const MAX_REASONING_BYTES: usize = 4 * MAX_REASONING_TOKENS;

/// The maximum number of inputs of one run that do not advance it: votes, turns of a conversation, questions at a gate, pauses. Without a
/// limit, a talkative caller could grow the log indefinitely.
pub const MAX_ROUNDS: u64 = 10_000;
/// The approximate total size of these inputs, in bytes. Snapshots contain conversations, and a snapshot is written with every turn.
pub const MAX_ROUND_BYTES: u64 = 16 << 20;

/// The inputs of a run that did not advance it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rounds {
    /// Their number.
    pub count: u64,
    /// Their approximate total size.
    pub bytes: u64,
}

impl Rounds {
    /// Counts one more.
    pub(crate) fn add(&mut self, payload: &Map<String, Value>) {
        let said = payload.values().map(size).sum::<u64>();
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(said);
    }

    /// Checks that another one is allowed.
    pub(super) fn check(self, said: &Value) -> Result<(), Refusal> {
        let bytes = self.bytes.saturating_add(size(said));
        let (what, limit, observed) = if self.count >= MAX_ROUNDS {
            ("answers", MAX_ROUNDS, self.count)
        } else if bytes > MAX_ROUND_BYTES {
            ("bytes of answers", MAX_ROUND_BYTES, bytes)
        } else {
            return Ok(());
        };
        Err(Refusal::BadAnswer {
            message: format!(
                "the run has reached its limit of {limit} {what} that do not decide; answer with a decision, or cancel the run"
            ),
            details: serde_json::json!({"limit": limit, "observed": observed}),
            semantic: true,
        })
    }
}

/// The approximate size of a value in bytes, at most [`MAX_VALUE_BYTES`].
fn size(value: &Value) -> u64 {
    let taken = MAX_VALUE_BYTES - rest(value, MAX_VALUE_BYTES).unwrap_or(0);
    u64::try_from(taken).unwrap_or(u64::MAX)
}

/// The maximum number of reports during one effect. Model output arrives in chunks; the host combines small ones.
pub const MAX_REPORTS: usize = 2000;

/// Checks the reports of an effect.
pub(super) fn check_reports(reports: &[Reported]) -> Result<(), RunError> {
    if reports.len() > MAX_REPORTS {
        let message = format!("the node sent {} reports; the limit is {MAX_REPORTS}", reports.len());
        return Err(RunError::of(FailureCode::ValidationError, message));
    }
    reports.iter().try_for_each(|report| check("a report of the node", &report.payload()))
}

/// The first reports that are within the limits and do not change the run.
pub(super) fn valid_prefix(reports: Vec<Reported>) -> Vec<Reported> {
    let is_valid = |report: &Reported| check("", &report.payload()).is_ok() && !report.changes_run();
    reports.into_iter().take(MAX_REPORTS).take_while(is_valid).collect()
}

/// Checks the inputs or outputs of a node.
pub(super) fn check(what: &str, members: &Map<String, Value>) -> Result<(), RunError> {
    let problem = members.values().find_map(problem).or_else(|| {
        let whole = members
            .iter()
            .try_fold(MAX_VALUE_BYTES, |left, (name, value)| rest(value, left.checked_sub(name.len())?));
        whole.is_none().then(too_large)
    });
    match problem {
        None => Ok(()),
        Some(problem) => Err(RunError::of(FailureCode::ValidationError, format!("{what} {problem}"))),
    }
}

pub(crate) fn check_value(what: &str, value: &Value) -> Result<(), RunError> {
    match problem(value) {
        None => Ok(()),
        Some(problem) => Err(RunError::of(FailureCode::ValidationError, format!("{what} {problem}"))),
    }
}

/// Checks an answer from outside.
pub(super) fn check_answer(field: &str, value: &Value) -> Result<(), Refusal> {
    match problem(value) {
        None => Ok(()),
        Some(problem) => Err(Refusal::BadAnswer {
            message: format!("`{field}` {problem}"),
            details: serde_json::json!({"field": field}),
            semantic: false,
        }),
    }
}

fn problem(value: &Value) -> Option<String> {
    // Checked first, because the size is computed by recursion.
    if !json::within_depth(value, MAX_VALUE_DEPTH) {
        return Some(format!("is nested more than {MAX_VALUE_DEPTH} levels deep; pass a part of it instead"));
    }
    rest(value, MAX_VALUE_BYTES).is_none().then(too_large)
}

fn too_large() -> String {
    format!("has more than {MAX_VALUE_BYTES} bytes; pass a reference instead")
}

/// The remaining budget of `left` bytes after a value; `None` if the value exceeds it.
fn rest(value: &Value, left: usize) -> Option<usize> {
    // The punctuation around a value, so that an empty list is not free.
    let left = left.checked_sub(2)?;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => left.checked_sub(6),
        Value::String(text) => left.checked_sub(text.len()),
        Value::Array(items) => items.iter().try_fold(left, |left, item| rest(item, left)),
        Value::Object(members) => {
            members.iter().try_fold(left, |left, (name, value)| rest(value, left.checked_sub(name.len())?))
        }
    }
}
