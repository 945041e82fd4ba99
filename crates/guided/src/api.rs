//! Requests and replies of the guided service.

use guide::delegation::ChildHandle;
use guide::record::{Autonomy, BlockerReport, GapReason, GapSeverity, Preferences, RiskPolicy, SessionId};
use guide::verification::{ChildStatus, Verification};
use guide::workflow::compiled::ModelTier;
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// A request to start a run.
#[derive(Clone, Debug, Default)]
pub struct StartRequest {
    pub workflow_id: String,
    pub goal: String,
    /// The workspace of the run. It determines which workflows are available.
    pub workspace: Option<PathBuf>,
    /// Additional inputs.
    pub context: Map<String, Value>,
    /// Preferences that differ from the defaults.
    pub preferences: Option<PreferenceDelta>,
    /// The session that this one was delegated from.
    pub parent_session_id: Option<SessionId>,
    /// For a delegated run: the handle of the delegation.
    pub child_handle: Option<ChildHandle>,
    /// The workspace directory that the host created for the agent. Evidence is verified there.
    pub equipped_root: Option<PathBuf>,
}

/// The handle of a call: a short token, or a pair of state and acknowledgement tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handle {
    /// One token, short or long.
    Single(String),
    /// A state token with its acknowledgement token.
    Pair {
        /// `st.v1.…`
        state_token: String,
        /// `ack.v1.…`. A call without an acknowledgement token changes nothing.
        ack_token: Option<String>,
    },
}

/// The intent of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Acknowledge the pending step and advance.
    Advance,
    /// Return the current position of the run. Changes nothing.
    Rehydrate,
}

/// A request that advances a run, or returns its current position.
#[derive(Clone, Debug)]
pub struct ContinueRequest {
    pub handle: Handle,
    /// The intent of the call.
    pub intent: Intent,
    /// A recap of the step.
    pub notes_markdown: Option<String>,
    /// Structured results.
    pub artifacts: Vec<Value>,
    /// Context keys to set or change.
    pub context: Option<Map<String, Value>>,
    /// Preferences to change.
    pub preferences: Option<PreferenceDelta>,
}

/// Changes of preferences. `None` leaves a preference unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreferenceDelta {
    /// How much the run does without a person.
    pub autonomy: Option<Autonomy>,
    /// How the run deals with risk.
    pub risk_policy: Option<RiskPolicy>,
}

impl PreferenceDelta {
    /// Applies the changes to `before`.
    pub fn over(self, before: Preferences) -> Preferences {
        Preferences {
            autonomy: self.autonomy.unwrap_or(before.autonomy),
            risk_policy: self.risk_policy.unwrap_or(before.risk_policy),
        }
    }
}

/// Part of every reply. It is a constant, so that a replay stays byte-identical. It explains to an agent that sends new
/// notes with a used token why the reply is an old one.
pub const TOKEN_NOTE: &str = "A token advances a run once. If it is sent again, it gets the first reply, \
                              and everything sent with it is ignored: use the newest token.";

/// The reply to starting or continuing a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// Whether the step was accepted.
    pub kind: ReplyKind,
    /// Identifies the run, for callers with several runs.
    pub run: RunWords,
    /// The short token for the next call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
    /// The state token of the node.
    pub state_token: String,
    /// The acknowledgement token for the pending step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_token: Option<String>,
    /// The token for creating a checkpoint at this position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_token: Option<String>,
    /// Whether the run is complete.
    pub is_complete: bool,
    /// The step to perform now.
    pub pending: Option<PendingStep>,
    pub preferences: Preferences,
    /// What the caller should do with this reply.
    pub next_intent: NextIntent,
    /// The exact next call.
    pub next_call: Option<NextCall>,
    /// The call that returns the latest position of the run, if this reply describes an earlier one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_call: Option<NextCall>,
    /// Explains what happens when a token is sent again. Always [`TOKEN_NOTE`].
    pub token_note: &'static str,
    /// Why the step was not accepted.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<BlockedReply>,
    /// The host's own verification of the attempt that created this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// The runs that the pending step delegates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<DelegatedRun>,
    /// For a completed delegated run: the call that returns to the parent run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_call: Option<NextCall>,
    /// The levels of the assessments that were just submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_context: Option<Value>,
    /// The steps and loops that were skipped before this node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedWords>,
    /// The open gaps of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_gaps: Option<OpenGaps>,
    /// Warnings for the caller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A run that the pending step delegates.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegatedRun {
    /// The id of its session, which may not exist yet.
    pub session_id: String,
    /// The call that starts the run. If the run exists, the call returns it.
    pub start_call: NextCall,
    /// The status of the run. It changes, so it is only part of rehydrate replies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ChildStatus>,
}

