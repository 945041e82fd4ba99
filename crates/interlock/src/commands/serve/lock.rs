//! Ensures one `serve` per data directory, and announces its address.

use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

use canon::error::Envelope;
use serde::{Deserialize, Serialize};

use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

const LOCK: &str = "serve.lock";
const ANNOUNCEMENT: &str = "serve.json";

/// The `serve` of a data directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Serving {
    pub(crate) url: String,
    pub(crate) pid: u32,
}

/// Locks the data directory for this process. The lock is released when the file is closed, however
/// the process ends.
pub(crate) fn take(settings: &Settings) -> Result<File, Failure> {
    crate::service::open_files(settings)?;
    let path = settings.data_dir.value.join(LOCK);
    let unwritable = |cause| Failure::Unwritable { name: path.display().to_string(), cause };
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(unwritable)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(cause)) => Err(unwritable(cause)),
        Err(TryLockError::WouldBlock) => {
            let first = read(settings)
                .map(|first| format!(": process {} at {}", first.pid, first.url))
                .unwrap_or_default();
            let message = format!("{} is already served{first}", settings.data_dir.value.display());
            Err(Envelope::new(CommandErrorCode::ServeRunning, message)
                .suggest("Use that server, stop it first, or serve another directory with --data-dir.")
                .into())
        }
    }
}

/// Announces the address of this process.
pub(super) fn announce(settings: &Settings, url: &str) -> Result<(), Failure> {
    let path = settings.data_dir.value.join(ANNOUNCEMENT);
    let document = serde_json::json!({"url": url, "pid": std::process::id()}).to_string();
    let write = || -> std::io::Result<()> {
        let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&path)?;
        file.write_all(document.as_bytes())
    };
    write().map_err(|cause| Failure::Unwritable { name: path.display().to_string(), cause })
}

/// Removes the announcement. A stale one is harmless, because readers check the lock first.
pub(super) fn withdraw(settings: &Settings) {
    let _ = std::fs::remove_file(settings.data_dir.value.join(ANNOUNCEMENT));
}

fn read(settings: &Settings) -> Option<Serving> {
    serde_json::from_slice(&std::fs::read(settings.data_dir.value.join(ANNOUNCEMENT)).ok()?).ok()
}

/// The `serve` that uses the data directory, if any.
pub(crate) fn serving(settings: &Settings) -> Option<Serving> {
    let file = File::options().write(true).open(settings.data_dir.value.join(LOCK)).ok()?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => read(settings),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}
