//! `interlock workflow list`.

use std::fmt::Write as _;

use guide::record::WorkflowHash;
use guide::workflow::ids::IdStatus;
use host::catalogue::{Entry, Listing};

use super::{problem_words, wire};
use crate::arguments::WorkflowList;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, Cell, DIM, HEADING, Layout, Table, WARNING};
use crate::progress::Waiting;
use crate::settings::Settings;

/// The shown part of a hash.
const SHORT_HASH: usize = 12;
const NAME_CHARACTERS: usize = 44;

pub(super) fn run(arguments: &WorkflowList, settings: Settings) -> Result<ExitStatus, Failure> {
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
    if arguments.answering.json {
        output::json(&listing, Layout::Compact)?;
    } else {
        output::text(&words(&listing))?;
    }
    Ok(ExitStatus::Success)
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
