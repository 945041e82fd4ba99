//! `interlock session import`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use guide::bundle::BUNDLE_BYTES;
use guided::Verifier;

use super::signature;
use crate::arguments::SessionImport;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, Layout, WARNING};
use crate::progress::Waiting;
use crate::service;
use crate::settings::Settings;

pub(super) async fn run(arguments: &SessionImport, settings: &Settings) -> Result<ExitStatus, Failure> {
    let source = Some(arguments.file.as_path()).filter(|path| *path != Path::new("-"));
    let bytes = read(source).map_err(|cause| Failure::unreadable(source, cause))?;
    let signer = if arguments.trusted_key.is_empty() {
        None
    } else {
        let beside = || signature::beside(source.unwrap_or(Path::new("bundle")));
        let file = arguments.signature.clone().unwrap_or_else(beside);
        Some(signature::signer(&bytes, &file, &arguments.trusted_key)?)
    };
    let waiting = Waiting::on("checking and storing the session");
    let guided = service::open_guided(settings, Verifier::none())?;
    let outcome = guided.import(bytes, arguments.as_new).await?;
    drop(waiting);
    if arguments.answering.json {
        let mut answer = serde_json::to_value(&outcome).expect("an outcome has a JSON form");
        if let Some(signer) = &signer {
            answer["signedBy"] = signer.as_str().into();
        }
        output::json(&answer, Layout::Compact)?;
    } else {
        // Only the id goes to standard output, for scripts.
        if let Some(part) = &outcome.salvaged {
            output::note(&format!(
                "{WARNING}partial data{WARNING:#}: this is the valid part of {}; the rest was damaged: {}",
                part.session_id,
                output::clean(&part.problem)
            ));
        }
        if let Some(signer) = &signer {
            output::note(&format!("The trusted key {signer} signed it."));
        }
        if outcome.as_new {
            output::note(&format!("Imported {} as a new session.", outcome.exported_session_id));
        }
        output::text(&outcome.session_id)?;
    }
    Ok(ExitStatus::Success)
}

/// Reads at most one byte more than the limit of a bundle.
fn read(source: Option<&Path>) -> io::Result<Vec<u8>> {
    let limit = BUNDLE_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    match source {
        Some(path) => File::open(path)?.take(limit).read_to_end(&mut bytes)?,
        None => io::stdin().lock().take(limit).read_to_end(&mut bytes)?,
    };
    Ok(bytes)
}
