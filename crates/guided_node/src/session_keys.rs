//! Self-contained keys for one guided session.
//!
//! A run with a guided node shows authorized readers how the agent connects. That needs a key that is valid for this session only.
//! The key is created for each read and is not stored: it contains its grant, signed. It becomes invalid when it expires, or after
//! two rotations of the host's secrets.

use std::fmt;

use canon::time::Timestamp;
use flow::id::Tenant;
use flow::signed::{self, Domain};
use serde::{Deserialize, Serialize};

pub const PREFIX: &str = "ilk_session_";

/// The latest expiry of a key: the largest integer that canonical JSON can represent.
const LATEST: u64 = (1 << 53) - 1;

/// What a key grants: access to one session of one tenant, until it expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionGrant {
    pub tenant: Tenant,
    pub session_id: String,
    /// When the key expires, in milliseconds since the Unix epoch.
    pub expires_at: u64,
}

/// Creates and verifies session keys.
#[derive(Clone)]
pub struct SessionKeys {
    secrets: Vec<[u8; 32]>,
}

impl fmt::Debug for SessionKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SessionKeys").field("secrets", &self.secrets.len()).finish()
    }
}

impl SessionKeys {
    /// Creates the signer from secrets. The first is current and signs; the others were rotated out and still verify.
    pub const fn new(secrets: Vec<[u8; 32]>) -> Self {
        Self { secrets }
    }

    /// Creates a key for a session, valid until `expires_at`.
    ///
    /// Without a secret, the result is a key that is never valid.
    pub fn mint(&self, tenant: &Tenant, session_id: &str, expires_at: Timestamp) -> String {
        let grant = SessionGrant {
            tenant: tenant.to_owned(),
            session_id: session_id.to_owned(),
            expires_at: expires_at.0.min(LATEST),
        };
        let sealed = self.secrets.first().map(|secret| signed::seal(Domain::SESSION_KEY, &grant, secret));
        format!("{PREFIX}{}", sealed.unwrap_or_default())
    }

    /// What a key grants. `None` if this host did not sign it, it was changed, or it has expired.
    pub fn verify(&self, key: &str, now: Timestamp) -> Option<SessionGrant> {
        let grant: SessionGrant =
            signed::open(Domain::SESSION_KEY, key.strip_prefix(PREFIX)?, &self.secrets)?;
        (now.0 < grant.expires_at).then_some(grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: [u8; 32] = [1; 32];
    const NEW: [u8; 32] = [2; 32];

    fn key() -> String {
        SessionKeys::new(vec![OLD]).mint(&Tenant::new("acme"), "sess_1", Timestamp(1000))
    }

    #[test]
    fn a_key_grants_its_session_until_its_time_is_over() {
        let grant =
            SessionGrant { tenant: Tenant::new("acme"), session_id: "sess_1".into(), expires_at: 1000 };
        for (name, secrets, now, expected) in [
            ("its own secret", vec![OLD], 999, Some(&grant)),
            ("after a rotation", vec![NEW, OLD], 999, Some(&grant)),
            ("after two rotations", vec![NEW], 999, None),
            ("a host without secrets", vec![], 999, None),
            ("its time is over", vec![OLD], 1000, None),
        ] {
            let read = SessionKeys::new(secrets).verify(&key(), Timestamp(now));
            assert_eq!(read.as_ref(), expected, "{name}");
        }
    }

    #[test]
    fn no_changed_character_survives() {
        let keys = SessionKeys::new(vec![OLD]);
        for place in 0..key().len() {
            let mut changed = key().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(keys.verify(&changed, Timestamp(0)), None, "{place}");
        }
        for text in ["", PREFIX, "ilk_live_x", "ilk_session_.", &"a".repeat(9000)] {
            assert_eq!(keys.verify(text, Timestamp(0)), None, "{text}");
        }
    }

    #[test]
    fn a_host_without_secrets_makes_keys_that_open_nothing() {
        let keys = SessionKeys::new(Vec::new());
        assert_eq!(
            keys.verify(&keys.mint(&Tenant::new("acme"), "sess_1", Timestamp(1000)), Timestamp(0)),
            None
        );
    }

    #[test]
    fn a_key_without_an_end_has_the_latest_one() {
        let keys = SessionKeys::new(vec![OLD]);
        let key = keys.mint(&Tenant::new("acme"), "sess_1", Timestamp(u64::MAX));
        assert_eq!(keys.verify(&key, Timestamp(0)).unwrap().expires_at, LATEST);
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(format!("{:?}", SessionKeys::new(vec![OLD])), "SessionKeys { secrets: 1 }");
    }
}
