//! What ranking knows about a run, small enough to keep ten thousand of them in memory.

use canon::budget::truncate;
use serde::{Deserialize, Serialize};

use super::tokens::TokenText;
use crate::project::summary::{observed, title};
use crate::project::{current_output, is_complete, preferred_tip};
use crate::record::{EventIndex, NodeId, ObservationKey, OutputChannel, RunId, SessionId};
use crate::state::{Run, SessionState};

/// The maximum number of ancestors of the tip whose notes are searched.
const ANCESTORS: usize = 100;
/// The maximum bytes of tokens per run: a few hundred distinct words.
const SEARCH_BYTES: usize = 2048;
/// The maximum bytes of notes kept for a preview.
const RECAP_BYTES: usize = 1024;
/// The maximum bytes of tokens of a name.
const NAME_BYTES: usize = 256;

/// One run, as ranking sees it. An index stores it and updates it when the session changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RankingInput {
    pub session_id: SessionId,
    pub run_id: RunId,
    /// The node to continue from.
    pub tip_node_id: NodeId,
    pub workflow_id: String,
    /// The title of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The newest notes, for a preview.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recap: String,
    /// The last observed branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_branch: Option<String>,
    /// The last observed commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_head_sha: Option<String>,
    /// The digest of the last observed repository root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_root_hash: Option<String>,
    /// The index of the last activity of the run.
    pub last_activity_index: EventIndex,
    /// Whether the run is complete.
    pub is_complete: bool,
    /// When the last event was recorded, by the clock. Shown, never compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified_ms: Option<u64>,
    /// The tokens of title and notes.
    pub text_tokens: TokenText,
    /// The tokens of the workflow's id and name.
    pub workflow_tokens: TokenText,
    pub branch_tokens: TokenText,
}

/// The ranking input of a run; `None` before its root node exists.
///
/// `workflow_name` comes from the pinned workflow, which is not part of the state.
pub fn ranking_input(state: &SessionState, run: &Run, workflow_name: Option<&str>) -> Option<RankingInput> {
    let tip = preferred_tip(state, run)?;
    let title = title(state, run);
    let notes: Vec<&str> = state
        .lineage(tip)
        .take(ANCESTORS + 1)
        .filter_map(|node| current_output(state, node, OutputChannel::Recap)?.notes())
        .collect();
    let git_branch = observed(state, ObservationKey::GitBranch);
    Some(RankingInput {
        session_id: state.session_id().clone(),
        run_id: run.id.clone(),
        tip_node_id: tip.id.clone(),
        workflow_id: run.workflow_id.clone(),
        recap: notes.first().map(|newest| truncate(newest, RECAP_BYTES).into_owned()).unwrap_or_default(),
        git_head_sha: observed(state, ObservationKey::GitHeadSha),
        repo_root_hash: observed(state, ObservationKey::RepoRootHash),
        last_activity_index: run.last_activity_index,
        is_complete: is_complete(state, tip),
        last_modified_ms: state.last_timestamp_ms(),
        text_tokens: TokenText::of(title.as_deref().into_iter().chain(notes), SEARCH_BYTES),
        workflow_tokens: TokenText::of(
            [run.workflow_id.as_str()].into_iter().chain(workflow_name),
            NAME_BYTES,
        ),
        branch_tokens: TokenText::of(git_branch.as_deref(), NAME_BYTES),
        git_branch,
        title,
    })
}
