//! Replies about workflows and their sources.

use std::fmt::Write as _;

use catalogue::{ResolvedWorkflow, Shadowed};
use guide::record::WorkflowSourceKind;
use guide::workflow::compiled::SequenceItem;

use super::one_line;
use crate::call::{InspectMode, SourceAction};
use crate::listing::Shown;

/// A reply to `list_workflows`.
pub(super) fn listing(shown: &Shown) -> String {
    let mut text = String::new();
    if !shown.workflows.is_empty() {
        text.push_str("# Workflows\n\n");
        for workflow in shown.workflows.iter().map(|shown| &shown.entry) {
            let _ = writeln!(
                text,
                "- `{}` ({}): {}",
                workflow.workflow_id,
                workflow.name,
                one_line(&workflow.description)
            );
            if workflow.source_kind != WorkflowSourceKind::Bundled {
                let _ = writeln!(text, "  From {}, {}.", workflow.source, workflow.source_ref);
            }
            shadowed(&workflow.shadowed, &mut text);
        }
        text.push('\n');
    } else if shown.tag_summary.as_ref().is_none_or(Vec::is_empty) {
        text.push_str("No workflow matches.\n\n");
    }
    if let Some(summary) = shown.tag_summary.as_ref().filter(|summary| !summary.is_empty()) {
        text.push_str("# Workflows that come with the program, by tag\n\n");
        for tag in summary {
            let ids: Vec<String> = tag.examples.iter().map(|id| format!("`{id}`")).collect();
            let more = if tag.count > ids.len() { ", …" } else { "" };
            let _ = writeln!(
                text,
                "- `{}` ({}), when {}: {}{more}",
                tag.id,
                tag.count,
                tag.when.join("; "),
                ids.join(", ")
            );
        }
        text.push('\n');
    }
    if let Some(sources) = &shown.sources {
        text.push_str("# Sources, lowest precedence first\n\n");
        for source in sources {
            let _ = writeln!(
                text,
                "- {} ({}): {} of {} workflows can be started, {} are overridden by another source{}",
                source.display_name,
                source.category.as_str(),
                source.effective_workflow_count,
                source.total_workflow_count,
                source.shadowed_workflow_count,
                if source.stale { "; it could not be read" } else { "" },
            );
        }
        text.push('\n');
    }
    if !shown.validation_warnings.is_empty() {
        text.push_str("# Files that cannot be used\n\n");
        for broken in &shown.validation_warnings {
            let id = broken.workflow_id.as_ref().map_or_else(String::new, |id| format!(" (`{id}`)"));
            let _ = writeln!(text, "- {}{id}: {}", broken.file, broken.errors.join("; "));
        }
        text.push('\n');
    }
    for warning in &shown.warnings {
        let _ = writeln!(text, "Warning: {warning}");
    }
    match shown.next_step {
        Some(next) => {
            let _ = writeln!(text, "{next}");
        }
        None if !shown.workflows.is_empty() => {
            text.push_str(
                "Start one with start_workflow: send its `workflowId`, and the `goal` in one \
                           sentence.\n",
            );
        }
        None => text.push_str("Call list_workflows without tags to list all workflows.\n"),
    }
    text
}

/// A reply to `inspect_workflow`.
pub(super) fn inspection(found: &ResolvedWorkflow, mode: InspectMode) -> String {
    let workflow = &found.workflow;
    let mut text = format!(
        "# {}\n\n{}\n\nId `{}`, version {}, from {} ({}). {} A new run is pinned to {}.\n",
        workflow.name,
        workflow.description.trim_end(),
        workflow.workflow_id,
        workflow.version,
        found.source,
        found.source_ref,
        found.reason.trim_end(),
        found.hash,
    );
    shadowed(&found.explanation, &mut text);
    for warning in &found.warnings {
        let _ = writeln!(text, "\nWarning: {warning}");
    }
    if mode == InspectMode::Metadata {
        return text;
    }
    for (heading, lines) in [
        ("Before the workflow can start", &workflow.preconditions),
        ("Ask the user first", &workflow.clarification_prompts),
        ("Rules throughout", &workflow.meta_guidance),
    ] {
        if !lines.is_empty() {
            let _ = write!(text, "\n{heading}:\n\n");
            for line in lines {
                let _ = writeln!(text, "- {}", one_line(line));
            }
        }
    }
    text.push_str("\n## Steps\n");
    for (index, step) in workflow.steps.iter().enumerate() {
        let inside = workflow.loops.iter().find(|one| {
            one.body
                .iter()
                .any(|item| matches!(item, SequenceItem::Step { step_id } if *step_id == step.step_id))
        });
        let within = inside.map_or_else(String::new, |one| format!(", repeated in {:?}", one.title));
        let _ = write!(
            text,
            "\n### {}. {} (`{}`{within})\n\n{}\n",
            index + 1,
            step.title,
            step.step_id.as_str(),
            step.prompt.trim_end()
        );
    }
    text.push_str("\nThis is a preview. Start the workflow to do the steps, one at a time.\n");
    text
}

/// A reply to `manage_workflow_source`.
pub(super) fn source(action: SourceAction, path: &str) -> String {
    match action {
        SourceAction::Attach => {
            format!("{path} is attached: list_workflows now lists its workflows.\n")
        }
        SourceAction::Detach => format!(
            "{path} is detached. Its files were not changed, and runs of its workflows can continue.\n"
        ),
    }
}

/// The files with the same id that are not used, and why.
fn shadowed(files: &[Shadowed], text: &mut String) {
    for file in files {
        let _ = writeln!(text, "  Not chosen: {} ({})", file.path, file.reason.trim_end_matches('.'));
    }
}
