//! The ledger of an effect: one entry for each of its parts that costs something.

use std::pin::Pin;

use ports::runs::Bytes;

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

/// The result of a ledger operation.
pub type Entry<'a, T> = Pin<Box<dyn Future<Output = Result<T, Unwritable>> + Send + 'a>>;

/// Whether the result of an effect is still needed.
pub type Wanted<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Records the parts of an effect. An operation is durable when it returns.
pub trait Ledger: Send + Sync {
    /// Claims a part of the effect, by its id.
    fn claim<'a>(&'a self, id: &'a str) -> Entry<'a, Claim>;

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
