//! Signs audit logs: counts committed entries, and adds a checkpoint when one is due.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use flow::id::Tenant;
use ports::runs::{AuditEntry, Change};
use system::causes;

use super::anchor::{Anchor, Anchors};
use super::checkpoint::Checkpoint;
use super::key::AuditKey;
use super::{CHECKPOINT_EVERY, PAGE};
use crate::Refusal;
use crate::records::{CommitListener, Records};

/// The number of unsigned entries of each tenant, written by this process.
#[derive(Default)]
struct Unsigned(Mutex<BTreeMap<Tenant, u64>>);

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

/// Signs the audit logs of the host.
pub(crate) struct Signer {
    key: AuditKey,
    anchors: Option<Anchors>,
    unsigned: Unsigned,
}

impl CommitListener for Signer {
    /// Counts committed entries, and signs the logs that are due.
    fn audited(self: Arc<Self>, records: &Arc<Records>, tenants: Vec<Tenant>) {
        for tenant in tenants {
            if self.unsigned.count(&tenant) {
                let (signer, records) = (Arc::clone(&self), Arc::clone(records));
                tokio::spawn(async move {
                    // A log that could not be signed now is signed later, with more entries.
                    let _ =
                        signer.checkpoint(&records, &tenant, CHECKPOINT_EVERY).await.inspect_err(unsigned);
                });
            }
        }
    }
}

impl Signer {
    /// Creates the signer. `anchors` keeps the newest checkpoints in a file outside the database.
    pub(crate) fn new(key: AuditKey, anchors: Option<Anchors>) -> Self {
        Self { key, anchors, unsigned: Unsigned::default() }
    }

    pub(super) fn key(&self) -> &AuditKey {
        &self.key
    }

    pub(super) fn anchors(&self) -> Option<&Anchors> {
        self.anchors.as_ref()
    }

    /// The anchored checkpoint of a log.
    pub(super) fn anchor(&self, tenant: &Tenant) -> Anchor {
        self.anchors().map_or(Anchor::None, |anchors| anchors.of(tenant))
    }

    /// Signs all logs with unsigned entries.
    pub(super) async fn sign_all(self: &Arc<Self>, records: &Arc<Records>) {
        for tenant in self.unsigned.take() {
            let _ = self.checkpoint(records, &tenant, 1).await.inspect_err(unsigned);
        }
    }

    /// Signs the log of a tenant if it has at least `least` unsigned entries. Returns the last signed entry.
    pub(super) async fn checkpoint(
        self: &Arc<Self>,
        records: &Arc<Records>,
        tenant: &Tenant,
        least: u64,
    ) -> Result<Option<u64>, Refusal> {
        let Some(end) = records.store().audit_end(tenant).await? else { return Ok(None) };
        let previous = records.store().audit_checkpoint_before(tenant, u64::MAX).await?;
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
            let entries = records.store().audit(tenant, tree.count(), end, PAGE).await?;
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
        let checkpoint = Checkpoint::sign(&self.key, tenant, tree);
        let document = checkpoint.document().to_string().into_bytes().into();
        let change = Change::PutAuditCheckpoint { tenant: tenant.to_owned(), at_sequence: end, document };
        records.commit(vec![change]).await?;
        self.keep_anchor(tenant, checkpoint).await;
        Ok(Some(end))
    }

    /// Writes a checkpoint to the file. If that fails, the next checkpoint is written instead.
    async fn keep_anchor(self: &Arc<Self>, tenant: &Tenant, checkpoint: Checkpoint) {
        let (signer, tenant) = (Arc::clone(self), tenant.to_owned());
        let kept = tokio::task::spawn_blocking(move || match signer.anchors() {
            Some(anchors) => anchors.keep(&tenant, &checkpoint),
            None => Ok(()),
        });
        let _ = kept.await;
    }
}

/// Logs that a log could not be signed. It is signed later, with more entries.
fn unsigned(refusal: &Refusal) {
    tracing::warn!(cause = causes(refusal), "the audit log could not be signed; retrying later");
}
