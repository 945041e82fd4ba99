//! One line of a list of sessions.

use canon::budget::truncate;
use serde::{Deserialize, Serialize};

use super::{RunStatus, current_output, preferred_tip, run_status};
use crate::record::{EventIndex, NodeId, ObservationKey, OutputChannel, RunId, SessionId, WorkflowHash};
use crate::state::{Run, SessionState};

/// The context keys that say what a run is about, in the order in which they are asked.
pub const TITLE_KEYS: [&str; 6] = ["goal", "taskDescription", "mrTitle", "prTitle", "ticketTitle", "problem"];
/// The longest title: a line, not a document.
pub const TITLE_BYTES: usize = 320;

/// What a list of sessions says about one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    pub session_id: SessionId,
    pub run_id: RunId,
    /// How many runs the session has.
    pub runs: usize,
    pub workflow_id: String,
    /// What the run is pinned to. What the workflow is called is in the pinned workflow.
    pub workflow_hash: WorkflowHash,
    /// What it is about.
    pub title: Option<String>,
    /// Where it stands.
    pub status: RunStatus,
    /// Whether nothing is left to do.
    pub is_complete: bool,
    /// Where it would go on.
    pub tip_node_id: Option<NodeId>,
    /// Which step of its path is pending there, from 1.
    pub step_ordinal: u32,
    /// The pending step in its workflow, such as `step 4 of 10`; only where the pinned workflow was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// How many nodes it has.
    pub nodes: usize,
    /// How many of them have no children.
    pub tips: u32,
    /// How many gaps are open.
    pub open_gaps: u32,
    /// How many of them are critical.
    pub open_critical_gaps: u32,
    /// The branch it was last seen on.
    pub git_branch: Option<String>,
    /// The commit it was last seen on.
    pub git_head_sha: Option<String>,
    /// The repository it was last seen in.
    pub repo_root: Option<String>,
    /// The identity of that repository.
    pub repo_root_hash: Option<String>,
    /// The last activity. Orders; the clock does not.
    pub last_activity_index: EventIndex,
    /// When the session began, by the clock.
    pub created_ms: Option<u64>,
    /// When the last event was recorded, by the clock.
    pub last_modified_ms: Option<u64>,
}

/// The summary of a run.
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

/// What a run is about, on one line: the first of [`TITLE_KEYS`] that its context has, or else
/// the beginning of the earliest notes on the way to its preferred tip.
pub fn title(state: &SessionState, run: &Run) -> Option<String> {
    let context = state.context(&run.id);
    let given = TITLE_KEYS.iter().find_map(|key| one_line(context.get(*key)?.as_str()?));
    given.or_else(|| {
        // The walk is up, and the earliest notes are the last that it meets.
        let earliest = state
            .lineage(preferred_tip(state, run)?)
            .filter_map(|node| current_output(state, node, OutputChannel::Recap)?.notes());
        earliest.last()?.lines().find_map(|line| one_line(line.trim_start_matches(['#', '-', '*', '>', ' '])))
    })
}

/// The text on one line and within [`TITLE_BYTES`]; nothing if there is none.
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
