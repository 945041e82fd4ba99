//! The ids of runs and of what belongs to them, a type for each kind.
//!
//! The types prevent mix-ups but validate nothing: authors name nodes and workflows, callers name tenants, and stores contain ids of earlier
//! versions.

use canon::digest::Digest;
use canon::opaque_id;
use sha2::{Digest as _, Sha256};

opaque_id!(
    RunId,
    /// A node, named by the author of its workflow.
    NodeId,
    /// A workflow, named by its author.
    WorkflowId,
    /// An interrupt: a question of a run to a person or an external system.
    InterruptId,
    /// An effect. An effect is executed at most once per id.
    EffectId,
    /// A webhook subscription.
    SubscriptionId,
    /// An artifact of a run.
    ArtifactId,
    /// An isolated customer of the host. Objects of one tenant are invisible to others.
    Tenant,
    /// The opaque name of a caller.
    Principal,
);

/// The hex digits of a run id after `run_`: 12 of the time, 3 of the shard, 17 random ones.
const RUN_ID_DIGITS: usize = 32;

/// One of 4,096 groups of runs. A run and everything that belongs to it, including its child runs, share a shard, so that a distributed
/// store can keep them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(u16);

impl Shard {
    pub const COUNT: u16 = 1 << 12;

    /// The shard with that number, modulo [`Shard::COUNT`].
    pub const fn new(number: u16) -> Self {
        Self(number % Self::COUNT)
    }

    /// The shard of a run that is created under an idempotency key. It depends on the digest of the key, which is also recorded with the
    /// reply, so the run and its reply share a shard.
    pub fn of_key(tenant: &Tenant, key: Digest) -> Self {
        let mut hash = Sha256::new();
        hash.update(tenant.as_str().as_bytes());
        hash.update([0]);
        hash.update(key.as_bytes());
        Self::of_hash(&hash.finalize())
    }

    fn of_hash(hash: &[u8]) -> Self {
        let byte = |index: usize| u16::from(hash.get(index).copied().unwrap_or(0));
        Self(byte(0) << 4 | byte(1) >> 4)
    }

    pub const fn number(self) -> u16 {
        self.0
    }
}

impl RunId {
    /// A new id: the time, the shard, and 68 random bits.
    pub fn generate(now_ms: u64, shard: Shard, random: u128) -> Self {
        let (time, rest) = (now_ms & 0xFFFF_FFFF_FFFF, random & ((1 << 68) - 1));
        Self::new(format!("run_{time:012x}{:03x}{rest:017x}", shard.0))
    }

    /// The shard: the 12 bits after the time. For an id in any other format, it is derived from the hash of the id.
    pub fn shard(&self) -> Shard {
        self.written_shard().unwrap_or_else(|| Shard::of_hash(&Sha256::digest(self.as_str().as_bytes())))
    }

    /// The shard that is encoded in the id, if the id has the format of [`RunId::generate`].
    pub(crate) fn written_shard(&self) -> Option<Shard> {
        let digits = self.as_str().strip_prefix("run_")?;
        let is_hex = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        let is_ours = digits.len() == RUN_ID_DIGITS && digits.bytes().all(is_hex);
        let shard = digits.get(12..15).filter(|_| is_ours)?;
        u16::from_str_radix(shard, 16).ok().map(Shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opaque_id_is_its_text_in_every_form_and_a_clone_shares_it() {
        for text in ["", "gate", "a/..\n", "é", &"n".repeat(1000)] {
            let id = NodeId::new(text);
            assert_eq!(id.as_str(), text);
            assert_eq!(id.to_string(), text);
            assert_eq!(format!("{id:?}"), text);
            assert_eq!(id, text);
            assert_eq!(serde_json::to_value(&id).unwrap(), text);
            assert_eq!(serde_json::from_value::<NodeId>(text.into()).unwrap(), id);
            assert_eq!(std::collections::HashMap::from([(id.clone(), 1)]).get(text), Some(&1));
            assert!(std::ptr::eq(id.as_str(), id.clone().as_str()), "no copy");
        }
        assert!(serde_json::from_value::<NodeId>(7.into()).is_err());
        assert!(NodeId::new("a") < NodeId::new("b"));
    }

    #[test]
    fn the_shard_of_a_run_is_read_from_its_id() {
        let cases = [
            ("run_0000000000000010000000000000000f", 0x001),
            ("run_01a2b3c4d5e6fff00000000000000000", 0xfff),
            ("run_01a2b3c4d5e67ab0123456789abcdef0", 0x7ab),
        ];
        for (text, number) in cases {
            assert_eq!(RunId::new(text).shard().number(), number, "{text}");
        }
        let made = RunId::generate(0x01a2_b3c4_d5e6, Shard::new(0x7ab), u128::MAX);
        assert_eq!(made, "run_01a2b3c4d5e67abfffffffffffffffff");
        assert_eq!(made.shard(), Shard::new(0x7ab));
    }

    #[test]
    fn an_id_of_another_shape_has_a_shard_that_stays_the_same() {
        let upper = "run_01A2B3C4D5E67AB0123456789ABCDEF0";
        for text in ["", "r", "run_", "run_1", upper, "sess_01a2b3c4d5e67ab0123456789abcde", "run_é"] {
            let id = RunId::new(text);
            assert_eq!(id.written_shard(), None, "{text}");
            assert_eq!(id.shard(), RunId::new(text).shard());
            assert!(id.shard().number() < Shard::COUNT);
        }
        assert_ne!(RunId::new("r").shard(), RunId::new("s").shard());
    }

    #[test]
    fn the_shard_of_a_key_depends_on_tenant_and_key() {
        let of = |tenant: &str, key: &str| {
            Shard::of_key(&Tenant::new(tenant), Digest::of_bytes(key.as_bytes())).number()
        };
        assert_eq!(of("t", "k"), of("t", "k"));
        assert_ne!(of("t", "k"), of("u", "k"));
        assert_ne!(of("t", "k"), of("t", "l"));
    }
}
