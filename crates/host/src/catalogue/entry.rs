//! What the catalogue says about workflows and the places they come from.

use std::path::PathBuf;
use std::sync::Arc;

use guide::record::{WorkflowHash, WorkflowSourceKind};
use guide::workflow::compile::PassNote;
use guide::workflow::ids::IdStatus;
use guide::workflow::pinned::PinnedWorkflow;
use guide::workflow::problem::Problem;
use serde::Serialize;

/// A workflow, as a run started now would pin it, and why it is this one.
#[derive(Clone, Debug)]
pub struct Found {
    /// What a run is pinned to.
    pub workflow: Arc<PinnedWorkflow>,
    /// Its digest.
    pub hash: WorkflowHash,
    /// Where it came from.
    pub source_kind: WorkflowSourceKind,
    /// Which one there: the id of a bundled workflow, a path relative to the project, a file.
    pub source_ref: String,
    /// The [key](SourceInfo::key) of its source.
    pub source: String,
    /// The file; none for a bundled workflow.
    pub path: Option<PathBuf>,
    /// Why this one, in a sentence.
    pub reason: String,
    /// The files with the same id that were not taken.
    pub explanation: Vec<Shadowed>,
    /// What a caller should know besides.
    pub warnings: Vec<String>,
    /// The id to use instead, when an alias was asked for.
    pub canonical_id: Option<String>,
    /// Whether the id has a namespace.
    pub id_status: IdStatus,
    /// An id to rename it to, when it has no namespace.
    pub suggested_id: Option<String>,
    /// Markdown for people who choose a workflow.
    pub about: Option<String>,
    /// Goals that it suits.
    pub examples: Vec<String>,
    /// The tags it is found under.
    pub tags: Vec<String>,
    /// Which pass of the compiler made which line.
    pub passes: Arc<Vec<PassNote>>,
}

/// Everything there is to choose from.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// The workflows, sorted by id.
    pub entries: Vec<Entry>,
    /// The sources, from the lowest precedence to the highest.
    pub sources: Vec<SourceInfo>,
    /// The files that were left out, with what is wrong with them.
    pub problems: Vec<FileProblem>,
    /// The sources that could not be read, or not to their end, in words.
    pub unreadable: Vec<String>,
}

/// A workflow to choose, in full: the command line and the tools show it as it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub workflow_id: String,
    /// What to call it.
    pub name: String,
    pub description: String,
    /// The author's version.
    pub version: String,
    /// What a run started now would be pinned to, as far as bindings do not change it. Not computed for
    /// bundled workflows; see [`bundled_hash`](super::Catalogue::bundled_hash).
    pub workflow_hash: Option<WorkflowHash>,
    /// Where it came from.
    pub source_kind: WorkflowSourceKind,
    pub source_ref: String,
    /// The [key](SourceInfo::key) of its source.
    pub source: String,
    /// The tags it is found under.
    pub tags: Vec<String>,
    /// Goals that it suits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Whether the id has a namespace.
    pub id_status: IdStatus,
    /// An id to rename it to, when it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggested_id: Option<String>,
    /// The files with the same id that were not taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shadowed: Vec<Shadowed>,
}

/// A file with an id that another one has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shadowed {
    /// The [key](SourceInfo::key) of its source.
    pub source: String,
    /// The file.
    pub path: String,
    /// Why it was not taken, for programs.
    pub cause: ShadowCause,
    /// Why it was not taken, for people.
    pub reason: String,
}

/// Why a file was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShadowCause {
    /// Its source comes before the winner's.
    Precedence,
    /// Another file of the same folder has the id, and its name sorts first.
    SameFolder,
    /// It is no valid workflow.
    Broken,
    /// The id belongs to the program.
    Reserved,
}

/// Where workflows come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceInfo {
    /// `built_in`, or the category and the place: `project:/home/me/app/workflows`.
    pub key: String,
    /// Where on the ladder of precedence it stands.
    pub category: SourceCategory,
    /// The kind that runs record.
    pub kind: WorkflowSourceKind,
    /// The folder or the address, for people. An address is without the password that it may contain.
    pub display_name: String,
    /// How many workflow files it has, those that are broken included.
    pub total_workflow_count: usize,
    /// How many of them are taken.
    pub effective_workflow_count: usize,
    /// How many of them give way to another source.
    pub shadowed_workflow_count: usize,
    /// When it was attached, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_at_ms: Option<u64>,
    /// Whether it could not be read.
    pub stale: bool,
}

/// The ladder of precedence, lowest first.
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
    /// A git repository.
    Git,
    /// The project's folder.
    Project,
}

impl SourceCategory {
    /// The name, as keys begin with it.
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

/// A file that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileProblem {
    /// The file.
    pub path: String,
    /// The id that it claims, if it could be read that far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// The kind of its source.
    pub source_kind: WorkflowSourceKind,
    /// What is wrong.
    pub problems: Vec<Problem>,
}
