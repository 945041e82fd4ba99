//! `interlock backup`.

use canon::error::Envelope;
use serde_json::json;

use crate::arguments::{Backup, Globals};
use crate::commands::serve::open_store;
use crate::failure::{Answer, CommandErrorCode, Failure};
use crate::output::{self, Layout};
use crate::settings::Settings;

/// Copies the database of runs as it is at one moment.
pub(crate) fn run(arguments: &Backup, globals: &Globals) -> Result<Answer, Failure> {
    let settings = Settings::load(globals)?;
    let store = open_store(&settings)?;
    let unwritable = |cause| Failure::Unwritable { name: arguments.dir.display().to_string(), cause };
    std::fs::create_dir_all(&arguments.dir).map_err(unwritable)?;
    let target = arguments.dir.join("runs.sqlite3");
    if target.exists() {
        return Err(Envelope::new(
            CommandErrorCode::OutputExists,
            format!("{} is there already", target.display()),
        )
        .suggest("Use another folder: a copy is never written over another.")
        .into());
    }
    let partial = arguments.dir.join("runs.sqlite3.partial");
    let _ = std::fs::remove_file(&partial);
    store.back_up(&partial, &|_, _| ()).map_err(|error| unwritable(std::io::Error::other(error)))?;
    std::fs::rename(&partial, &target).map_err(unwritable)?;
    let bytes = std::fs::metadata(&target).map_or(0, |metadata| metadata.len());
    if arguments.answering.json {
        output::json(&json!({"file": target.display().to_string(), "bytes": bytes}), Layout::Compact)?;
    } else {
        output::text(&format!("{} ({bytes} bytes)", target.display()))?;
    }
    Ok(Answer::Yes)
}
