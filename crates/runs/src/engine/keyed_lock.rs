//! Locks effects by their identity, so that only one task performs an effect at a time.
//!
//! A run that resumes after a pause requests again the effects that it waited for. If such an effect is still in progress, the
//! second task waits for the first and finds its record. So the effect is not performed twice, and is not mistaken for one that a
//! crash interrupted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use flow::id::EffectId;
use tokio::sync::OwnedMutexGuard;

/// The locks of the effects in progress.
#[derive(Default)]
pub(super) struct KeyedLock(Mutex<HashMap<EffectId, Arc<tokio::sync::Mutex<()>>>>);

impl KeyedLock {
    /// Waits until no other task performs the effect.
    pub(super) async fn turn(&self, id: &EffectId) -> Turn<'_> {
        let lock = {
            let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(open.entry(id.clone()).or_default())
        };
        // Created before the wait, so that a dropped task leaves no entry behind.
        let mut turn = Turn { all: self, id: id.clone(), held: None };
        turn.held = Some(lock.lock_owned().await);
        turn
    }
}

/// The exclusive right to perform one effect, until it is dropped.
pub(super) struct Turn<'a> {
    all: &'a KeyedLock,
    id: EffectId,
    held: Option<OwnedMutexGuard<()>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut open = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.held = None;
        // Waiting tasks hold a reference to the lock. If there are none, the map has the last reference.
        if open.get(&self.id).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            open.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_at_a_time_for_each_effect_and_nothing_stays_behind() {
        let all = Arc::new(KeyedLock::default());
        let first = all.turn(&EffectId::new("a")).await;
        drop(all.turn(&EffectId::new("b")).await);
        let waits = tokio::spawn({
            let all = Arc::clone(&all);
            async move { drop(all.turn(&EffectId::new("a")).await) }
        });
        let given_up =
            tokio::time::timeout(std::time::Duration::from_millis(1), all.turn(&EffectId::new("a"))).await;
        assert!(given_up.is_err() && !waits.is_finished());
        drop(first);
        waits.await.unwrap();
        assert!(all.0.lock().unwrap().is_empty());
    }
}
