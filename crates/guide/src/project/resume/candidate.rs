//! What is offered to somebody who wants to go on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::input::RankingInput;
use super::query::Words;
use super::snippet::snippet_for;
use crate::record::{NodeId, RunId, SessionId};

/// Why a run is offered. In the order of the tiers; [`MatchReason::RepoRoot`] is no tier of
/// its own, and only ever supports another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum MatchReason {
    /// The id is equal.
    #[serde(rename = "matched_exact_id")]
    ExactId,
    /// Every word is in title or notes.
    #[serde(rename = "matched_notes")]
    Notes,
    /// Much of the query is.
    #[serde(rename = "matched_notes_partial")]
    NotesPartial,
    /// The workflow answers the query.
    #[serde(rename = "matched_workflow_id")]
    WorkflowId,
    /// The commit is equal.
    #[serde(rename = "matched_head_sha")]
    HeadSha,
    /// The branches are alike.
    #[serde(rename = "matched_branch")]
    Branch,
    /// Nothing but the time.
    #[serde(rename = "recency_fallback")]
    Recency,
    /// The repository is the same.
    #[serde(rename = "matched_repo_root")]
    RepoRoot,
}

impl MatchReason {
    /// Every reason, the strongest first.
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

    /// The reason in words.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::ExactId => "it has the id you gave",
            Self::Notes => "its title and notes have every word you asked for",
            Self::NotesPartial => "its title and notes have much of what you asked for",
            Self::WorkflowId => "its workflow is named like what you asked for",
            Self::HeadSha => "it was last worked on at the commit you are on",
            Self::Branch => "it was last worked on on your branch, or one named alike",
            Self::Recency => "nothing you gave matches it; it is only recent",
            Self::RepoRoot => "it belongs to the repository you are in",
        }
    }

    pub(super) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// How sure a match is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatchConfidence {
    /// Go on with it.
    Strong,
    /// Look at the preview first.
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

/// A run that is offered, without tokens: those are the engine's to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// Where it would go on.
    pub tip_node_id: NodeId,
    /// The workflow.
    pub workflow_id: String,
    /// What it is about.
    pub session_title: Option<String>,
    /// The branch it was last seen on.
    pub git_branch: Option<String>,
    /// A preview, within its budget.
    pub snippet: String,
    /// How sure the match is.
    pub confidence: MatchConfidence,
    /// Why it is offered, the strongest reason first.
    pub why_matched: Vec<MatchReason>,
    /// The same in a sentence.
    pub match_explanation: String,
    /// Whether nothing is left to do.
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
