//! `interlock session export`.

use std::path::Path;

use guide::bundle::Salvaged;
use host::guided::SalvagedExport;
use serde_json::json;

use super::lookup;
use crate::arguments::SessionExport;
use crate::failure::{Answer, Failure};
use crate::output::{self, Layout, Overwrite, WARNING};
use crate::progress::Waiting;
use crate::service;
use crate::settings::Settings;

pub(super) fn run(arguments: &SessionExport, settings: &Settings) -> Result<Answer, Failure> {
    let files = service::open_files_to_read(settings)?;
    let id = lookup::session(&files, &arguments.id)?;
    let waiting = Waiting::on("collecting the session");
    let guided = service::guided(settings, files);
    let (bundle, part) = if arguments.salvage {
        let SalvagedExport { bundle, events, salvaged } = guided.export_sound_part(&id)?;
        (bundle, salvaged.map(|salvaged| Part { salvaged, events }))
    } else {
        (guided.export(&id)?, None)
    };
    drop(waiting);
    if let Some(part) = part.as_ref().filter(|_| !arguments.answering.json) {
        output::note(&part.banner());
    }
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
        let mut answer = json!({"sessionId": id, "file": file.to_string(), "bytes": bundle.len()});
        if let Some(part) = &part {
            answer["events"] = part.events.into();
            answer["salvaged"] = json!(part.salvaged);
        }
        output::json(&answer, Layout::Compact)?;
    } else {
        let what = match &part {
            Some(part) => format!("the first {} events of the session", part.events),
            None => "the whole session".to_owned(),
        };
        output::text(&format!("{id} is in {file} ({} bytes). It holds {what} and no keys.", bundle.len()))?;
    }
    Ok(Answer::Yes)
}

/// What is said of an export that is not the whole session.
struct Part {
    salvaged: Salvaged,
    events: usize,
}

impl Part {
    fn banner(&self) -> String {
        format!(
            "{WARNING}partial data{WARNING:#}: the bundle holds the first {} events of {}; what follows is not sound: {}",
            self.events,
            self.salvaged.session_id,
            output::clean(&self.salvaged.problem)
        )
    }
}