/// A skipped step or loop, and the context keys that its condition reads. Recorded values are not included, because the
/// reader of the reply may not be allowed to read the context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkippedWords {
    /// The id of the step or loop.
    pub id: String,
    /// The title of the step or loop.
    pub title: String,
    pub keys: Vec<KeyWords>,
}

/// A context key and its allowed values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyWords {
    pub key: String,
    /// A description such as `one of "fix", "report"`. `None` for a key that the workflow does not declare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
}

/// Open gaps. A reply to an advance has the gaps that the call opened. A rehydrate reply, and the last reply of a run,
/// has all open gaps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenGaps {
    pub count: usize,
    /// The most recent gaps, oldest first.
    pub gaps: Vec<GapWords>,
}

/// A gap: something that the run continues without.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GapWords {
    /// The id of the gap. A later call closes the gap by this id.
    pub gap_id: String,
    pub severity: GapSeverity,
    pub reason: GapReason,
    /// What is missing.
    pub summary: String,
}

/// Whether a step was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyKind {
    /// The step was accepted, or the call did not advance.
    Ok,
    /// The step was not accepted.
    Blocked,
}

/// Describes a run: its workflow, its goal and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunWords {
    pub session_id: String,
    pub run_id: String,
    pub workflow_id: String,
    pub workflow_name: String,
    /// The goal of the run.
    pub goal: String,
    /// The number of the pending step, from 1.
    pub step: u32,
    /// The number of steps of the workflow.
    pub steps: u32,
    /// A description in one sentence.
    pub description: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingStep {
    pub step_id: String,
    pub title: String,
    pub prompt: String,
    /// The role that the agent takes in this step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    /// The model tier that the author recommends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
}

/// What the caller should do after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NextIntent {
    /// Perform the step, then advance.
    PerformPendingThenContinue,
    /// Ask the user before advancing.
    AwaitUserConfirmation,
    /// Nothing changed. Perform the step when ready.
    RehydrateOnly,
    /// The run is complete.
    Complete,
}

/// A complete call that the caller can make as it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NextCall {
    pub tool: &'static str,
    pub params: Value,
}

/// Why a step was not accepted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockedReply {
    pub blockers: BlockerReport,
    /// Whether a retry can succeed. Absent if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_continue_token: Option<String>,
    /// The validation of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
}

/// The result of validating an output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Validation {
    /// The problems that were found.
    pub issues: Vec<String>,
    /// How to fix them.
    pub suggestions: Vec<String>,
}

/// The reply to a checkpoint call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointReply {
    /// Identifies the run.
    pub run: RunWords,
    pub checkpoint_node_id: String,
    /// The token to resume from the checkpoint, in any chat.
    pub resume_token: String,
    /// The call to resume from the checkpoint, in any chat. Its token is short enough to copy.
    pub resume_call: NextCall,
    /// The call to continue now.
    pub next_call: NextCall,
    /// Warnings for the caller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A request to find a run to resume.
#[derive(Clone, Debug, Default)]
pub struct ResumeRequest {
    /// The workspace. Its git branch and commit are used for ranking.
    pub workspace: Option<PathBuf>,
    /// Search terms.
    pub query: Option<String>,
    pub run_id: Option<String>,
    pub session_id: Option<String>,
    /// A git branch, instead of that of the workspace.
    pub git_branch: Option<String>,
    /// A git commit, instead of that of the workspace.
    pub git_head_sha: Option<String>,
    /// Whether to search only runs of the same repository.
    pub same_workspace_only: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeReply {
    /// The best matches, best first.
    pub candidates: Vec<Value>,
    /// The number of runs that matched.
    pub total_eligible: usize,
    /// Warnings for the caller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
