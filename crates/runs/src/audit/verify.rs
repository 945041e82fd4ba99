//! Verifies the chain and the checkpoints of an audit log.

use std::ops::RangeInclusive;

use canon::digest::Digest;
use flow::id::Tenant;
use serde_json::json;

use super::anchor::Anchor;
use super::checkpoint::Checkpoint;
use super::merkle::Tree;
use super::{Audit, PAGE};
use crate::{ApiCode, Caller, Refusal};

/// The maximum number of entries that one request verifies: a few seconds of work. A range may be longer if the log is not.
pub const MAX_VERIFIED: u64 = 1 << 20;
/// The maximum number of listed anomalies. One is enough to distrust the log.
const MAX_ANOMALIES: usize = 1000;

/// The result of verifying an audit log.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditReport {
    pub from: u64,
    pub to: u64,
    /// Whether every entry follows the preceding one, and no signed entry is missing or changed.
    pub is_chain_valid: bool,
    pub are_checkpoints_valid: bool,
    pub checkpoints: Vec<Checkpoint>,
    /// The entries that do not follow the preceding one.
    pub anomalies: Vec<Anomaly>,
    /// The signed entries that are missing.
    pub missing: Option<RangeInclusive<u64>>,
}

/// An entry that does not follow the preceding one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    pub at: u64,
    /// The digest of the preceding entry.
    pub expected: Digest,
    /// The digest that the entry names instead.
    pub actual: Digest,
}

impl Audit {
    /// Verifies a range of the caller's audit log, both ends included. Without a range, it verifies the whole log, up to the limit of
    /// one request. The whole log ends with the last entry or the last signed one, whichever is later. A range may exceed that.
    ///
    /// # Errors
    /// If the range ends before it begins, it has more than [`MAX_VERIFIED`] entries of the log, or the store cannot be read.
    pub async fn verify(
        &self,
        caller: &Caller,
        from: Option<u64>,
        to: Option<u64>,
    ) -> Result<AuditReport, Refusal> {
        let tenant = &caller.tenant;
        let end = self.records.store().audit_end(tenant).await?;
        let from = from.unwrap_or(0);
        let furthest = from.saturating_add(MAX_VERIFIED - 1);
        let anchor = self.signer.anchor(tenant);
        let signed = self.records.store().audit_checkpoint_before(tenant, u64::MAX).await?.map(|(at, _)| at);
        let signed = signed.max(anchor.at_sequence());
        let last = end.max(signed).unwrap_or(0);
        let to = to.unwrap_or_else(|| last.clamp(from, furthest));
        if to < from || to.min(last) > furthest {
            let message = format!(
                "`toSeq` must not be less than `fromSeq`, and one request verifies at most {MAX_VERIFIED} entries"
            );
            return Err(Refusal::new(ApiCode::ValidationError, message)
                .detail("fields", json!(["fromSeq", "toSeq"]))
                .detail("maxEntries", MAX_VERIFIED));
        }
        let mut walk = VerificationProgress::default();
        let mut checkpoints = self.checkpoints_to_check(tenant, from, to, &mut walk).await?;
        match anchor {
            Anchor::None => {}
            Anchor::Unreadable => walk.forged = true,
            Anchor::At(anchor) => self.add_anchor(anchor, from, to, &mut checkpoints, &mut walk),
        }
        self.walk(tenant, from, to, &mut walk, &checkpoints).await?;
        // The chain does not reveal a truncation, but a checkpoint after the last entry does.
        walk.forged |= walk.checked < checkpoints.len();
        // Signed entries of the range that no longer exist.
        let missing = signed.map(|signed| (end.map_or(0, |end| end + 1).max(from), signed.min(to)));
        let missing = missing.filter(|(first, last)| first <= last);
        walk.forged |= missing.is_some();
        for checkpoint in &mut checkpoints {
            checkpoint.sign_root(self.signer.key());
        }
        Ok(AuditReport {
            from,
            to,
            is_chain_valid: walk.anomalies.is_empty() && !walk.forged,
            are_checkpoints_valid: !walk.forged,
            checkpoints,
            anomalies: walk.anomalies,
            missing: missing.map(|(first, last)| first..=last),
        })
    }

