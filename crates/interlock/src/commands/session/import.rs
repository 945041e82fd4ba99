//! `interlock session import`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use guide::bundle::BUNDLE_BYTES;

use crate::arguments::SessionImport;
use crate::failure::{Answer, Failure};
use crate::output::{self, Layout, WARNING};
use crate::progress::Waiting;
use crate::service;
use crate::settings::Settings;

pub(super) fn run(arguments: &SessionImport, settings: &Settings) -> Result<Answer, Failure> {
    let source = Some(arguments.file.as_path()).filter(|path| *path != Path::new("-"));
    let bytes = read(source).map_err(|cause| Failure::unreadable(source, cause))?;
    let waiting = Waiting::on("checking and storing the session");
    let outcome = service::open_guided(settings)?.import(&bytes, arguments.as_new)?;
    drop(waiting);
    if arguments.answering.json {
        output::json(&outcome, Layout::Compact)?;
    } else {
        // The id alone on standard output, for scripts; the rest is for eyes.
        if let Some(part) = &outcome.salvaged {
            output::note(&format!(
                "{WARNING}partial data{WARNING:#}: this is the sound part of {}; what followed was not: {}",
                part.session_id,
                output::clean(&part.problem)
            ));
        }
        if outcome.as_new {
            output::note(&format!("Imported {} as a new session.", outcome.exported_session_id));
        }
        output::text(&outcome.session_id)?;
    }
    Ok(Answer::Yes)
}

/// Reads at most one byte more than a bundle may have.
fn read(source: Option<&Path>) -> io::Result<Vec<u8>> {
    let limit = BUNDLE_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    match source {
        Some(path) => File::open(path)?.take(limit).read_to_end(&mut bytes)?,
        None => io::stdin().lock().take(limit).read_to_end(&mut bytes)?,
    };
    Ok(bytes)
}
