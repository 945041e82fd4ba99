//! `interlock session graph`.

use std::path::Path;

use guide::project::graph::{self, DRAWN_NODES};
use guided::view::{Steps, labels, salvage};
use serde_json::json;

use super::lookup;
use crate::arguments::{GraphFormat, SessionGraph};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, Layout, Overwrite};
use crate::service;
use crate::settings::Settings;

pub(super) async fn run(arguments: &SessionGraph, settings: &Settings) -> Result<ExitStatus, Failure> {
    let store = service::open_sessions(settings)?;
    let id = lookup::session(&*store, &arguments.id).await?;
    let salvaged = salvage(&*store, &id).await?;
    let state = &salvaged.state;
    let run = lookup::run(state, arguments.run.as_deref())?;
    let labels = labels(state, run, &mut Steps::new(&*store), 0..DRAWN_NODES).await;
    let format = arguments.format.unwrap_or_else(|| by_name(arguments.output.as_deref()));
    let drawn = match format {
        GraphFormat::Svg => graph::to_svg(state, &run.id, &labels),
        GraphFormat::Mermaid => graph::to_mermaid(state, &run.id, &labels),
    };
    let picture = drawn.unwrap_or_default();
    if !salvaged.is_healthy() {
        output::note(&format!("The session is {}. The graph shows only its valid part.", salvaged.health()));
    }
    match arguments.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let overwrite = if arguments.force {
                Overwrite::Replace
            } else {
                Overwrite::Refuse { advice: "Choose another name, or overwrite it with --force." }
            };
            output::write_file(path, picture.as_bytes(), overwrite)?;
            let file = path.display().to_string();
            if arguments.answering.json {
                let document =
                    json!({"sessionId": id, "runId": run.id, "format": name(format), "file": file});
                output::json(&document, Layout::Compact)?;
            } else {
                output::text(&format!("Wrote the graph of run {} to {file}.", run.id))?;
            }
        }
        None if arguments.answering.json => {
            let document =
                json!({"sessionId": id, "runId": run.id, "format": name(format), "graph": picture});
            output::json(&document, Layout::Compact)?;
        }
        None => output::bytes(picture.as_bytes())?,
    }
    Ok(ExitStatus::Success)
}

fn by_name(path: Option<&Path>) -> GraphFormat {
    let extension = path.and_then(Path::extension).and_then(|extension| extension.to_str());
    match extension {
        Some("mmd" | "mermaid" | "md") => GraphFormat::Mermaid,
        _ => GraphFormat::Svg,
    }
}

const fn name(format: GraphFormat) -> &'static str {
    match format {
        GraphFormat::Svg => "svg",
        GraphFormat::Mermaid => "mermaid",
    }
}
