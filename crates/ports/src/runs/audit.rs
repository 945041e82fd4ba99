//! The audit log: a hash chain per tenant, with signed checkpoints.

use canon::digest::Digest;
use flow::id::Tenant;

use super::{Bytes, ReadFuture};

/// Reads audit logs.
pub trait AuditLog {
    /// The entries of a tenant from one sequence to another, both included.
    fn audit(&self, tenant: &Tenant, from: u64, to: u64, limit: usize) -> ReadFuture<'_, Vec<AuditEntry>>;

    /// The sequence of a tenant's last entry.
    fn audit_end(&self, tenant: &Tenant) -> ReadFuture<'_, Option<u64>>;

    /// The checkpoints at entries from one sequence to another, both included, in order.
    fn audit_checkpoints(
        &self,
        tenant: &Tenant,
        from: u64,
        to: u64,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(u64, Bytes)>>;

    /// The last checkpoint before an entry.
    fn audit_checkpoint_before(&self, tenant: &Tenant, sequence: u64)
    -> ReadFuture<'_, Option<(u64, Bytes)>>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// The position in the log of the tenant, from 0.
    pub sequence: u64,
    /// The [`link`](Self::link) of the previous entry; the digest of no bytes for the first.
    pub previous: Digest,
    /// As canonical JSON.
    pub entry: Bytes,
}

impl AuditEntry {
    /// The digest that the next entry must have as [`AuditEntry::previous`].
    pub fn link(&self) -> Digest {
        link(self.sequence, self.previous, &self.entry)
    }
}

/// The digest of an audit entry: of the canonical JSON of the entry with its sequence and its own link. The entry is canonical
/// and the members are in order, so the text is concatenated.
pub fn link(sequence: u64, previous: Digest, entry: &[u8]) -> Digest {
    let mut linked = Vec::with_capacity(entry.len() + 128);
    linked.extend_from_slice(b"{\"entry\":");
    linked.extend_from_slice(entry);
    linked.extend_from_slice(
        format!(",\"prevHash\":\"{}\",\"sequence\":{sequence}}}", previous.to_hex()).as_bytes(),
    );
    Digest::of_bytes(&linked)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_link_is_the_digest_of_canonical_json() {
        let entry = json!({"a": [1, "x"], "b": null});
        let previous = Digest::of_bytes(b"before");
        let whole = json!({"sequence": 7, "prevHash": previous.to_hex(), "entry": entry});
        assert_eq!(link(7, previous, entry.to_string().as_bytes()), Digest::of_canonical(&whole).unwrap());
    }
}
