//! `interlock session export`.

use std::path::Path;

use serde_json::json;

use super::lookup;
use crate::arguments::SessionExport;
use crate::failure::{Answer, Failure};
use crate::output::{self, Layout, Overwrite};
use crate::progress::Waiting;
use crate::service;
use crate::settings::Settings;

pub(super) fn run(arguments: &SessionExport, settings: &Settings) -> Result<Answer, Failure> {
    let files = service::open_files_to_read(settings)?;
    let id = lookup::session(&files, &arguments.id)?;
    let waiting = Waiting::on("collecting the session");
    let bundle = service::guided(settings, files).export(&id)?;
    drop(waiting);
    if arguments.output == Path::new("-") {
        output::bytes(&bundle)?;
        return Ok(Answer::Yes);
    }
    let overwrite = if arguments.force {
        Overwrite::Replace
    } else {
        Overwrite::Refuse { advice: "Choose another name, or replace it with --force." }
    };
    output::write_file(&arguments.output, &bundle, overwrite)?;
    let file = arguments.output.display();
    if arguments.answering.json {
        output::json(
            &json!({"sessionId": id, "file": file.to_string(), "bytes": bundle.len()}),
            Layout::Compact,
        )?;
    } else {
        output::text(&format!(
            "{id} is in {file} ({} bytes). It holds the whole session and no keys.",
            bundle.len()
        ))?;
    }
    Ok(Answer::Yes)
}
