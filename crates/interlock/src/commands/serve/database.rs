//! Handles a data directory whose run database is missing.

use std::path::Path;

use canon::error::Envelope;
use runs::audit::anchor::ANCHORS_FILE;
use runs::audit::key;

use super::keys::LOCAL_KEY;
use super::open_store;
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

pub(crate) const RUNS: &str = "runs.sqlite3";
pub(crate) const RESTORE: &str =
    "Stop the server and restore the data directory from a copy made by `interlock backup`.";

/// Whether the directory had a run database that is now missing or empty. Guided sessions alone
/// need none; the files checked here are created only together with a database.
pub(crate) fn is_lost(data_dir: &Path) -> bool {
    let is_there = std::fs::metadata(data_dir.join(RUNS)).is_ok_and(|found| found.len() > 0);
    let had_one = [format!("keys/{}", key::FILE), LOCAL_KEY.to_owned(), format!("keys/{ANCHORS_FILE}")];
    !is_there && had_one.iter().any(|name| data_dir.join(name).exists())
}

/// Refuses to create a new database in place of a missing one: all runs, keys and workflows would
/// silently be lost.
pub(super) fn refuse_if_lost(data_dir: &Path) -> Result<(), Failure> {
    if !is_lost(data_dir) {
        return Ok(());
    }
    let file = data_dir.join(RUNS).display().to_string();
    let message = format!("{file} is missing or empty, but this data directory had a run database");
    Err(Envelope::new(CommandErrorCode::RunsDatabaseMissing, message)
        .suggest(format!(
            "{RESTORE} To start with an empty database instead, use `interlock serve --new-database`."
        ))
        .detail("file", file)
        .into())
}

/// Creates an empty database where the previous one is missing. The audit checkpoints of the old
/// database and its leftover files are moved aside.
pub(super) fn start_empty(settings: &Settings) -> Result<(), Failure> {
    let data_dir = &settings.data_dir.value;
    if !is_lost(data_dir) {
        return Ok(());
    }
    for name in
        [format!("keys/{ANCHORS_FILE}"), RUNS.to_owned(), format!("{RUNS}-wal"), format!("{RUNS}-shm")]
    {
        let from = data_dir.join(&name);
        match std::fs::rename(&from, data_dir.join(format!("{name}.old"))) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(cause) => return Err(Failure::Unwritable { name: from.display().to_string(), cause }),
        }
    }
    open_store(settings).map(drop)
}
