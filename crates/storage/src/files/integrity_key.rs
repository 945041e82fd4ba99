//! The key that authenticates the chains of sessions.
//!
//! It is separate from the keys that sign tokens: those are rotated when a token leaks, and a rotation must not
//! invalidate every chain.

use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use guide::token::{KEYRING_BYTES, Key, Keyring};
use ports::sessions::StoreError;

use super::{SessionFiles, layout};
use crate::disk::{self, Sharing};

const NAME: &str = "integrity.json";
/// How many times, and for how long, to wait for another process that is creating the key.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(5);

impl SessionFiles {
    /// Reads the integrity key, if it exists.
    pub(super) fn integrity_key(&self) -> Result<Option<Key>, StoreError> {
        let path = layout::keys().join(NAME);
        let read = disk::read(self.disk().as_ref(), &path, KEYRING_BYTES as u64);
        let Some(bytes) = read.map_err(StoreError::disk("read", &path))? else { return Ok(None) };
        // The file has the format of a keyring that was never rotated.
        match Keyring::decode(&bytes) {
            Ok(keyring) => Ok(Some(keyring.current)),
            Err(error) => Err(StoreError::Damaged { path: path.to_string(), problem: error.to_string() }),
        }
    }

    /// The integrity key for writing. The first append in a data directory creates it. Concurrent processes all get the
    /// same key.
    pub(super) fn integrity_key_or_create(&self) -> Result<Key, StoreError> {
        let mut known = self.0.integrity.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = &*known {
            return Ok(key.clone());
        }
        let (dir, disk) = (layout::keys(), self.disk().as_ref());
        let lock = dir.join(".integrity.lock");
        for _ in 0..ATTEMPTS {
            let mut key = self.integrity_key()?;
            if key.is_none() {
                let locked = disk.try_lock(&lock, Sharing::Exclusive);
                if let Some(_lock) = locked.map_err(StoreError::disk("lock", &lock))? {
                    // Another process may have created it before this one got the lock.
                    key = match self.integrity_key()? {
                        Some(key) => Some(key),
                        None => Some(self.make_integrity_key()?),
                    };
                }
            }
            if let Some(key) = key {
                *known = Some(key.clone());
                return Ok(key);
            }
            thread::sleep(PAUSE);
        }
        Err(StoreError::Busy { with: "another process is making the integrity key" })
    }

    fn make_integrity_key(&self) -> Result<Key, StoreError> {
        let (dir, disk) = (layout::keys(), self.disk().as_ref());
        let path = dir.join(NAME);
        let failed = || StoreError::disk("write", &path);
        let mut entropy = [0; 32];
        getrandom::fill(&mut entropy).map_err(|cause| failed()(std::io::Error::other(cause.to_string())))?;
        let keyring = Keyring::new(entropy);
        let temporary = format!("integrity-{:x}{}", disk.unique(), layout::TEMPORARY);
        disk::publish(disk, &dir, &temporary, NAME, keyring.encode().as_bytes()).map_err(failed())?;
        Ok(keyring.current)
    }
}
