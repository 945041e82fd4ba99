//! Distributes the notifications of a queue to the tasks of triggers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use surfaces::queue::Topic;
use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// One signal for each queue and stream with a trigger. The adapter notifies once, and not once per task.
#[derive(Debug, Default)]
pub(super) struct Signals {
    by_topic: Mutex<HashMap<Topic, Arc<Notify>>>,
}

/// The number of signals from which unused ones are removed.
const MANY: usize = 64;

impl Signals {
    fn by_topic(&self) -> MutexGuard<'_, HashMap<Topic, Arc<Notify>>> {
        self.by_topic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The signal of a queue or stream.
    pub(super) fn subscribe(&self, topic: Topic) -> Arc<Notify> {
        let mut by_topic = self.by_topic();
        // Removed only when the number has doubled, so that the cost per subscription stays constant.
        if by_topic.len() >= MANY && by_topic.len().is_power_of_two() {
            by_topic.retain(|_, signal| Arc::strong_count(signal) > 1);
        }
        Arc::clone(by_topic.entry(topic).or_default())
    }

    /// Forwards the notifications of the adapter until it closes.
    pub(super) async fn relay(self: Arc<Self>, mut published: Receiver<Topic>) {
        loop {
            match published.recv().await {
                Ok(topic) => {
                    if let Some(signal) = self.by_topic().get(&topic) {
                        signal.notify_waiters();
                    }
                }
                // Notifications were missed, so every task must check its source.
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
