//! Opaque page cursors.
//!
//! A cursor has the position of the last row (its id or order values) and a checksum over position, table, filter,
//! order and tenant. A forged, truncated or foreign cursor is rejected and never read as another position. It is not
//! secret: it leads only to rows that the tenant may read, so it needs no key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::Query;
use crate::args::refuse;
use crate::call::Tenant;
use crate::error::SurfaceError;
use crate::value::bytes_of;

const CHECKSUM: usize = 12;

pub(super) fn of(tenant: &Tenant, query: &Query, last: &str) -> String {
    let mut bytes = checksum(tenant, query, last).to_vec();
    bytes.extend_from_slice(last.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The position after which the page starts.
pub(super) fn read(tenant: &Tenant, query: &Query, cursor: &str) -> Result<String, SurfaceError> {
    let parsed = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| {
        let (sum, last) = bytes.split_at_checked(CHECKSUM)?;
        let last = std::str::from_utf8(last).ok()?;
        (sum == checksum(tenant, query, last)).then(|| last.to_owned())
    });
    parsed.ok_or_else(|| {
        refuse(
            "`cursor` does not belong to this query; use the `nextCursor` of its last page with the \
            same table, filter and order",
        )
    })
}

fn checksum(tenant: &Tenant, query: &Query, last: &str) -> [u8; CHECKSUM] {
    let mut hash = Sha256::new();
    let filter = bytes_of(&query.filter.clone().into());
    let order: Vec<_> = query.order.iter().map(|by| json!([by.column, by.descending])).collect();
    let order = bytes_of(&order.into());
    for part in [tenant.as_str().as_bytes(), query.table.as_bytes(), &filter, &order, last.as_bytes()] {
        // Each part with its length, so that the encoding is unambiguous.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let mut sum = [0; CHECKSUM];
    sum.copy_from_slice(&digest[..CHECKSUM]);
    sum
}
