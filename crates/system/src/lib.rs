//! The machine as the services see it: the clock, random bytes, secrets by reference, limits of the process, the delays between
//! attempts, and errors with their causes for the log. The cores use none of it.
#![forbid(unsafe_code)]

pub mod backoff;
mod causes;
pub mod secrets;

pub use self::causes::{CorrelationId, causes};

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The current time. It is informational: nothing is ordered by it.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;
}

/// Provides unpredictable bytes.
pub trait Entropy: Send + Sync {
    /// Fills `bytes`.
    ///
    /// # Errors
    /// The system cannot provide random bytes.
    fn fill(&self, bytes: &mut [u8]) -> std::io::Result<()>;
}

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) -> std::io::Result<()> {
        getrandom::fill(bytes).map_err(|cause| std::io::Error::other(cause.to_string()))
    }
}

/// A clock that advances only on request: for tests and reproducible runs.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `now_ms`.
    pub const fn at(now_ms: u64) -> Self {
        Self(AtomicU64::new(now_ms))
    }

    pub fn advance(&self, by_ms: u64) {
        self.0.fetch_add(by_ms, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bytes that are derived from a seed: for tests and reproducible runs, never for real keys.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<u64>);

impl SeededEntropy {
    /// The bytes of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) -> std::io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            // SplitMix64.
            *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = *state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^= mixed >> 31;
            chunk.copy_from_slice(&mixed.to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// Raises the limit of open files of this process to the maximum that the system allows, and returns it.
///
/// Shells start processes with a lower limit than allowed, for historical reasons. A server needs a file for each connection.
pub fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// The limit if the system does not report one.
    const USUAL: u64 = 1024;
    let limits = getrlimit(Resource::Nofile);
    let (Some(current), maximum) = (limits.current, limits.maximum) else { return USUAL };
    let wanted = maximum.unwrap_or(current);
    // Some systems allow less than they report. Then the limit stays unchanged.
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        Ok(()) => wanted,
        Err(_) => current,
    }
}
