//! Resume candidates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::input::RankingInput;
use super::query::Words;
use super::snippet::snippet_for;
use crate::record::{NodeId, RunId, SessionId};

/// Why a run is a candidate, in the order of the tiers. [`MatchReason::RepoRoot`] is not a tier; it only
/// supports another reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum MatchReason {
    #[serde(rename = "matched_exact_id")]
    ExactId,
    /// Every word is in the title or notes.
    #[serde(rename = "matched_notes")]
    Notes,
    /// A weighted share of the words is.
    #[serde(rename = "matched_notes_partial")]
    NotesPartial,
    /// The workflow's id or name matches the query.
    #[serde(rename = "matched_workflow_id")]
    WorkflowId,
    /// The commit is equal.
    #[serde(rename = "matched_head_sha")]
    HeadSha,
    /// The branch is equal, or one is a prefix of the other.
    #[serde(rename = "matched_branch")]
    Branch,
    /// Only the time of the last activity.
    #[serde(rename = "recency_fallback")]
    Recency,
    /// The repository is the same.
    #[serde(rename = "matched_repo_root")]
    RepoRoot,
}

impl MatchReason {
    /// All reasons, the strongest first.
    pub const ALL: &'static [Self] = &[
        Self::ExactId,
        Self::Notes,
        Self::NotesPartial,
        Self::WorkflowId,
        Self::HeadSha,
        Self::Branch,
        Self::Recency,
        Self::RepoRoot,
    ];

    /// The reason as a clause.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::ExactId => "its id is the one you gave",
            Self::Notes => "its title and notes contain every word of the query",
            Self::NotesPartial => "its title and notes contain much of the query",
            Self::WorkflowId => "its workflow's name matches the query",
            Self::HeadSha => "it was last observed at your commit",
            Self::Branch => "it was last observed on your branch or one with a similar name",
            Self::Recency => "it is recent; nothing in the query matches it",
            Self::RepoRoot => "it belongs to your repository",
        }
    }

    pub(super) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// How reliable a match is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatchConfidence {
    /// Resume it.
    Strong,
    /// Read the preview first.
    Medium,
    /// A guess.
    Weak,
}

impl MatchConfidence {
    fn of(reasons: &[MatchReason]) -> Self {
        match reasons.first() {
            Some(MatchReason::ExactId | MatchReason::Notes) => Self::Strong,
            Some(
                MatchReason::NotesPartial
                | MatchReason::WorkflowId
                | MatchReason::HeadSha
                | MatchReason::Branch
                | MatchReason::RepoRoot,
            ) => Self::Medium,
            Some(MatchReason::Recency) if reasons.contains(&MatchReason::RepoRoot) => Self::Medium,
            Some(MatchReason::Recency) | None => Self::Weak,
        }
    }
}

/// A run that can be resumed. Tokens are added by the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    pub session_id: SessionId,
    pub run_id: RunId,
    /// The node to continue from.
    pub tip_node_id: NodeId,
    pub workflow_id: String,
    /// The title of the run; see [`title`](crate::project::summary::title).
    pub session_title: Option<String>,
    /// The last observed branch.
    pub git_branch: Option<String>,
    /// A preview within its budget.
    pub snippet: String,
    pub confidence: MatchConfidence,
    /// The reasons, the strongest first.
    pub why_matched: Vec<MatchReason>,
    /// The reasons as a sentence.
    pub match_explanation: String,
    /// Whether the run is complete.
    pub is_complete: bool,
    /// When the last event was recorded, by the clock.
    pub last_modified_ms: Option<u64>,
}

impl Candidate {
    pub(super) fn new(input: &RankingInput, reasons: Vec<MatchReason>, words: &Words) -> Self {
        Self {
            session_id: input.session_id.clone(),
            run_id: input.run_id.clone(),
            tip_node_id: input.tip_node_id.clone(),
            workflow_id: input.workflow_id.clone(),
            session_title: input.title.clone(),
            git_branch: input.git_branch.clone(),
            snippet: snippet_for(input.title.as_deref(), &input.recap, words),
            confidence: MatchConfidence::of(&reasons),
            match_explanation: explain(&reasons),
            why_matched: reasons,
            is_complete: input.is_complete,
            last_modified_ms: input.last_modified_ms,
        }
    }
}

/// The reasons as one sentence.
fn explain(reasons: &[MatchReason]) -> String {
    let parts: Vec<&str> = reasons.iter().map(|reason| reason.explanation()).collect();
    format!("Offered because {}.", parts.join("; and "))
}
