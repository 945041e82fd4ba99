//! The health of the store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use canon::time::Timestamp;
use ports::runs::CommitError;

use super::Records;
use crate::Refusal;

/// How long one failed write makes the host unready while nothing else is written. Afterwards it counts as ready until a write
/// fails again.
const REMEMBERED_MS: u64 = 30_000;

/// What was observed of the store.
#[derive(Default)]
pub(super) struct StoreHealth {
    /// Whether a damaged record was read.
    damaged: AtomicBool,
    /// When and why the last write failed. `None` once a write has succeeded.
    failed: Mutex<Option<(Timestamp, Trouble)>>,
}

/// Why the store is not healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A damaged record was read.
    Damaged,
    /// The disk is full.
    Full,
    /// The store cannot be written for another reason.
    Unwritable,
}

impl Trouble {
    /// What is wrong and what to do, for callers of `/readyz`. It contains no stored data.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Damaged => {
                "the run database is damaged; run `interlock doctor`, then restore a copy that `interlock backup` made"
            }
            Self::Full => "the disk of the host is full; free some space",
            Self::Unwritable => "the run database cannot be written; see the log of the host",
        }
    }
}

impl StoreHealth {
    /// Observes the result of a commit.
    pub(super) fn committed(&self, result: &Result<(), CommitError>, now: Timestamp) {
        let trouble = match result {
            Err(CommitError::Full(_)) => Some(Trouble::Full),
            Err(CommitError::Store(_) | CommitError::OutcomeUnknown(_)) => Some(Trouble::Unwritable),
            // The store works, even if it refused a change.
            Ok(()) => None,
            Err(
                CommitError::Moved { .. }
                | CommitError::RunExists { .. }
                | CommitError::ScopeActive { .. }
                | CommitError::KeyTaken
                | CommitError::EffectClaimed
                | CommitError::ArtifactChanged
                | CommitError::NoSuchWebhook
                | CommitError::MessageClaimed
                | CommitError::ListenerMoved
                | CommitError::Closed,
            ) => return,
        };
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = trouble.map(|trouble| (now, trouble));
    }

    fn trouble(&self, now: Timestamp) -> Option<Trouble> {
        if self.damaged.load(Ordering::Relaxed) {
            return Some(Trouble::Damaged);
        }
        let failed = *self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.filter(|(at, _)| now.since(*at) < REMEMBERED_MS).map(|(_, trouble)| trouble)
    }
}

impl Records {
    /// Why the store is not healthy. `None` if no problem is known.
    pub fn store_trouble(&self) -> Option<Trouble> {
        if self.store().is_damaged() {
            return Some(Trouble::Damaged);
        }
        self.health.trouble(self.now())
    }

    /// Remembers that a record is damaged, if that is why a read failed.
    pub(crate) fn noting_damage<T>(&self, read: Result<T, Refusal>) -> Result<T, Refusal> {
        if read.as_ref().is_err_and(Refusal::is_damage) {
            self.health.damaged.store(true, Ordering::Relaxed);
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use ports::Cause;

    use super::*;

    #[test]
    fn a_write_that_failed_is_held_against_the_store_until_another_succeeds_or_time_has_passed() {
        let health = StoreHealth::default();
        let at = |now| health.trouble(Timestamp(now));
        assert_eq!(at(0), None);
        health.committed(&Err(CommitError::Full(Cause::new("disk full"))), Timestamp(1_000));
        assert_eq!(at(1_000), Some(Trouble::Full));
        health.committed(&Err(CommitError::KeyTaken), Timestamp(1_500));
        assert_eq!(at(1_500), Some(Trouble::Full), "a refusal says nothing about the disk");
        health.committed(&Ok(()), Timestamp(2_000));
        assert_eq!(at(2_000), None);
        health.committed(&Err(CommitError::Full(Cause::new("disk full"))), Timestamp(3_000));
        assert_eq!(at(3_000 + REMEMBERED_MS), None, "one request is let through to try");
        health.damaged.store(true, Ordering::Relaxed);
        assert_eq!(at(u64::MAX), Some(Trouble::Damaged), "nothing repairs itself");
    }
}
