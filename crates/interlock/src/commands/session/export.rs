//! `interlock session export`.

use std::path::Path;

use canon::error::Envelope;
use guide::bundle::Salvaged;
use guided::{SalvagedExport, Verifier};
use ports::sessions::{ChainState, Verification};
use serde_json::json;

use super::{lookup, signature};
use crate::arguments::SessionExport;
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, Layout, Overwrite, WARNING};
use crate::progress::Waiting;
use crate::service;
use crate::settings::Settings;

pub(super) async fn run(arguments: &SessionExport, settings: &Settings) -> Result<ExitStatus, Failure> {
    let is_stdout = arguments.output == Path::new("-");
    if is_stdout && arguments.sign.is_some() {
        return Err(Envelope::new(
            CommandErrorCode::InputUnreadable,
            "A signed bundle needs a file: its signature is written beside it.",
        )
        .suggest("Name a file with `-o`.")
        .into());
    }
    // Before the work: a key that cannot be read is known at once.
    let key = arguments.sign.as_deref().map(signature::private_key).transpose()?;
    let store = service::open_sessions(settings)?;
    let id = lookup::session(&*store, &arguments.id).await?;
    // A bundle has no chain, and an import begins a new one: this is the last place where an edit is seen.
    if let Ok(Verification { chain: ChainState::Broken { reason, problem }, .. }) =
        store.verify(id.clone()).await
    {
        if key.is_some() {
            return Err(signature::edited(&id, reason, &problem));
        }
        output::note(&format!("{WARNING}edited{WARNING:#}: {reason}: {}", output::clean(&problem)));
    }
    let waiting = Waiting::on("collecting the session");
    let guided = service::guided(service::catalogue(settings), store, Verifier::none());
    let (bundle, part) = if arguments.salvage {
        let SalvagedExport { bundle, events, salvaged } = guided.export_sound_part(&id).await?;
        (bundle, salvaged.map(|salvaged| Part { salvaged, events }))
    } else {
        (guided.export(&id).await?, None)
    };
    drop(waiting);
    if let Some(part) = part.as_ref().filter(|_| !arguments.answering.json) {
        output::note(&part.banner());
    }
    if is_stdout {
        output::bytes(&bundle)?;
        return Ok(ExitStatus::Success);
    }
    let overwrite = if arguments.force {
        Overwrite::Replace
    } else {
        Overwrite::Refuse { advice: "Choose another name, or overwrite it with --force." }
    };
    output::write_file(&arguments.output, &bundle, overwrite)?;
    let signed = match &key {
        Some(key) => {
            let file = signature::beside(&arguments.output);
            // The signature of another bundle is of no use beside this one.
            output::write_file(&file, &key.sign(&bundle), Overwrite::Replace)?;
            Some((file, key.public().fingerprint()))
        }
        None => None,
    };
    let file = arguments.output.display();
    if arguments.answering.json {
        let mut answer = json!({"sessionId": id, "file": file.to_string(), "bytes": bundle.len()});
        if let Some(part) = &part {
            answer["events"] = part.events.into();
            answer["salvaged"] = json!(part.salvaged);
        }
        if let Some((file, fingerprint)) = &signed {
            answer["signature"] = json!({"file": file.display().to_string(), "key": fingerprint});
        }
        output::json(&answer, Layout::Compact)?;
    } else {
        let what = match &part {
            Some(part) => format!("the first {} events of the session", part.events),
            None => "the complete session".to_owned(),
        };
        let mut words = format!("Exported {id} to {file} ({} bytes): {what}, without keys.", bundle.len());
        if let Some((file, fingerprint)) = &signed {
            words += &format!("\nSigned by the key {fingerprint}: {}.", file.display());
        }
        output::text(&words)?;
    }
    Ok(ExitStatus::Success)
}

/// The warning for a partial export.
struct Part {
    salvaged: Salvaged,
    events: usize,
}

impl Part {
    fn banner(&self) -> String {
        format!(
            "{WARNING}partial data{WARNING:#}: the bundle contains the first {} events of {}; the rest is damaged: {}",
            self.events,
            self.salvaged.session_id,
            output::clean(&self.salvaged.problem)
        )
    }
}
