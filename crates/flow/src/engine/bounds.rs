//! How large a value may be that a node is given, gives, or is answered with.
//!
//! A node can put what another gave inside of what it gives itself. In a loop that is a value that doubles with every round, and one
//! that is nested deeper with every round than the reader of the log goes. Both end at the node that would pass them on.

use canon::json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Refusal, Reported};
use crate::failure::FailureCode;
use crate::state::RunError;

/// The deepest value. The log is read to 128 levels, and an event puts a handful around its values.
pub const MAX_VALUE_DEPTH: usize = 96;
/// The most bytes that the texts and numbers of one value take, about. A run folds to one state in memory, and a thousand such
/// values still fit there.
pub const MAX_VALUE_BYTES: usize = 4 << 20;

/// How many tokens of its reasons an agent tells where the caller wants a summary.
pub const MAX_REASONING_TOKENS: usize = 512;
/// The same in bytes, four for a token.
pub const MAX_REASONING_BYTES: usize = 4 * MAX_REASONING_TOKENS;

/// How often one run may be told something that decides nothing: a vote of several, a turn of a conversation, a question
/// back, a pause. Whoever talks on without end would make a log that takes longer to fold with every word.
pub const MAX_ROUNDS: u64 = 10_000;
/// How many bytes that may be, about: a conversation is in the snapshot, which is written anew with every turn.
pub const MAX_ROUND_BYTES: u64 = 16 << 20;

/// What a run was told that decided nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rounds {
    /// How often.
    pub count: u64,
    /// How many bytes, about.
    pub bytes: u64,
}

impl Rounds {
    /// One more, with what was said.
    pub(crate) fn add(&mut self, payload: &Map<String, Value>) {
        let said = payload.values().map(size).sum::<u64>();
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(said);
    }

    /// Whether there may be another.
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
                "the run takes at most {limit} {what} that decide nothing; give one that decides, or cancel the run"
            ),
            details: serde_json::json!({"limit": limit, "observed": observed}),
            semantic: true,
        })
    }
}

/// How many bytes a value takes, about, up to the largest that there may be.
fn size(value: &Value) -> u64 {
    let taken = MAX_VALUE_BYTES - rest(value, MAX_VALUE_BYTES).unwrap_or(0);
    u64::try_from(taken).unwrap_or(u64::MAX)
}

/// How much may happen while the host does the work of one node. A model's answer comes in pieces; the host puts small ones together.
pub const MAX_TOLD: usize = 2000;

/// Checks what happened while the host worked.
pub(super) fn check_told(told: &[Reported]) -> Result<(), RunError> {
    if told.len() > MAX_TOLD {
        let message = format!("the work of a node may tell {MAX_TOLD} things, and not {}", told.len());
        return Err(RunError::of(FailureCode::ValidationError, message));
    }
    told.iter().try_for_each(|told| check("what happened in an effect", &told.payload()))
}

/// The first of what happened, as far as it is within the bounds and decides nothing.
pub(super) fn told_within(told: Vec<Reported>) -> Vec<Reported> {
    let fits = |told: &Reported| check("", &told.payload()).is_ok() && !told.decides();
    told.into_iter().take(MAX_TOLD).take_while(fits).collect()
}

/// Checks what a node is given or gives.
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

/// Checks what came from outside.
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
    // The depth comes first: what is shallow can be walked through by recursion.
    if !json::within_depth(value, MAX_VALUE_DEPTH) {
        return Some(format!("is nested more than {MAX_VALUE_DEPTH} levels deep; pass on a part of it"));
    }
    rest(value, MAX_VALUE_BYTES).is_none().then(too_large)
}

fn too_large() -> String {
    format!("has more than {MAX_VALUE_BYTES} bytes; pass on a reference instead")
}

/// What is left of a number of bytes after a value; nothing where it does not fit.
fn rest(value: &Value, left: usize) -> Option<usize> {
    // What stands around a value on the wire, so that a list of nothing is not free.
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
