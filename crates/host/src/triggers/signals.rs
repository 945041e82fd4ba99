//! Who is woken by what is published.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use surfaces::queue::Topic;
use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// One signal for each queue and each stream that somebody listens to. The adapter tells of everything once, and not once for each task.
#[derive(Debug, Default)]
pub(super) struct Signals {
    by_topic: Mutex<HashMap<Topic, Arc<Notify>>>,
}

/// From how many signals on those that nobody has any more are looked for.
const MANY: usize = 64;

impl Signals {
    fn by_topic(&self) -> MutexGuard<'_, HashMap<Topic, Arc<Notify>>> {
        self.by_topic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is notified when something is published there.
    pub(super) fn of(&self, topic: Topic) -> Arc<Notify> {
        let mut by_topic = self.by_topic();
        // Whenever there are twice as many as before, so that many tasks are no more work for each of them.
        if by_topic.len() >= MANY && by_topic.len().is_power_of_two() {
            by_topic.retain(|_, signal| Arc::strong_count(signal) > 1);
        }
        Arc::clone(by_topic.entry(topic).or_default())
    }

    /// Passes on what the adapter tells, until it is gone.
    pub(super) async fn relay(self: Arc<Self>, mut published: Receiver<Topic>) {
        loop {
            match published.recv().await {
                Ok(topic) => {
                    if let Some(signal) = self.by_topic().get(&topic) {
                        signal.notify_waiters();
                    }
                }
                // Whatever was missed, whoever looks finds it.
                Err(RecvError::Lagged(_)) => {
                    for signal in self.by_topic().values() {
                        signal.notify_waiters();
                    }
                }
                Err(RecvError::Closed) => return,
            }
        }
    }
}
