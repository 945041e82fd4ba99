//! Ends streams and waits when the key that opened them is no longer valid.

use std::time::Duration;

use canon::digest::Digest;
use tokio::time::sleep;

use super::Keys;
use crate::{ApiCode, Caller, Refusal};

/// How often the key of an open stream is looked up again. Changes by this process are noticed immediately; this interval is for
/// keys that expire, and for keys that another process revokes.
const LOOKED_UP_EVERY: Duration = Duration::from_secs(1);

impl Keys {
    /// Waits until the key with this hash no longer grants a caller what it did: it was revoked, expired, or its scopes changed.
    /// Returns the reason.
    pub async fn ended(&self, hash: Digest, caller: &Caller) -> Refusal {
        let mut recorded = self.known.recorded();
        loop {
            // Before the key is looked up, so that a change in between is not missed.
            recorded.mark_unchanged();
            match self.authenticate_hash(hash).await {
                Ok(now) if now == *caller => {}
                Ok(_) => {
                    let message = "the scopes of the key were changed; repeat the request";
                    return Refusal::new(ApiCode::Unauthenticated, message);
                }
                // The store could not be read. Streams stay open until it can be.
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
