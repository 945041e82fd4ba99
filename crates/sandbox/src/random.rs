//! Random bytes that are the same on a replay.

use canon::digest::Digest;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// What the random bytes of one attempt at a node come from.
///
/// The bytes cannot be guessed by somebody who does not know the seed, and are no secret to somebody who does: ids of runs
/// are not keys, so nothing that must stay secret may be made of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seed {
    /// The run.
    pub run_id: String,
    /// The node.
    pub node_id: String,
    /// Which attempt it is.
    pub attempt: u64,
}

/// An endless stream of bytes: HMAC-SHA-256 of a counter, keyed by the digest of the seed.
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
            // With their lengths, so that no two seeds are the same bytes.
            text.extend_from_slice(&(part.len() as u64).to_le_bytes());
            text.extend_from_slice(part);
        }
        let key = Digest::of_bytes(&text);
        let key = Hmac::new_from_slice(key.as_bytes()).expect("a key for an HMAC can have any length");
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
