//! What goes into the guided service, and what comes out.

use guide::delegation::ChildHandle;
use guide::record::{Autonomy, BlockerReport, GapReason, GapSeverity, Preferences, RiskPolicy, SessionId};
use guide::verification::{ChildStatus, Verification};
use guide::workflow::compiled::ModelTier;
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// A call to begin a run.
#[derive(Clone, Debug, Default)]
pub struct StartRequest {
    pub workflow_id: String,
    /// What the run is for.
    pub goal: String,
    /// The workspace it is about; decides which workflows there are.
    pub workspace: Option<PathBuf>,
    /// Further inputs.
    pub context: Map<String, Value>,
    /// How autonomous the run is, where that is not the default.
    pub preferences: Option<PreferenceDelta>,
    /// The session that this one was delegated from.
    pub parent_session_id: Option<SessionId>,
    /// The piece of work that was handed out, where the run is one.
    pub child_handle: Option<ChildHandle>,
    /// A directory of the host's own making in which the agent works, and evidence is verified.
    pub equipped_root: Option<PathBuf>,
}

/// The handle of a call: the short token, or the locked pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handle {
    /// One token, short or long.
    Single(String),
    /// A state token, and the acknowledgement that goes with it.
    Pair {
        /// `st.v1.…`
        state_token: String,
        /// `ack.v1.…`; a call without one changes nothing.
        ack_token: Option<String>,
    },
}

/// What a caller wants of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// To acknowledge the pending step and go on.
    Advance,
    /// Describe where the run is. Changes nothing.
    Rehydrate,
}

/// A call that advances a run, or asks where it is.
#[derive(Clone, Debug)]
pub struct ContinueRequest {
    pub handle: Handle,
    /// What the caller wants.
    pub intent: Intent,
    /// A recap of the step.
    pub notes_markdown: Option<String>,
    /// Structured results.
    pub artifacts: Vec<Value>,
    /// What changed in the context.
    pub context: Option<Map<String, Value>>,
    /// Changed preferences.
    pub preferences: Option<PreferenceDelta>,
}

/// The preferences that a call changes; the others stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreferenceDelta {
    /// How far the run goes without a person.
    pub autonomy: Option<Autonomy>,
    /// What is done about doubts.
    pub risk_policy: Option<RiskPolicy>,
}

impl PreferenceDelta {
    /// The preferences that are in force once this changes some of them.
    pub fn over(self, before: Preferences) -> Preferences {
        Preferences {
            autonomy: self.autonomy.unwrap_or(before.autonomy),
            risk_policy: self.risk_policy.unwrap_or(before.risk_policy),
        }
    }
}

/// In every reply, word for word the same, so that a replay stays byte-identical: an agent that sends better notes
/// with a used token has to learn why it gets an old answer.
pub const TOKEN_NOTE: &str = "A token advances a run once. Sent again, it always gets the answer it got the first time, \
                              and what is sent with it is ignored: use the newest token.";

/// The answer to starting and continuing.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// Whether the step was taken.
    pub kind: ReplyKind,
    /// Which run this is about, for callers that have several.
    pub run: RunWords,
    /// The short handle for the next call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
    /// The locked handle of the node.
    pub state_token: String,
    /// The locked handle for acknowledging the pending step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_token: Option<String>,
    /// The handle for bookmarking this place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_token: Option<String>,
    /// Whether everything is done.
    pub is_complete: bool,
    /// What to do now.
    pub pending: Option<PendingStep>,
    /// The preferences in force.
    pub preferences: Preferences,
    /// What the caller should do with this reply.
    pub next_intent: NextIntent,
    /// The exact next call.
    pub next_call: Option<NextCall>,
    /// The call that shows the newest place of the run, when this reply is about an earlier one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_call: Option<NextCall>,
    /// What a token does when it is sent a second time: always [`TOKEN_NOTE`].
    pub token_note: &'static str,
    /// Why the step was not taken.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<BlockedReply>,
    /// What the host verified itself for the attempt that led here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// The runs that the pending step hands out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<DelegatedRun>,
    /// For a run that was handed out and is complete: the call that leads back to the run that waits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_call: Option<NextCall>,
    /// Levels of assessments that were just given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_context: Option<Value>,
    /// The steps and loops that did not run on the way here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedWords>,
    /// What the run goes on without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_gaps: Option<OpenGaps>,
    /// What the caller should know besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A run that the pending step hands out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegatedRun {
    /// The session that it has, or will have.
    pub session_id: String,
    /// The call that starts it, or finds it.
    pub start_call: NextCall,
    /// Its status, only in replies to a caller that comes back, because it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ChildStatus>,
}

