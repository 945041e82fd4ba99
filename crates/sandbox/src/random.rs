//! Reproducible random bytes.

use canon::digest::Digest;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The seed of the random bytes of one node attempt.
///
/// The bytes are unpredictable without the seed, but not secret: run ids are not keys, so do not derive secrets from
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seed {
    pub run_id: String,
    pub node_id: String,
    pub attempt: u64,
}

/// A stream of bytes: HMAC-SHA-256 of a counter, keyed by the digest of the seed.
pub(crate) struct Stream {
    key: Hmac<Sha256>,
    counter: u64,
    block: [u8; 32],
    used: usize,
}

impl Stream {
    pub(crate) fn new(seed: &Seed) -> Self {
        let mut text = b"interlock/sandbox/random/1".to_vec();
        for part in [seed.run_id.as_bytes(), seed.node_id.as_bytes(), &seed.attempt.to_le_bytes()] {
            // With their lengths, so that different seeds differ.
            text.extend_from_slice(&(part.len() as u64).to_le_bytes());
            text.extend_from_slice(part);
        }
        let key = Digest::of_bytes(&text);
        let key = Hmac::new_from_slice(key.as_bytes()).expect("an HMAC key can have any length");
        Self { key, counter: 0, block: [0; 32], used: 32 }
    }

    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            if self.used == self.block.len() {
                let mut mac = self.key.clone();
                mac.update(&self.counter.to_le_bytes());
                self.block = mac.finalize().into_bytes().into();
                self.counter = self.counter.wrapping_add(1);
                self.used = 0;
            }
            *byte = self.block[self.used];
            self.used += 1;
        }
    }
}
