//! Where a list goes on.
//!
//! The store numbers the runs of all tenants in one row, so a place as it is would tell a tenant how many runs the others made.
//! A cursor is therefore masked under a secret of the process and bound to its tenant; after a restart, or with
//! another tenant's key, it is refused and the list begins anew.

use canon::digest::Digest;
use flow::id::Tenant;
use host::runs::{ApiCode, Refusal};
use host::system::Entropy;

/// Makes and reads cursors.
#[derive(Clone, Copy)]
pub(super) struct Cursors {
    secret: [u8; 32],
}

impl Cursors {
    pub(super) fn new(entropy: &dyn Entropy) -> Self {
        let mut secret = [0; 32];
        // Without entropy places could be guessed, but nothing could be read with them.
        let _ = entropy.fill(&mut secret);
        Self { secret }
    }

    /// The cursor for a place.
    pub(super) fn encode(self, tenant: &Tenant, place: u64) -> String {
        let check = self.mask(tenant, b"check", place);
        let masked = place ^ self.mask(tenant, b"place", check);
        format!("{check:016x}{masked:016x}")
    }

    /// The place of a cursor.
    pub(super) fn decode(self, tenant: &Tenant, cursor: &str) -> Result<u64, Refusal> {
        let unknown = || {
            let message = "the cursor is not one that this host gave; leave it out to begin anew";
            Refusal::new(ApiCode::ValidationError, message).detail("field", "cursor")
        };
        let (Some(check), Some(masked), 32) = (cursor.get(..16), cursor.get(16..), cursor.len()) else {
            return Err(unknown());
        };
        let check = u64::from_str_radix(check, 16).map_err(|_| unknown())?;
        let masked = u64::from_str_radix(masked, 16).map_err(|_| unknown())?;
        let place = masked ^ self.mask(tenant, b"place", check);
        if self.mask(tenant, b"check", place) == check { Ok(place) } else { Err(unknown()) }
    }

    fn mask(self, tenant: &Tenant, purpose: &[u8; 5], number: u64) -> u64 {
        let mut input = self.secret.to_vec();
        input.extend_from_slice(purpose);
        input.extend_from_slice(&number.to_be_bytes());
        input.extend_from_slice(tenant.as_str().as_bytes());
        let digest = Digest::of_bytes(&input).to_hex();
        digest.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_its_tenant_back_and_nobody_else() {
        let cursors = Cursors::new(&host::system::SeededEntropy::new(7));
        for place in [0, 1, 2, u64::MAX] {
            let cursor = cursors.encode(&Tenant::new("a"), place);
            assert_eq!(cursors.decode(&Tenant::new("a"), &cursor), Ok(place));
            assert!(cursors.decode(&Tenant::new("b"), &cursor).is_err());
        }
        for cursor in ["", "1", "é", &"0".repeat(32), &"z".repeat(32), &"é".repeat(16)] {
            assert!(cursors.decode(&Tenant::new("a"), cursor).is_err(), "{cursor}");
        }
    }
}
