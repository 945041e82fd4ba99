//! One line in a list of sessions.

use canon::budget::truncate;
use serde::{Deserialize, Serialize};

use super::{RunStatus, current_output, preferred_tip, run_status};
use crate::record::{EventIndex, NodeId, ObservationKey, OutputChannel, RunId, SessionId, WorkflowHash};
use crate::state::{Run, SessionState};

/// The context keys that describe a run, in order of preference.
pub const TITLE_KEYS: [&str; 6] = ["goal", "taskDescription", "mrTitle", "prTitle", "ticketTitle", "problem"];
/// The maximum length of a title, in bytes.
pub const TITLE_BYTES: usize = 320;

/// The summary of one run in a list of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    pub session_id: SessionId,
    pub run_id: RunId,
    /// The number of runs of the session.
    pub runs: usize,
    pub workflow_id: String,
    /// The pinned workflow. It contains the workflow's name.
    pub workflow_hash: WorkflowHash,
    /// The title; see [`title`].
    pub title: Option<String>,
    pub status: RunStatus,
    /// Whether the run is complete.
    pub is_complete: bool,
    /// The node to continue from.
    pub tip_node_id: Option<NodeId>,
    /// The one-based number of the pending step on its path.
    pub step_ordinal: u32,
    /// The position of the pending step in its workflow, such as `step 4 of 10`; only if the pinned workflow
    /// was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of nodes without children.
    pub tips: u32,
    /// The number of open gaps.
    pub open_gaps: u32,
    /// The number of open critical gaps.
    pub open_critical_gaps: u32,
    /// The last observed branch.
    pub git_branch: Option<String>,
    /// The last observed commit.
    pub git_head_sha: Option<String>,
    /// The last observed repository root.
    pub repo_root: Option<String>,
    /// The digest of that repository root.
    pub repo_root_hash: Option<String>,
    /// The index of the last activity. It defines the order; clock times do not.
    pub last_activity_index: EventIndex,
    /// When the session started, by the clock.
    pub created_ms: Option<u64>,
    /// When the last event was recorded, by the clock.
    pub last_modified_ms: Option<u64>,
}

pub fn session_summary(state: &SessionState, run: &Run) -> SessionSummary {
    let tip = preferred_tip(state, run);
    let status = run_status(state, run);
    SessionSummary {
        session_id: state.session_id().clone(),
        run_id: run.id.clone(),
        runs: state.runs().len(),
        workflow_id: run.workflow_id.clone(),
        workflow_hash: run.workflow_hash,
        title: title(state, run),
        status,
        is_complete: status.is_complete(),
        tip_node_id: tip.map(|tip| tip.id.clone()),
        step_ordinal: tip.map_or(0, |tip| tip.step_ordinal),
        place: None,
        nodes: state.nodes_of(run).len(),
        tips: run.leaf_count,
        open_gaps: run.open_gaps,
        open_critical_gaps: run.open_critical_gaps,
        git_branch: observed(state, ObservationKey::GitBranch),
        git_head_sha: observed(state, ObservationKey::GitHeadSha),
        repo_root: observed(state, ObservationKey::RepoRoot),
        repo_root_hash: observed(state, ObservationKey::RepoRootHash),
        last_activity_index: run.last_activity_index,
        created_ms: state.first_timestamp_ms(),
        last_modified_ms: state.last_timestamp_ms(),
    }
}

/// The title of a run, on one line: the first of [`TITLE_KEYS`] in its context, or else the beginning of the
/// earliest notes on the path to its preferred tip.
pub fn title(state: &SessionState, run: &Run) -> Option<String> {
    let context = state.context(&run.id);
    let given = TITLE_KEYS.iter().find_map(|key| one_line(context.get(*key)?.as_str()?));
    given.or_else(|| {
        // The lineage goes upwards, so the earliest notes are the last.
        let earliest = state
            .lineage(preferred_tip(state, run)?)
            .filter_map(|node| current_output(state, node, OutputChannel::Recap)?.notes());
        earliest.last()?.lines().find_map(|line| one_line(line.trim_start_matches(['#', '-', '*', '>', ' '])))
    })
}

/// The text on one line and within [`TITLE_BYTES`]; `None` if it is empty.
fn one_line(text: &str) -> Option<String> {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > TITLE_BYTES {
            break;
        }
    }
    let cut = truncate(&line, TITLE_BYTES).replace(canon::budget::TRUNCATION_MARKER, "…");
    (!cut.is_empty()).then_some(cut)
}

pub(super) fn observed(state: &SessionState, key: ObservationKey) -> Option<String> {
    state.observation(key).map(|observation| observation.value.text())
}