    /// Compares the checkpoint outside the database with those in it.
    fn add_anchor(
        &self,
        anchor: Checkpoint,
        from: u64,
        to: u64,
        checkpoints: &mut Vec<Checkpoint>,
        walk: &mut VerificationProgress,
    ) {
        let at = anchor.at_sequence();
        if !(from..=to).contains(&at) {
            return;
        }
        walk.forged |= !anchor.is_signed_by(self.signer.key());
        match checkpoints.binary_search_by_key(&at, Checkpoint::at_sequence) {
            Ok(place) => walk.forged |= checkpoints[place] != anchor,
            // The anchor was in the database when it was written to the file.
            Err(place) => {
                walk.forged = true;
                checkpoints.insert(place, anchor);
            }
        }
    }

    /// The checkpoints in the range, and the tree to start with: that of the last checkpoint before the range.
    async fn checkpoints_to_check(
        &self,
        tenant: &Tenant,
        from: u64,
        to: u64,
        walk: &mut VerificationProgress,
    ) -> Result<Vec<Checkpoint>, Refusal> {
        let key = self.signer.key();
        if let Some((at, document)) = self.records.store().audit_checkpoint_before(tenant, from).await? {
            match Checkpoint::read(&document) {
                Some(before) if before.at_sequence() == at && before.is_signed_by(key) => {
                    walk.tree = before.tree;
                }
                _ => walk.forged = true,
            }
        }
        let limit = usize::try_from(MAX_VERIFIED).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        for (at, document) in self.records.store().audit_checkpoints(tenant, from, to, limit).await? {
            match Checkpoint::read(&document) {
                Some(checkpoint) if checkpoint.at_sequence() == at => {
                    walk.forged |= !checkpoint.is_signed_by(key);
                    found.push(checkpoint);
                }
                _ => walk.forged = true,
            }
        }
        Ok(found)
    }

    /// Verifies the entries from the end of the tree to the end of the range. Anomalies before the range are not counted.
    async fn walk(
        &self,
        tenant: &Tenant,
        from: u64,
        to: u64,
        walk: &mut VerificationProgress,
        checkpoints: &[Checkpoint],
    ) -> Result<(), Refusal> {
        let mut next = if from - walk.tree.count() > MAX_VERIFIED {
            // No checkpoint is close to the range. The chain of the range is verified anyway.
            walk.checked = checkpoints.len();
            walk.tree = Tree::default();
            from
        } else {
            walk.tree.count()
        };
        if next > 0 {
            let before = self.records.store().audit(tenant, next - 1, next - 1, 1).await?;
            walk.previous = before.first().map(ports::runs::AuditEntry::link);
        } else {
            walk.previous = Some(Digest::of_bytes(b""));
        }
        let mut expected_sequence = next;
        while next <= to {
            let entries = self.records.store().audit(tenant, next, to, PAGE).await?;
            let Some(last) = entries.last() else { return Ok(()) };
            next = last.sequence + 1;
            for entry in entries {
                let expected = walk.previous.unwrap_or_else(|| Digest::of_bytes(b""));
                let follows = walk.previous == Some(entry.previous) && entry.sequence == expected_sequence;
                expected_sequence = entry.sequence + 1;
                if !follows && entry.sequence >= from && walk.anomalies.len() < MAX_ANOMALIES {
                    walk.anomalies.push(Anomaly { at: entry.sequence, expected, actual: entry.previous });
                }
                let link = entry.link();
                walk.previous = Some(link);
                walk.tree.push(link);
                while let Some(checkpoint) =
                    checkpoints.get(walk.checked).filter(|next| next.at_sequence() <= entry.sequence)
                {
                    walk.forged |= checkpoint.tree.root() != walk.tree.root();
                    walk.checked += 1;
                }
            }
        }
        Ok(())
    }
}

/// The progress of a verification.
#[derive(Default)]
struct VerificationProgress {
    tree: Tree,
    previous: Option<Digest>,
    anomalies: Vec<Anomaly>,
    /// How many of the checkpoints were compared.
    checked: usize,
    forged: bool,
}
