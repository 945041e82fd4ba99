//! What parts of the work of a node were done before: one entry for each call that costs something.

use std::pin::Pin;

use flow::store::Bytes;

/// What is known of a part of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nothing: it is claimed now, and may be done.
    New,
    /// It was done, and this came of it.
    Done(Bytes),
    /// It was claimed, and nothing was recorded.
    Unknown,
}

/// The book cannot be written or read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store cannot record what is done now")]
pub struct Unwritable;

/// An answer of the book.
pub type Entry<'a, T> = Pin<Box<dyn Future<Output = Result<T, Unwritable>> + Send + 'a>>;

/// Where it is written down what was done. Durable when it answers.
pub trait Ledger: Send + Sync {
    /// Claims a part of the work, by its identity.
    fn claim<'a>(&'a self, id: &'a str) -> Entry<'a, Claim>;

    /// Whether anybody still wants what is being done. Work of many parts asks before each of them; work that is not
    /// wanted any more is left where it is.
    fn is_wanted(&self) -> bool {
        true
    }

    /// What was written down under an identity, where something was.
    fn recall<'a>(&'a self, id: &'a str) -> Entry<'a, Option<Bytes>>;

    /// Writes something down, unless something is there: that is given back.
    fn note<'a>(&'a self, id: &'a str, noted: Vec<u8>) -> Entry<'a, Option<Bytes>>;

    /// Records what came of it.
    fn finish<'a>(&'a self, id: &'a str, outcome: Vec<u8>) -> Entry<'a, ()>;
}
