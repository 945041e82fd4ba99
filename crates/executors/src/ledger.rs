//! The ledger of an effect: one entry for each of its parts that costs something.

use std::pin::Pin;

use flow::failure::FailureCode;
use flow::state::RunError;
use ports::runs::Bytes;

use super::reach::Reach;

/// The state of a part of an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It was not claimed before. It is claimed now and may be executed.
    New,
    /// It was executed, with this result.
    Done(Bytes),
    /// It was claimed, but no result was recorded.
    Unknown,
}

/// The ledger cannot be read or written now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store cannot record the effect now")]
pub struct Unwritable;

impl Unwritable {
    /// The error of a node whose effect could not be recorded, and was therefore not executed.
    pub(crate) fn into_failure(self) -> RunError {
        RunError::of(FailureCode::NodeFailed, format!("the effect was not executed: {self}"))
    }
}

/// The result of a ledger operation.
pub type Entry<'a, T> = Pin<Box<dyn Future<Output = Result<T, Unwritable>> + Send + 'a>>;

/// Whether the result of an effect is still needed.
pub type Wanted<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Records the parts of an effect. An operation is durable when it returns.
pub trait Ledger: Send + Sync {
    /// Claims a part of the effect, by its id.
    fn claim<'a>(&'a self, id: &'a str, reach: Reach<'a>) -> Entry<'a, Claim>;

    /// Claims the next attempt of the effect or a part of it, which was claimed before and has no result.
    fn retry<'a>(&'a self, id: &'a str) -> Entry<'a, ()>;

    /// Records that the last attempt of a part is known to have had no effect.
    fn release<'a>(&'a self, id: &'a str) -> Entry<'a, ()>;

    /// Whether the result is still needed. An effect of several parts checks it before each of them, and stops if it is not
    /// needed any more.
    fn is_wanted(&self) -> Wanted<'_> {
        Box::pin(async { true })
    }

    /// The value that was noted under an id, if there is one.
    fn recall<'a>(&'a self, id: &'a str) -> Entry<'a, Option<Bytes>>;

    /// Notes a value, unless one exists: then that one is returned.
    fn note<'a>(&'a self, id: &'a str, noted: Vec<u8>) -> Entry<'a, Option<Bytes>>;

    /// Records the result of a part.
    fn finish<'a>(&'a self, id: &'a str, outcome: Vec<u8>) -> Entry<'a, ()>;
}
