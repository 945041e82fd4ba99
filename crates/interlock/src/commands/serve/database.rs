//! A data directory whose database of runs is gone.

use std::path::Path;

use canon::error::Envelope;
use host::runs::audit::anchor::ANCHORS_FILE;
use host::runs::audit::key;

use super::keys::LOCAL_KEY;
use super::open_store;
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

/// The database of runs, in the data directory.
pub(crate) const RUNS: &str = "runs.sqlite3";
/// What to do about a database that is damaged or gone.
pub(crate) const RESTORE: &str =
    "Stop the server and restore the data directory from a copy that `interlock backup` made.";

/// Whether the directory had a database of runs that is not there any more, or is empty. Guided sessions alone need none; the files that are
/// looked for here are only ever made beside one.
pub(crate) fn is_lost(data_dir: &Path) -> bool {
    let is_there = std::fs::metadata(data_dir.join(RUNS)).is_ok_and(|found| found.len() > 0);
    let had_one = [format!("keys/{}", key::FILE), LOCAL_KEY.to_owned(), format!("keys/{ANCHORS_FILE}")];
    !is_there && had_one.iter().any(|name| data_dir.join(name).exists())
}

/// Refuses to make a new database in place of one that is gone: every run, key and workflow would be gone without a word.
pub(super) fn refuse_if_lost(data_dir: &Path) -> Result<(), Failure> {
    if !is_lost(data_dir) {
        return Ok(());
    }
    let file = data_dir.join(RUNS).display().to_string();
    let message = format!("{file} is missing or empty, but this data directory had a run database");
    Err(Envelope::new(CommandErrorCode::RunsDatabaseMissing, message)
        .suggest(format!(
            "{RESTORE} To begin with an empty database on purpose, use `interlock serve --new-database`."
        ))
        .detail("file", file)
        .into())
}

/// Makes an empty database where the directory has lost its own. What was kept of the audit log speaks of the lost one; it is put aside, and so
/// is what is left beside the lost one.
pub(super) fn begin_anew(settings: &Settings) -> Result<(), Failure> {
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
