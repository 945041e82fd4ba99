//! Keys, encrypted with the master key.

use std::sync::PoisonError;

use guide::token::{Key, Keyring};
use ports::Cause;
use ports::sessions::{SessionKeys, StoreError, StoreFuture};
use sealing::SealError;

use super::{Sessions, database, unexpected};
use crate::connection::Value;
use crate::error::Failure;

/// The keys that sign tokens.
const KEYRING: &str = "keyring";
/// The key that authenticates chains. Never rotated.
const INTEGRITY: &str = "integrity";
/// How often a change is repeated because another process changed the same keys.
const ATTEMPTS: usize = 8;

impl Sessions {
    fn purpose(&self, name: &str) -> String {
        format!("sessions/{}/{name}", self.tenant())
    }

    /// Reads keys, with the version of their row.
    async fn keys(&self, name: &str) -> Result<Option<(i64, Keyring)>, StoreError> {
        let Some((version, opened)) = self.opened(name).await? else { return Ok(None) };
        Ok(Some((version, Keyring::decode(&opened)?)))
    }

    /// Reads and decrypts a row.
    async fn opened(&self, name: &str) -> Result<Option<(i64, Vec<u8>)>, StoreError> {
        let sql = "select version, sealed from sealed_keys where tenant = $1 and name = $2";
        let rows = self.read(sql, &[&self.tenant(), &name]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let sealed: &[u8] = row.try_get(1).map_err(unexpected)?;
        let opened = self.0.shared.master_key.open(&self.purpose(name), sealed).map_err(sealing)?;
        Ok(Some((row.try_get(0).map_err(unexpected)?, opened)))
    }

    /// Encrypts and stores a value if its row still has this version. Says whether it had.
    async fn store(&self, name: &str, version: Option<i64>, value: &[u8]) -> Result<bool, StoreError> {
        let sealed = self.0.shared.master_key.seal(&self.purpose(name), value);
        let (sealed, tenant) = (sealed.map_err(sealing)?, self.tenant());
        let (sql, mut values): (&str, Vec<Value<'_>>) = match &version {
            None => (
                "with fence as (select 1 from hosts where host_id = $1 for key share)
                 insert into sealed_keys (tenant, name, version, sealed) select $2, $3, 1, $4 from fence
                 on conflict do nothing returning 1",
                vec![&self.0.shared.host_id, &tenant, &name, &sealed],
            ),
            Some(_) => (
                "with fence as (select 1 from hosts where host_id = $1 for key share)
                 update sealed_keys set version = version + 1, sealed = $4
                 where tenant = $2 and name = $3 and version = $5 and exists (select 1 from fence) returning 1",
                vec![&self.0.shared.host_id, &tenant, &name, &sealed],
            ),
        };
        values.extend(version.as_ref().map(|version| version as Value<'_>));
        let (rows, _) = self.write(sql, &values).await?;
        if rows.is_empty()
            && self
                .read("select 1 from hosts where host_id = $1", &[&self.0.shared.host_id])
                .await?
                .is_empty()
        {
            return Err(database(Failure::Fenced));
        }
        Ok(!rows.is_empty())
    }

    /// Changes keys. Of several processes, each sees the result of the previous one.
    async fn change_keys(
        &self,
        name: &str,
        change: impl Fn(Option<Keyring>) -> Keyring,
    ) -> Result<Keyring, StoreError> {
        for _ in 0..ATTEMPTS {
            let (version, before) = self.keys(name).await?.unzip();
            let after = change(before.clone());
            if before.as_ref() == Some(&after) || self.store(name, version, after.encode().as_bytes()).await?
            {
                return Ok(after);
            }
        }
        Err(StoreError::Busy { with: "the keys are being changed" })
    }

    /// The keys that sign tokens, which are these if there are none.
    pub(super) async fn keyring_or(&self, keyring: &Keyring) -> Result<Keyring, StoreError> {
        self.change_keys(KEYRING, |found| found.unwrap_or_else(|| keyring.clone())).await
    }

    /// The secret of a name, which is this one if there is none.
    pub(super) async fn secret_or(&self, name: &str, secret: [u8; 32]) -> Result<[u8; 32], StoreError> {
        let name = format!("secret/{name}");
        for _ in 0..ATTEMPTS {
            if let Some((_, opened)) = self.opened(&name).await? {
                return opened.try_into().map_err(|_| sealing(SealError::Format));
            }
            if self.store(&name, None, &secret).await? {
                return Ok(secret);
            }
        }
        Err(StoreError::Busy { with: "the keys are being changed" })
    }

    /// The key of chains; `None` before the first session.
    pub(super) async fn integrity_key(&self) -> Result<Option<Key>, StoreError> {
        Ok(self.keys(INTEGRITY).await?.map(|(_, keyring)| keyring.current))
    }

    /// The key of chains, created if there is none.
    pub(super) async fn integrity_key_or_create(&self) -> Result<Key, StoreError> {
        if let Some(key) = &*self.0.integrity.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(key.clone());
        }
        let mut entropy = [0; 32];
        getrandom::fill(&mut entropy).map_err(|error| StoreError::Database {
            is_full: false,
            cause: Cause::new(format!("no random bytes: {error}")),
        })?;
        let made = |found: Option<Keyring>| found.unwrap_or_else(|| Keyring::new(entropy));
        let key = self.change_keys(INTEGRITY, made).await?.current;
        *self.0.integrity.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
        Ok(key)
    }
}

fn sealing(error: SealError) -> StoreError {
    let path = "the sealed keys of the database".to_owned();
    StoreError::Damaged { path, problem: format!("{error}; check `database.master_key`") }
}

impl SessionKeys for Sessions {
    fn keyring(&self) -> StoreFuture<'_, Option<Keyring>> {
        self.task(|this| async move { Ok(this.keys(KEYRING).await?.map(|(_, keyring)| keyring)) })
    }

    fn keyring_or_create(&self, entropy: [u8; 32]) -> StoreFuture<'_, Keyring> {
        self.task(move |this| async move {
            let made = |found: Option<Keyring>| found.unwrap_or_else(|| Keyring::new(entropy));
            this.change_keys(KEYRING, made).await
        })
    }

    fn rotate_keys(&self, entropy: [u8; 32]) -> StoreFuture<'_, Keyring> {
        self.task(move |this| async move {
            let rotated = |found: Option<Keyring>| match found {
                Some(keyring) => keyring.rotate(entropy),
                None => Keyring::new(entropy),
            };
            this.change_keys(KEYRING, rotated).await
        })
    }
}
