//! Effects: claimed before they are executed, finished with their result.

use flow::id::EffectId;

use super::{Bytes, ReadFuture};

/// Reads effects.
pub trait Effects {
    /// An effect, if it was claimed.
    fn effect(&self, id: &EffectId) -> ReadFuture<'_, Option<ClaimedEffect>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimedEffect {
    /// It may have been executed; its result is not recorded.
    Unfinished,
    /// The recorded result or failure, as JSON.
    Finished(Bytes),
}

impl ClaimedEffect {
    /// The recorded outcome.
    pub fn finished(self) -> Option<Bytes> {
        match self {
            Self::Unfinished => None,
            Self::Finished(outcome) => Some(outcome),
        }
    }
}
