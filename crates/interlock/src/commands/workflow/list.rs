//! `interlock workflow list`.

use std::fmt::Write as _;

use catalogue::{Entry, Listing};
use guide::record::WorkflowHash;
use guide::workflow::ids::IdStatus;
use serde_json::{Value, json};

use super::{problem_words, wire};
use crate::api::{Api, block_on};
use crate::arguments::{Globals, WorkflowKind, WorkflowList};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, Cell, Column, DIM, Field, HEADING, Layout, Listing as Rows, Table, WARNING};
use crate::progress::Waiting;
use crate::settings::Settings;

/// The shown part of a hash.
const SHORT_HASH: usize = 12;
const NAME_CHARACTERS: usize = 44;

pub(super) fn run(
    arguments: &WorkflowList,
    globals: &Globals,
    settings: Settings,
) -> Result<ExitStatus, Failure> {
    let registered = registered(arguments, globals)?;
    if arguments.kind == Some(WorkflowKind::Run) {
        let registered = registered.unwrap_or_default();
        if arguments.target.answering.json {
            output::json(&json!({"runWorkflows": registered}), Layout::Compact)?;
        } else {
            run_workflows(&registered).print("")?;
        }
        return Ok(ExitStatus::Success);
    }
    let (catalogue, workspace) = super::catalogue(&arguments.sources, settings);
    let waiting = Waiting::on("reading the sources");
    let mut listing = catalogue.list(workspace.as_deref());
    drop(waiting);
    if !arguments.tag.is_empty() {
        listing.entries.retain(|entry| entry.tags.iter().any(|tag| arguments.tag.contains(tag)));
    }
    for entry in listing.entries.iter_mut().filter(|entry| entry.workflow_hash.is_none()) {
        entry.workflow_hash = catalogue.bundled_hash(&entry.workflow_id);
    }
    if arguments.target.answering.json {
        let mut document = serde_json::to_value(&listing).unwrap_or_default();
        if let (Some(registered), Some(members)) = (registered, document.as_object_mut()) {
            members.insert("runWorkflows".to_owned(), registered.into());
        }
        output::json(&document, Layout::Compact)?;
        return Ok(ExitStatus::Success);
    }
    let mut words = words(&listing);
    if let Some(registered) = registered.filter(|registered| !registered.is_empty()) {
        let _ = writeln!(words, "\n{HEADING}Run workflows of the server{HEADING:#}");
        for workflow in &registered {
            let id = workflow["workflowId"].as_str().unwrap_or_default();
            let _ = writeln!(words, "  {}", output::clean(id));
        }
    }
    output::text(&words)?;
    Ok(ExitStatus::Success)
}

/// The run workflows of the selected server; `None` if they are not wanted, or if none was asked for and no server is running.
fn registered(arguments: &WorkflowList, globals: &Globals) -> Result<Option<Vec<Value>>, Failure> {
    let is_wanted = arguments.kind == Some(WorkflowKind::Run) || arguments.target.context.is_some();
    if arguments.kind == Some(WorkflowKind::Guided) {
        return Ok(None);
    }
    match Api::connect(&arguments.target, globals).and_then(|api| block_on(api.all_workflows())) {
        Ok(workflows) => Ok(Some(workflows)),
        Err(failure) if is_wanted => Err(failure),
        Err(_) => Ok(None),
    }
}

fn run_workflows(workflows: &[Value]) -> Rows<2> {
    let mut listing = Rows::new([Column::text("WORKFLOW", 0, 12), Column::fixed("DIGEST", 1)]);
    for workflow in workflows {
        let text = |name: &str| workflow[name].as_str().unwrap_or_default();
        let digest = text("digest");
        let shown: String = digest.chars().take(SHORT_HASH).collect();
        listing.row([text("workflowId").into(), Field::new(shown, digest, DIM)]);
    }
    listing
}

fn words(listing: &Listing) -> String {
    if listing.entries.is_empty() && listing.problems.is_empty() {
        return "No workflows match. Omit --tag to list all workflows.".to_owned();
    }
    let mut table = Table::new(&["id", "name", "version", "source", "hash"]);
    for entry in &listing.entries {
        table.row([
            entry.workflow_id.as_str().into(),
            output::shortened(&entry.name, NAME_CHARACTERS).into(),
            entry.version.as_str().into(),
            wire(&entry.source_kind).into(),
            Cell::styled(entry.workflow_hash.map(short).unwrap_or_default(), DIM),
        ]);
    }
    let mut words = table.to_string();
    winners(&listing.entries, &mut words);
    sources(listing, &mut words);
    problems(listing, &mut words);
    words
}

/// Which file was used where several have the same id, and ids that should be renamed.
fn winners(entries: &[Entry], words: &mut String) {
    let contested: Vec<_> = entries.iter().filter(|entry| !entry.shadowed.is_empty()).collect();
    if !contested.is_empty() {
        let _ = writeln!(words, "\n{HEADING}Duplicate ids{HEADING:#}");
    }
    for entry in contested {
        let _ = writeln!(
            words,
            "  {} from {}: {}",
            output::clean(&entry.workflow_id),
            output::clean(&entry.source),
            output::clean(&entry.source_ref)
        );
        for loser in &entry.shadowed {
            let _ = writeln!(
                words,
                "    {DIM}shadowed:{DIM:#} {} ({})",
                output::clean(&loser.path),
                output::clean(&loser.reason)
            );
        }
    }
    for entry in entries.iter().filter(|entry| entry.id_status == IdStatus::Legacy) {
        let suggestion =
            entry.suggested_id.as_deref().map(|id| format!(": rename it to {id}")).unwrap_or_default();
        let _ = writeln!(
            words,
            "\n{WARNING}warning{WARNING:#} the id {} has no namespace{suggestion}",
            entry.workflow_id
        );
    }
}

fn sources(listing: &Listing, words: &mut String) {
    let folders: Vec<_> = listing.sources.iter().filter(|source| source.key != "built_in").collect();
    if !folders.is_empty() {
        let _ = writeln!(words, "\n{HEADING}Sources, later ones take precedence{HEADING:#}");
    }
    for source in folders {
        let stale = if source.stale { ", cannot be read" } else { "" };
        let _ = writeln!(
            words,
            "  {} {}: {} of {} used{stale}",
            source.category.as_str(),
            output::clean(&source.display_name),
            source.effective_workflow_count,
            source.total_workflow_count
        );
    }
    for trouble in &listing.unreadable {
        let _ = writeln!(words, "  {WARNING}warning{WARNING:#} {}", output::clean(trouble));
    }
}

fn problems(listing: &Listing, words: &mut String) {
    if !listing.problems.is_empty() {
        let _ = writeln!(words, "\n{HEADING}Skipped{HEADING:#}");
    }
    for left_out in &listing.problems {
        for problem in &left_out.problems {
            let problem = if problem.file.is_some() {
                problem.clone()
            } else {
                problem.clone().in_file(&left_out.path)
            };
            words.push_str(&problem_words(&problem));
        }
    }
}

fn short(hash: WorkflowHash) -> String {
    hash.to_hex().chars().take(SHORT_HASH).collect()
}
