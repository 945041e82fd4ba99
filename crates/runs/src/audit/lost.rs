//! Finds audit logs that lost signed entries.

use flow::id::Tenant;

use super::Audit;
use super::anchor::Anchors;
use crate::Refusal;

/// The missing entries of an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub tenant: Tenant,
    /// The first missing entry.
    pub from: u64,
    /// The last signed entry.
    pub to: u64,
}

impl Audit {
    /// The logs that end before their last signed entry.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn lost_entries(&self) -> Result<Vec<Lost>, Refusal> {
        let tenants = self.signer.anchors().map(Anchors::tenants).unwrap_or_default();
        let mut lost = Vec::new();
        for tenant in tenants {
            let Some(to) = self.signer.anchor(&tenant).at_sequence() else { continue };
            let next = self.records.store().audit_end(&tenant).await?.map_or(0, |end| end + 1);
            if next <= to {
                lost.push(Lost { tenant, from: next, to });
            }
        }
        Ok(lost)
    }
}
