//! The tamper-evident audit log: who did what.
//!
//! Each tenant has its own log. What has no tenant, such as a request with an unknown key, goes to the log of the host. An entry
//! is part of the commit that it describes, and the store links it to the preceding entry. Every [`CHECKPOINT_EVERY`] entries,
//! the host signs the root of a Merkle tree over all entries. A truncated log is still a valid chain, but its newest checkpoint
//! names the missing entries. That checkpoint is kept in the database and in a file outside it ([`anchor`]), so deleting entries
//! together with checkpoints is detected too. Two things are not detected: changes of entries after the newest checkpoint, and
//! changes by an attacker who can also write the file.

pub mod anchor;
pub mod checkpoint;
mod denied;
pub mod key;
mod lost;
pub mod merkle;
mod signer;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use self::anchor::Anchors;
pub use self::key::AuditKey;
pub use self::lost::Lost;
pub(crate) use self::signer::Signer;
pub use self::verify::{Anomaly, AuditReport, MAX_VERIFIED};
use super::records::Records;
use super::{Caller, Refusal};

/// After how many entries the log of a tenant is signed.
pub const CHECKPOINT_EVERY: u64 = 100;
/// After how many seconds a log with new entries is signed.
pub const CHECKPOINT_SECONDS: u64 = 300;
/// The tenant of the host's own log. No tenant has an empty name.
pub const HOST_LOG: &str = "";
/// How many entries are read at once.
const PAGE: usize = 1000;

/// The audit logs of the host.
pub struct Audit {
    records: Arc<Records>,
    signer: Arc<Signer>,
}

impl Audit {
    /// Creates the service. `signer` is the listener of `records`.
    pub(crate) fn new(records: Arc<Records>, signer: Arc<Signer>) -> Self {
        Self { records, signer }
    }

    /// Records an action of a caller that is not stored with the runs, for example on a pack registry.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn note(&self, caller: &Caller, action: &str, details: &Value) -> Result<(), Refusal> {
        let change = self.records.audited(caller, action, details);
        self.records.commit(vec![change]).await?;
        Ok(())
    }

    /// Signs unsigned entries periodically, until the host is drained.
    pub async fn keep_checkpoints(&self) {
        while !self.records.is_stopping() {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(CHECKPOINT_SECONDS)) => {}
                () = self.records.stopped() => {}
            }
            self.signer.sign_all(&self.records).await;
        }
    }

    /// Signs the unsigned entries of the caller's log now. Returns the last signed entry.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sign(&self, caller: &Caller) -> Result<Option<u64>, Refusal> {
        self.signer.checkpoint(&self.records, &caller.tenant, 1).await
    }

    /// The public key that verifies checkpoints, in base64.
    pub fn public_key(&self) -> String {
        self.signer.key().public()
    }
}
