//! The end of what a key opened: streams and waits end with it.

use std::time::Duration;

use canon::digest::Digest;
use tokio::time::sleep;

use super::{ApiCode, Caller, Refusal, Runs};

/// How often a key is looked up again while something that it opened stays open. What this process records is noticed at once; this is
/// for keys that expire, and for those that another process revokes.
const LOOKED_UP_EVERY: Duration = Duration::from_secs(1);

impl Runs {
    /// Waits until the key that is kept under a hash does not open any more what it opened for a caller: until it is revoked, has
    /// expired, or has other scopes. Says why.
    pub async fn key_ended(&self, hash: Digest, caller: &Caller) -> Refusal {
        let mut recorded = self.inner.known_keys.recorded();
        loop {
            // Before the key is looked up, so that nothing that is recorded meanwhile is missed.
            recorded.mark_unchanged();
            match self.authenticate_hash(hash).await {
                Ok(now) if now == *caller => {}
                Ok(_) => {
                    let message = "the scopes of the key were changed; ask again";
                    return Refusal::new(ApiCode::Unauthenticated, message);
                }
                // The store could not be read: open streams stay open until it can be.
                Err(refusal) if refusal.is_host_failure() => {}
                Err(refusal) => return refusal,
            }
            tokio::select! {
                _ = recorded.changed() => {}
                () = sleep(LOOKED_UP_EVERY) => {}
            }
        }
    }
}
