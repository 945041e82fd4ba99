//! The end of the host: no further writes, and the loops of the services stop.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::{MAX_WRITES, Records};

/// Whether the host shuts down.
#[derive(Default)]
pub(super) struct Shutdown {
    stopping: AtomicBool,
    stop: Notify,
}

impl Records {
    /// Refuses further requests that write, and ends the loops of the services.
    pub(crate) fn stop(&self) {
        self.shutdown.stopping.store(true, Ordering::SeqCst);
        self.shutdown.stop.notify_waiters();
    }

    /// Waits until the writes in progress are done.
    pub(crate) async fn written(&self) {
        // All permits are available again once every write is done.
        let all = u32::try_from(MAX_WRITES).unwrap_or(u32::MAX);
        let _all = self.writes.acquire_many(all).await;
    }

    pub fn is_stopping(&self) -> bool {
        self.shutdown.stopping.load(Ordering::SeqCst)
    }

    /// Waits until the host shuts down.
    pub async fn stopped(&self) {
        let stop = self.shutdown.stop.notified();
        tokio::pin!(stop);
        // Registered before the check, so that a stop in between is not missed.
        stop.as_mut().enable();
        if !self.is_stopping() {
            stop.await;
        }
    }
}
