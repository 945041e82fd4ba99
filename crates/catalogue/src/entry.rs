//! Results of catalogue queries: workflows and their sources.

use std::path::PathBuf;
use std::sync::Arc;

use guide::record::{WorkflowHash, WorkflowSourceKind};
use guide::workflow::compile::PassNote;
use guide::workflow::ids::IdStatus;
use guide::workflow::pinned::PinnedWorkflow;
use guide::workflow::problem::Problem;
use serde::Serialize;

/// A workflow in the version that a run started now would be pinned to, and why it was chosen.
#[derive(Clone, Debug)]
pub struct ResolvedWorkflow {
    /// The workflow that a run is pinned to.
    pub workflow: Arc<PinnedWorkflow>,
    pub hash: WorkflowHash,
    pub source_kind: WorkflowSourceKind,
    /// Its location in the source: the id of a bundled workflow, a path relative to the project, or a file.
    pub source_ref: String,
    /// The [key](SourceInfo::key) of its source.
    pub source: String,
    /// The file. `None` for a bundled workflow.
    pub path: Option<PathBuf>,
    /// Why this file was chosen, in one sentence.
    pub reason: String,
    /// The shadowed files with the same id.
    pub explanation: Vec<Shadowed>,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
    /// The canonical id, if an alias was requested.
    pub canonical_id: Option<String>,
    /// Whether the id has a namespace.
    pub id_status: IdStatus,
    /// A suggested id, if the id has no namespace.
    pub suggested_id: Option<String>,
    /// A Markdown description for people who choose a workflow.
    pub about: Option<String>,
    /// Example goals.
    pub examples: Vec<String>,
    /// The tags of the workflow.
    pub tags: Vec<String>,
    /// Which compiler pass created which line.
    pub passes: Arc<Vec<PassNote>>,
}

/// All workflows that can be chosen.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// The workflows, sorted by id.
    pub entries: Vec<Entry>,
    /// The sources, from the lowest precedence to the highest.
    pub sources: Vec<SourceInfo>,
    /// The files that were left out, with their problems.
    pub problems: Vec<FileProblem>,
    /// Messages about sources that could not be read, or only in part.
    pub unreadable: Vec<String>,
}

/// A workflow in a listing. The command line and the tools show it unchanged.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub workflow_id: String,
    /// The display name.
    pub name: String,
    pub description: String,
    /// The author's version.
    pub version: String,
    /// The hash that a run started now would be pinned to, without bindings. Not computed for bundled workflows; see
    /// [`bundled_hash`](super::Catalogue::bundled_hash).
    pub workflow_hash: Option<WorkflowHash>,
    pub source_kind: WorkflowSourceKind,
    pub source_ref: String,
    /// The [key](SourceInfo::key) of its source.
    pub source: String,
    /// The tags of the workflow.
    pub tags: Vec<String>,
    /// Example goals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Whether the id has a namespace.
    pub id_status: IdStatus,
    /// A suggested id, if the id has no namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggested_id: Option<String>,
    /// The shadowed files with the same id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shadowed: Vec<Shadowed>,
}

/// A file whose id is taken by another file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shadowed {
    /// The [key](SourceInfo::key) of its source.
    pub source: String,
    pub path: String,
    /// Why it was not chosen, for programs.
    pub cause: ShadowCause,
    /// Why it was not chosen, for people.
    pub reason: String,
}

/// Why a file was not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShadowCause {
    /// Its source has a lower precedence.
    Precedence,
    /// Another file in the same folder has the id, and its name sorts first.
    SameFolder,
    /// It is not a valid workflow.
    Broken,
    /// The id is reserved for the program.
    Reserved,
}

/// A source of workflows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceInfo {
    /// `built_in`, or the category and the location, such as `project:/home/me/app/workflows`.
    pub key: String,
    /// The category, which determines its precedence.
    pub category: SourceCategory,
    /// The source kind that runs record.
    pub kind: WorkflowSourceKind,
    /// The folder or URL, for people. Passwords are removed from URLs.
    pub display_name: String,
    /// The number of workflow files, including invalid ones.
    pub total_workflow_count: usize,
    /// The number of workflows that are chosen from this source.
    pub effective_workflow_count: usize,
    /// The number of workflows that another source shadows.
    pub shadowed_workflow_count: usize,
    /// When it was attached, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_at_ms: Option<u64>,
    /// Whether it could not be read.
    pub stale: bool,
}

/// The categories of sources, in order of precedence, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceCategory {
    /// Part of the program.
    BuiltIn,
    /// An installed pack.
    Pack,
    /// The user's own folder.
    User,
    /// A folder that was attached.
    Managed,
    /// A folder that this process was started with.
    Configured,
    Git,
    /// The project's folder.
    Project,
}

impl SourceCategory {
    /// The name of the category, as used in keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built_in",
            Self::Pack => "pack",
            Self::User => "user",
            Self::Managed => "managed",
            Self::Configured => "configured",
            Self::Git => "git",
            Self::Project => "project",
        }
    }
}

/// A file that was left out of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileProblem {
    pub path: String,
    /// The id in the file, if it could be parsed that far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    pub source_kind: WorkflowSourceKind,
    /// The problems that were found.
    pub problems: Vec<Problem>,
}
