//! Keys that all hosts of a database share. Without a master key, each host has its own in its data directory.

use guide::token::Keyring;
use postgres::PostgresSessions;
use runs::AuditKey;
use runs::audit::key::FILE;
use system::SystemEntropy;

use super::store::Store;
use crate::failure::Failure;
use crate::settings::Settings;

/// The keys that sign tokens. The first host of a database passes its own on, so that its tokens stay valid.
pub(super) fn keyring(store: &Store, local: Keyring) -> Result<Keyring, Failure> {
    match store.sessions() {
        None => Ok(local),
        Some(sessions) => wait(async { Ok(sessions.keyring_or(local).await?) }),
    }
}

/// The key that signs the audit log. The first host of a database passes its own on, so that its checkpoints stay valid.
pub(super) fn audit_key(settings: &Settings, store: &Store) -> Result<AuditKey, Failure> {
    let folder = settings.data_dir.value.join("keys");
    let unreadable =
        |cause| Failure::Unreadable { name: format!("the audit key in {}", folder.display()), cause };
    let local = AuditKey::load_or_create(&folder, &SystemEntropy).map_err(unreadable)?;
    let Some(sessions) = store.sessions() else { return Ok(local) };
    let digits = std::fs::read_to_string(folder.join(FILE)).map_err(unreadable)?;
    let seed = canon::encoding::from_hex(digits.trim_end()).ok_or_else(|| {
        unreadable(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            "the key is not 64 hexadecimal digits",
        ))
    })?;
    wait(shared_audit_key(sessions, seed))
}

async fn shared_audit_key(sessions: &PostgresSessions, seed: [u8; 32]) -> Result<AuditKey, Failure> {
    Ok(AuditKey::from_seed(sessions.secret_or("audit", seed).await?))
}

/// Waits for the database. Its work is done by other threads.
fn wait<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::task::block_in_place(|| ports::wait(work))
}