/// A step or a loop that did not run, and the context keys that decided it. Recorded values are not repeated:
/// whoever reads the reply may not be whoever may read the context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkippedWords {
    /// The step, or the loop.
    pub id: String,
    /// What it is called.
    pub title: String,
    pub keys: Vec<KeyWords>,
}

/// A context key, and what its value may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyWords {
    pub key: String,
    /// In words, such as `one of "fix", "report"`; nothing for a key that the workflow does not declare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
}

/// Gaps: those that a call opened; for a caller that comes back, and at the end of a run, all that are open.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenGaps {
    pub count: usize,
    /// The newest of them, oldest first.
    pub gaps: Vec<GapWords>,
}

/// One gap.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GapWords {
    /// What closes it names it so.
    pub gap_id: String,
    /// How bad it is.
    pub severity: GapSeverity,
    pub reason: GapReason,
    /// What is missing.
    pub summary: String,
}

/// Whether a step was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyKind {
    /// It was, or nothing was asked.
    Ok,
    /// It was not.
    Blocked,
}

/// A run in words: which workflow, what for, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunWords {
    pub session_id: String,
    pub run_id: String,
    pub workflow_id: String,
    pub workflow_name: String,
    /// What the run is for.
    pub goal: String,
    /// Which step is pending, from 1.
    pub step: u32,
    /// How many steps the workflow has.
    pub steps: u32,
    /// All of it in one sentence.
    pub description: String,
}

/// A pending step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingStep {
    pub step_id: String,
    pub title: String,
    /// What to do.
    pub prompt: String,
    /// The stance to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    /// The model that the author would choose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
}

/// What a caller should do with a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NextIntent {
    /// Do the step, then advance.
    PerformPendingThenContinue,
    /// Ask the user before advancing.
    AwaitUserConfirmation,
    /// Nothing changed; do the step when ready.
    RehydrateOnly,
    /// Nothing is left to do.
    Complete,
}

/// A call, ready to be made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NextCall {
    pub tool: &'static str,
    pub params: Value,
}

/// Why a step was not taken.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockedReply {
    /// Every reason.
    pub blockers: BlockerReport,
    /// Whether another attempt can help; absent when it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// The handle for that attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_continue_token: Option<String>,
    /// What was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
}

/// What came of checking an output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Validation {
    /// Each thing that is wrong.
    pub issues: Vec<String>,
    /// What to do about it.
    pub suggestions: Vec<String>,
}

/// The answer to a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointReply {
    /// Which run this is about.
    pub run: RunWords,
    /// The bookmark's node.
    pub checkpoint_node_id: String,
    /// The handle to come back with, from any chat.
    pub resume_token: String,
    /// Coming back, from any chat, with a handle that is short enough to copy.
    pub resume_call: NextCall,
    /// Carrying on now.
    pub next_call: NextCall,
    /// What the caller should know besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A call to find a run again.
#[derive(Clone, Debug, Default)]
pub struct ResumeRequest {
    /// The workspace, for its git facts.
    pub workspace: Option<PathBuf>,
    /// Words to look for.
    pub query: Option<String>,
    pub run_id: Option<String>,
    pub session_id: Option<String>,
    /// A branch, instead of the workspace's.
    pub git_branch: Option<String>,
    /// A commit, instead of the workspace's.
    pub git_head_sha: Option<String>,
    /// Whether to look only at runs of the same repository.
    pub same_workspace_only: bool,
}

/// The answer to looking for a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeReply {
    /// The best matches, best first.
    pub candidates: Vec<Value>,
    /// How many runs were eligible.
    pub total_eligible: usize,
    /// What the caller should know besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
