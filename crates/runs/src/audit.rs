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
pub mod merkle;
mod verify;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use canon::canonical::write_to;
use flow::id::Tenant;
use ports::runs::{AuditEntry, Change};
use serde_json::Value;
use system::causes;

pub use self::anchor::Anchors;
use self::checkpoint::Checkpoint;
pub use self::key::AuditKey;
pub use self::verify::{Anomaly, AuditReport, MAX_VERIFIED};
use super::{Caller, Refusal, Runs};

/// After how many entries the log of a tenant is signed.
pub const CHECKPOINT_EVERY: u64 = 100;
/// After how many seconds a log with new entries is signed.
pub const CHECKPOINT_SECONDS: u64 = 300;
/// The tenant of the host's own log. No tenant has an empty name.
pub const HOST_LOG: &str = "";
/// How many entries are read at once.
const PAGE: usize = 1000;

/// The number of unsigned entries of each tenant, written by this process.
#[derive(Default)]
pub(super) struct Unsigned(Mutex<BTreeMap<Tenant, u64>>);

impl Unsigned {
    /// Counts an entry, and returns whether the log must be signed. That is also true for the first entry of a process, because an
    /// earlier process may have stopped before it signed.
    fn count(&self, tenant: &Tenant) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = counts.get_mut(tenant) else {
            counts.insert(tenant.to_owned(), 1);
            return true;
        };
        *count += 1;
        let is_due = *count >= CHECKPOINT_EVERY;
        if is_due {
            *count = 0;
        }
        is_due
    }

    fn take(&self) -> Vec<Tenant> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = counts.iter_mut().filter(|(_, count)| **count > 0);
        waiting
            .map(|(tenant, count)| {
                *count = 0;
                tenant.clone()
            })
            .collect()
    }
}

/// Logs that a log could not be signed. It is signed later, with more entries.
fn unsigned(refusal: &Refusal) {
    tracing::warn!(cause = causes(refusal), "the audit log could not be signed; retrying later");
}

impl Runs {
    /// An audit entry, for the commit that it describes.
    pub(super) fn audited(&self, caller: &Caller, action: &str, details: &Value) -> Change {
        let (mut details, mut principal) = (details.clone(), Value::from(caller.principal.as_str()));
        self.redact(&caller.tenant, &mut details);
        self.redact(&caller.tenant, &mut principal);
        // In alphabetical order, so that the result is canonical JSON.
        let members = [
            ("{\"action\":", Value::from(action)),
            (",\"at\":", self.now().to_rfc3339().into()),
            (",\"details\":", details),
            (",\"principal\":", principal),
        ];
        let mut entry = Vec::with_capacity(256);
        for (name, value) in &members {
            entry.extend_from_slice(name.as_bytes());
            write_to(&mut entry, value);
        }
        entry.push(b'}');
        Change::Audit { tenant: caller.tenant.clone(), entry: entry.into() }
    }

    /// Records an action of a caller that is not stored with the runs, for example on a pack registry.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn note(&self, caller: &Caller, action: &str, details: &Value) -> Result<(), Refusal> {
        let change = self.audited(caller, action, details);
        self.commit(vec![change]).await?;
        Ok(())
    }

    /// Counts committed entries, and signs the logs that are due.
    pub(super) fn audit_committed(&self, tenants: Vec<Tenant>) {
        for tenant in tenants {
            if self.inner.unsigned.count(&tenant) {
                let runs = self.clone();
                tokio::spawn(async move {
                    // A log that could not be signed now is signed later, with more entries.
                    let _ = runs.checkpoint(&tenant, CHECKPOINT_EVERY).await.inspect_err(unsigned);
                });
            }
        }
    }

    /// Signs unsigned entries periodically, until the host is drained.
    pub async fn keep_checkpoints(&self) {
        while !self.is_stopping() {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(CHECKPOINT_SECONDS)) => {}
                () = self.stopped() => {}
            }
            for tenant in self.inner.unsigned.take() {
                let _ = self.checkpoint(&tenant, 1).await.inspect_err(unsigned);
            }
        }
    }

    /// Signs the unsigned entries of the caller's log now. Returns the last signed entry.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sign_audit_log(&self, caller: &Caller) -> Result<Option<u64>, Refusal> {
        self.checkpoint(&caller.tenant, 1).await
    }

    /// Signs the log of a tenant if it has at least `least` unsigned entries. Returns the last signed entry.
    async fn checkpoint(&self, tenant: &Tenant, least: u64) -> Result<Option<u64>, Refusal> {
        let Some(end) = self.store().audit_end(tenant).await? else { return Ok(None) };
        let previous = self.store().audit_checkpoint_before(tenant, u64::MAX).await?;
        let previous = previous.and_then(|(_, document)| Checkpoint::read(&document));
        let signed = previous.as_ref().map(Checkpoint::at_sequence);
        if self.anchor(tenant).at_sequence() > signed {
            // The database has lost a checkpoint. Signing the rest would hide that; verification reports what is missing.
            return Ok(None);
        }
        let mut tree = previous.map(|checkpoint| checkpoint.tree).unwrap_or_default();
        if end + 1 < tree.count() + least {
            return Ok(None);
        }
        while tree.count() <= end {
            let entries = self.store().audit(tenant, tree.count(), end, PAGE).await?;
            if entries.is_empty() {
                // The log has a gap. Missing entries cannot be signed; verification reports where they are.
                return Ok(None);
            }
            for entry in &entries {
                if entry.sequence != tree.count() {
                    return Ok(None);
                }
                tree.push(AuditEntry::link(entry));
            }
        }
        let checkpoint = Checkpoint::sign(&self.inner.options.audit_key, tenant, tree);
        let document = checkpoint.document().to_string().into_bytes().into();
        let change = Change::PutAuditCheckpoint { tenant: tenant.to_owned(), at_sequence: end, document };
        self.commit(vec![change]).await?;
        self.keep_anchor(tenant, checkpoint).await;
        Ok(Some(end))
    }

    /// The public key that verifies checkpoints, in base64.
    pub fn audit_public_key(&self) -> String {
        self.inner.options.audit_key.public()
    }
}
