//! `interlock session keep`.

use serde_json::json;

use super::lookup;
use crate::arguments::SessionKeep;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, Layout};
use crate::service;
use crate::settings::Settings;

pub(super) async fn run(arguments: &SessionKeep, settings: &Settings) -> Result<ExitStatus, Failure> {
    let store = service::open_sessions(settings)?;
    let id = lookup::session(&*store, &arguments.id).await?;
    let kept = !arguments.off;
    // Marking twice has no effect.
    if store.is_kept(id.clone()).await? != kept {
        store.set_kept(id.clone(), kept).await?;
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
