//! The keys that sign tokens.

use guide::token::{KEYRING_BYTES, Keyring};
use ports::sessions::StoreError;

use super::{SessionFiles, layout};
use crate::disk::{self, Sharing};

const NAME: &str = "keyring.json";

impl SessionFiles {
    /// Reads the keys, if they exist.
    ///
    /// # Errors
    /// [`StoreError::Keyring`], and disk errors.
    pub fn keyring(&self) -> Result<Option<Keyring>, StoreError> {
        let path = layout::keys().join(NAME);
        let read = disk::read(self.disk().as_ref(), &path, KEYRING_BYTES as u64);
        let Some(bytes) = read.map_err(StoreError::disk("read", &path))? else { return Ok(None) };
        Ok(Some(Keyring::decode(&bytes)?))
    }

    /// Reads the keys. If there are none, creates the first from `entropy`. Concurrent processes get the same key or
    /// [`StoreError::Busy`].
    ///
    /// # Errors
    /// As [`SessionFiles::keyring`], and [`StoreError::Busy`].
    pub fn keyring_or_create(&self, entropy: [u8; 32]) -> Result<Keyring, StoreError> {
        if let Some(keyring) = self.keyring()? {
            return Ok(keyring);
        }
        self.change_keys(|keyring| keyring.unwrap_or_else(|| Keyring::new(entropy)))
    }

    /// Rotates the keys: a key from `entropy` becomes the current one, and the current one the previous one. Tokens that
    /// were signed with the former previous key are no longer valid.
    ///
    /// # Errors
    /// As [`SessionFiles::keyring`], and [`StoreError::Busy`].
    pub fn rotate_keys(&self, entropy: [u8; 32]) -> Result<Keyring, StoreError> {
        self.change_keys(|keyring| match keyring {
            Some(keyring) => keyring.rotate(entropy),
            None => Keyring::new(entropy),
        })
    }

    fn change_keys(&self, change: impl FnOnce(Option<Keyring>) -> Keyring) -> Result<Keyring, StoreError> {
        self.prepare()?;
        let (dir, disk) = (layout::keys(), self.disk().as_ref());
        let lock = dir.join(".lock");
        let locked = disk.try_lock(&lock, Sharing::Exclusive).map_err(StoreError::disk("lock", &lock))?;
        let Some(_lock) = locked else { return Err(StoreError::Busy { with: "the keys are being changed" }) };
        let before = self.keyring()?;
        let keyring = change(before.clone());
        if before.as_ref() != Some(&keyring) {
            let temporary = format!("keyring-{:x}{}", disk.unique(), layout::TEMPORARY);
            disk::publish(disk, &dir, &temporary, NAME, keyring.encode().as_bytes())
                .map_err(StoreError::disk("write", &dir.join(NAME)))?;
        }
        Ok(keyring)
    }
}
