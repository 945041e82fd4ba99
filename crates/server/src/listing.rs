//! What `list_workflows` shows of the catalogue.
//!
//! The complete catalogue costs an agent many tokens. A call without tags therefore gets a summary of the
//! bundled workflows by tag. Workflows that the user added are always listed completely.

use catalogue::{Entry, FileProblem, Listing, SourceInfo};
use guide::record::{WorkflowHash, WorkflowSourceKind};
use guide::workflow::problem::Problem;
use guide::workflow::registry::{Tag, tags};
use serde::Serialize;

/// The address of the resource that lists the tags.
pub const TAGS_URI: &str = "interlock://tags";

/// How many workflows a tag names as examples.
const EXAMPLES: usize = 5;
/// The maximum number of listed problems of a broken file; `interlock workflow validate` lists all.
const PROBLEMS: usize = 5;

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Any of these tags; all workflows, without.
    pub tags: Option<Vec<String>>,
    /// Whether to say where workflows come from.
    pub include_sources: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    pub workflows: Vec<ShownWorkflow>,
    /// The digest of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag_summary: Option<Vec<TagSummary>>,
    /// What to do with the digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_step: Option<&'static str>,
    /// Where workflows come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<SourceInfo>>,
    /// Files that were left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub validation_warnings: Vec<BrokenFile>,
    /// What else may make the list incomplete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownWorkflow {
    /// The workflow, its hash included.
    #[serde(flatten)]
    pub entry: Entry,
    /// `workflow`
    pub kind: &'static str,
}

/// A file that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokenFile {
    /// The id that it claims, if it could be read that far.
    pub workflow_id: Option<String>,
    pub source_kind: WorkflowSourceKind,
    pub file: String,
    /// What is wrong with it, and what to do.
    pub errors: Vec<String>,
}

/// The bundled workflows of one tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TagSummary {
    /// The tag.
    pub id: &'static str,
    /// What to call it.
    pub display_name: &'static str,
    /// How many workflows carry it.
    pub count: usize,
    /// Situations in which to look here.
    pub when: &'static [&'static str],
    /// The ids of some of them.
    pub examples: Vec<String>,
}

/// What a caller who asks for `filter` is shown of `listing`. Hashes that it lacks come from `hash_of`.
pub fn show(listing: Listing, filter: &Filter, hash_of: impl Fn(&str) -> Option<WorkflowHash>) -> Shown {
    let Listing { entries, sources, problems, unreadable } = listing;
    let wanted = filter.tags.as_deref().filter(|tags| !tags.is_empty());
    let summary = wanted.is_none().then(|| summarise(&entries));
    let workflows = entries
        .into_iter()
        .filter(|entry| match wanted {
            Some(tags) => entry.tags.iter().any(|tag| tags.contains(tag)),
            None => entry.source_kind != WorkflowSourceKind::Bundled,
        })
        .map(|mut entry| {
            entry.workflow_hash = entry.workflow_hash.or_else(|| hash_of(&entry.workflow_id));
            ShownWorkflow { entry, kind: "workflow" }
        })
        .collect();
    Shown {
        workflows,
        next_step: summary.is_some().then_some(
            "Choose the tag that fits the task and call list_workflows again with it, or start one of the \
             examples.",
        ),
        tag_summary: summary,
        sources: filter.include_sources.then_some(sources),
        validation_warnings: problems.into_iter().map(broken).collect(),
        warnings: unreadable,
    }
}

fn broken(file: FileProblem) -> BrokenFile {
    let words = |Problem { path, message, fix, .. }: &Problem| {
        let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
        format!("{place}{}. {fix}", message.trim_end_matches('.')).trim_end().to_owned()
    };
    let mut errors: Vec<String> = file.problems.iter().take(PROBLEMS).map(words).collect();
    if let Some(more) = file.problems.len().checked_sub(PROBLEMS).filter(|more| *more > 0) {
        errors.push(format!("{more} more; `interlock workflow validate` lists them all."));
    }
    BrokenFile { workflow_id: file.workflow_id, source_kind: file.source_kind, file: file.path, errors }
}

fn summarise(entries: &[Entry]) -> Vec<TagSummary> {
    let bundled: Vec<_> =
        entries.iter().filter(|entry| entry.source_kind == WorkflowSourceKind::Bundled).collect();
    tags()
        .iter()
        .filter_map(|&Tag { id, display_name, when }| {
            let carry = bundled.iter().filter(|entry| entry.tags.iter().any(|tag| tag == id));
            let ids: Vec<String> = carry.map(|entry| entry.workflow_id.clone()).collect();
            // A bundle that was turned off leaves no empty headings behind.
            (!ids.is_empty()).then(|| TagSummary {
                id,
                display_name,
                count: ids.len(),
                when,
                examples: ids.into_iter().take(EXAMPLES).collect(),
            })
        })
        .collect()
}

/// Every tag, for the resource that lists them.
pub fn tag_definitions() -> serde_json::Value {
    tags()
        .iter()
        .map(|tag| {
            let workflows: Vec<&str> = tag.workflows().map(|workflow| workflow.id).collect();
            serde_json::json!({
                "id": tag.id, "displayName": tag.display_name, "when": tag.when, "workflows": workflows,
            })
        })
        .collect()
}
