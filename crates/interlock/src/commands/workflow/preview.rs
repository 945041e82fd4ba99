//! `interlock workflow preview`.

use std::path::Path;

use guide::workflow::preview;
use serde_json::json;

use super::{problem_words, validated};
use crate::arguments::{PreviewFormat, WorkflowPreview};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, Layout, Overwrite};

pub(super) fn run(arguments: &WorkflowPreview) -> Result<ExitStatus, Failure> {
    let validation = validated(&arguments.file)?;
    let json = arguments.answering.json;
    let Some(compiled) = validation.compiled else {
        if json {
            output::json(&json!({"valid": false, "problems": validation.problems}), Layout::Compact)?;
        } else {
            output::text(&validation.problems.iter().map(problem_words).collect::<String>())?;
        }
        return Ok(ExitStatus::Negative);
    };
    let format = arguments.format.unwrap_or_else(|| by_name(arguments.output.as_deref()));
    let picture = match format {
        PreviewFormat::Text => preview::to_text(&compiled.workflow),
        PreviewFormat::Mermaid => preview::to_mermaid(&compiled.workflow),
        PreviewFormat::Svg => preview::to_svg(&compiled.workflow),
    };
    let mut document = json!({"workflowId": compiled.workflow.workflow_id, "format": name(format)});
    match arguments.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let overwrite = if arguments.force {
                Overwrite::Replace
            } else {
                Overwrite::Refuse { advice: "Choose another name, or replace it with --force." }
            };
            output::write_file(path, picture.as_bytes(), overwrite)?;
            if json {
                document["file"] = path.display().to_string().into();
                output::json(&document, Layout::Compact)?;
            } else {
                output::text(&format!(
                    "Wrote the graph of {} to {}.",
                    compiled.workflow.workflow_id,
                    path.display()
                ))?;
            }
        }
        None if json => {
            document["picture"] = picture.into();
            output::json(&document, Layout::Compact)?;
        }
        None => output::bytes(picture.as_bytes())?,
    }
    Ok(ExitStatus::Success)
}

fn by_name(path: Option<&Path>) -> PreviewFormat {
    match path.and_then(Path::extension).and_then(|extension| extension.to_str()) {
        Some("svg") => PreviewFormat::Svg,
        Some("mmd" | "mermaid" | "md") => PreviewFormat::Mermaid,
        Some(_) | None => PreviewFormat::Text,
    }
}

const fn name(format: PreviewFormat) -> &'static str {
    match format {
        PreviewFormat::Text => "text",
        PreviewFormat::Mermaid => "mermaid",
        PreviewFormat::Svg => "svg",
    }
}
