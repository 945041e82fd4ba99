//! Effects: claimed before they are executed, finished with their result.
//!
//! An effect keeps its id however often it is executed; each execution is an attempt with a number of its own. The list of a run's
//! attempts has those that reach something outside of the run. Other claims only keep work from being repeated.

use canon::time::Timestamp;
use flow::id::{EffectId, NodeId, RunId};

use super::{Bytes, ReadFuture};

/// Reads effects.
pub trait Effects {
    /// An effect, if it was claimed.
    fn effect(&self, id: &EffectId) -> ReadFuture<'_, Option<ClaimedEffect>>;

    /// The attempts of a run's effects that reach something outside of the run, by the time of their claim, then by id and number.
    /// `after` is the last attempt of the previous page.
    fn attempts(
        &self,
        run_id: &RunId,
        after: Option<&AttemptPosition>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<StoredAttempt>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimedEffect {
    /// It may have been executed; its result is not recorded.
    Unfinished {
        /// The number of the last attempt.
        attempt: u32,
    },
    /// The recorded result or failure, as JSON.
    Finished(Bytes),
}

impl ClaimedEffect {
    /// The recorded outcome.
    pub fn finished(self) -> Option<Bytes> {
        match self {
            Self::Unfinished { .. } => None,
            Self::Finished(outcome) => Some(outcome),
        }
    }
}

/// What an effect reaches outside of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The node that has the effect.
    pub node_id: NodeId,
    /// The idempotency key that the other side gets with every attempt, if it takes one.
    pub provider_key: Option<String>,
}

/// An attempt of an effect that reaches something outside of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAttempt {
    pub position: AttemptPosition,
    pub reached: Reached,
    pub state: AttemptState,
}

/// The place of an attempt in the list of its run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptPosition {
    /// When it was claimed.
    pub at: Timestamp,
    /// The effect.
    pub id: EffectId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
}

/// What is known about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptState {
    /// It may have been executed; its result is not recorded.
    Claimed,
    /// Its result is recorded.
    Completed,
    /// It is known to have had no effect.
    Released,
}
