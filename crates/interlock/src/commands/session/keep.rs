//! `interlock session keep`.

use serde_json::json;

use super::lookup;
use crate::arguments::SessionKeep;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, Layout};
use crate::service;
use crate::settings::Settings;

pub(super) fn run(arguments: &SessionKeep, settings: &Settings) -> Result<ExitStatus, Failure> {
    let files = service::open_files_to_read(settings)?;
    let id = lookup::session(&files, &arguments.id)?;
    let kept = !arguments.off;
    // Marking twice has no effect.
    if files.is_kept(&id)? != kept {
        files.set_kept(&id, kept)?;
    }
    if arguments.answering.json {
        output::json(&json!({"sessionId": id, "kept": kept}), Layout::Compact)?;
    } else if kept {
        output::text(&format!("{id} is marked: `session gc` never deletes it."))?;
    } else {
        output::text(&format!("{id} is no longer marked: `session gc` may delete it."))?;
    }
    Ok(ExitStatus::Success)
}
