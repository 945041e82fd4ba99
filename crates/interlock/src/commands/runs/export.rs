//! `interlock runs export`.

use crate::api::{Api, block_on};
use crate::arguments::{Globals, RunsExport, RunsExportFormat};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, Overwrite, write_file};
use crate::progress::Progress;

pub(super) fn run(arguments: &RunsExport, globals: &Globals) -> Result<ExitStatus, Failure> {
    let api = Api::connect(&arguments.target, globals)?;
    let lines = block_on(async {
        let mut lines = Vec::new();
        let mut progress = Progress::over(arguments.ids.len(), "Exporting");
        for id in &arguments.ids {
            let run = api.find(id).await?;
            match arguments.format {
                RunsExportFormat::Bundle => lines.push(api.debug_bundle(run.id()).await?.to_string()),
                RunsExportFormat::Jsonl => {
                    let events = api.all_events(run.id()).await?;
                    lines.extend(events.iter().map(|event| event.document().to_string()));
                }
            }
            progress.step();
        }
        Ok(lines)
    })?;
    let mut text = lines.join("\n");
    text.push('\n');
    let Some(path) = &arguments.output else {
        output::bytes(text.as_bytes())?;
        return Ok(ExitStatus::Success);
    };
    let overwrite = match arguments.force {
        true => Overwrite::Replace,
        false => Overwrite::Refuse { advice: "Choose another name, or pass --force." },
    };
    write_file(path, text.as_bytes(), overwrite)?;
    if arguments.target.answering.json {
        let document = serde_json::json!({"file": path.display().to_string(), "lines": lines.len()});
        output::json(&document, output::Layout::Compact)?;
    } else {
        output::text(&format!(
            "Wrote {} line{} to {}.",
            lines.len(),
            if lines.len() == 1 { "" } else { "s" },
            path.display()
        ))?;
    }
    Ok(ExitStatus::Success)
}
