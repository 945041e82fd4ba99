//! A session turn by turn: what programs get, and what the words are made of.

use canon::json::{self, Limits};
use guide::project::summary::title;
use guide::project::{RunStatus, current_output, current_outputs, is_complete, preferred_tip, run_status};
use guide::record::budgets::ARTIFACT_BYTES;
use guide::record::{
    ArtifactRef, Block, Blocker, DivergenceReason, EdgeCauseKind, EngineState, GapReason, GapSeverity,
    NodeId, NodeKind, OutputChannel, OutputPayload, Preferences, RunId, SessionId, WorkflowHash,
};
use guide::state::{Node, Run, SessionState};
use serde::Serialize;
use serde_json::{Map, Value};
use storage::files::SessionFiles;

use super::Salvaged;
use super::steps::Steps;

/// A session, replayed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Replay {
    pub(super) session_id: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent_session_id: Option<SessionId>,
    pub(super) health: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) damage: Option<String>,
    pub(super) kept: bool,
    /// Why it is only a part, if it was made of what was left of another session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) salvaged: Option<guide::bundle::Salvaged>,
    pub(super) events: u64,
    pub(super) created_ms: Option<u64>,
    pub(super) last_modified_ms: Option<u64>,
    pub(super) runs: Vec<RunReplay>,
}

/// A run, replayed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunReplay {
    pub(super) run_id: RunId,
    pub(super) workflow_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) workflow_name: Option<String>,
    pub(super) workflow_hash: WorkflowHash,
    pub(super) title: Option<String>,
    pub(super) status: RunStatus,
    pub(super) open_gaps: u32,
    pub(super) open_critical_gaps: u32,
    pub(super) tip_node_id: Option<NodeId>,
    pub(super) preferences: Option<Preferences>,
    pub(super) context: Map<String, Value>,
    /// How many earlier turns are left out.
    pub(super) omitted_turns: usize,
    pub(super) turns: Vec<Turn>,
}

/// What happened at a node.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Turn {
    pub(super) node_id: NodeId,
    pub(super) kind: NodeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent_node_id: Option<NodeId>,
    pub(super) created_ms: u64,
    pub(super) step_ordinal: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step_title: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) loops: Vec<String>,
    /// Whether it began another branch.
    pub(super) is_fork: bool,
    /// Whether the run would go on here.
    pub(super) is_tip: bool,
    pub(super) is_complete: bool,
    /// Whether its state could be read.
    pub(super) is_readable: bool,
    /// The step that notes, artifacts and gaps of this turn were handed in for: the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answered_step_title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) notes: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) artifacts: Vec<Artifact>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) blockers: Vec<Blocker>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) gaps: Vec<GapLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) assessments: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) divergences: Vec<DivergenceLine>,
}

/// An artifact that was handed in.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Artifact {
    /// Its `kind`; none if it has none, or cannot be read.
    pub(super) kind: Option<String>,
    pub(super) sha256: String,
    pub(super) bytes: u64,
}

/// A gap that was disclosed, or closed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GapLine {
    pub(super) severity: GapSeverity,
    pub(super) reason: GapReason,
    pub(super) summary: String,
    pub(super) is_open: bool,
}

/// Where the caller left the path.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DivergenceLine {
    pub(super) reason: DivergenceReason,
    pub(super) summary: String,
}

/// Replays a session, with at most `limit` turns of each run: the last ones.
pub(super) fn replay(files: &SessionFiles, salvaged: &Salvaged, kept: bool, limit: usize) -> Replay {
    let state = &salvaged.state;
    let mut steps = Steps::new(files);
    let runs = state.runs().iter().map(|run| run_replay(files, state, run, &mut steps, limit)).collect();
    Replay {
        session_id: state.session_id().clone(),
        parent_session_id: state.parent_session_id().cloned(),
        health: salvaged.health_name(),
        damage: (!salvaged.is_healthy()).then(|| salvaged.health()),
        kept,
        salvaged: None,
        events: state.next_index().0,
        created_ms: state.first_timestamp_ms(),
        last_modified_ms: state.last_timestamp_ms(),
        runs,
    }
}

fn run_replay(
    files: &SessionFiles,
    state: &SessionState,
    run: &Run,
    steps: &mut Steps<'_>,
    limit: usize,
) -> RunReplay {
    let tip = preferred_tip(state, run);
    let omitted_turns = state.nodes_of(run).len().saturating_sub(limit);
    let nodes = state.nodes_of(run).skip(omitted_turns);
    let turns = nodes
        .map(|node| turn(files, state, run, node, steps, tip.is_some_and(|tip| tip.id == node.id)))
        .collect();
    RunReplay {
        run_id: run.id.clone(),
        workflow_id: run.workflow_id.clone(),
        workflow_name: steps.workflow(run).map(|workflow| workflow.name.clone()),
        workflow_hash: run.workflow_hash,
        title: title(state, run),
        status: run_status(state, run),
        open_gaps: run.open_gaps,
        open_critical_gaps: run.open_critical_gaps,
        tip_node_id: tip.map(|tip| tip.id.clone()),
        preferences: tip.map(|tip| tip.preferences),
        context: state.context(&run.id).clone(),
        omitted_turns,
        turns,
    }
}

fn turn(
    files: &SessionFiles,
    state: &SessionState,
    run: &Run,
    node: &Node,
    steps: &mut Steps<'_>,
    is_tip: bool,
) -> Turn {
    let engine = steps.state(node);
    let context = state.context(&run.id);
    let pending = engine.as_ref().and_then(|engine| steps.pending(run, engine, context));
    let parent = node.parent.as_ref().and_then(|parent| state.node(parent));
    let answered = parent
        .and_then(|parent| steps.state(parent))
        .and_then(|engine| steps.pending(run, &engine, context))
        .map(|step| step.title);
    let blockers = match engine.as_ref() {
        // A checkpoint of a blocked attempt repeats its state; the reasons are told once.
        Some(EngineState::Blocked(blocked)) if node.kind == NodeKind::BlockedAttempt => {
            match &blocked.blocked {
                Block::RetryableBlock { blockers, .. } | Block::TerminalBlock { blockers, .. } => {
                    blockers.blockers().to_vec()
                }
            }
        }
        _ => Vec::new(),
    };
    let artifacts =
        current_outputs(state, node, OutputChannel::Artifact).filter_map(|output| match &output.payload {
            OutputPayload::ArtifactRef(artifact) => Some(Artifact {
                kind: artifact_kind(files, artifact),
                sha256: artifact.sha256.to_string(),
                bytes: artifact.byte_length,
            }),
            OutputPayload::Notes { .. } => None,
        });
    let assessments = node.assessments.iter().map(|assessment| {
        let levels: Vec<String> = assessment
            .dimensions
            .iter()
            .map(|dimension| format!("{} {}", dimension.dimension_id, dimension.level))
            .collect();
        format!("{}: {}", assessment.assessment_id, levels.join(", "))
    });
    let (step_id, step_title, loops) = match pending {
        Some(step) => (Some(step.id), Some(step.title), step.loops),
        None => (None, None, Vec::new()),
    };
    Turn {
        node_id: node.id.clone(),
        kind: node.kind,
        parent_node_id: node.parent.clone(),
        created_ms: node.created_ms,
        step_ordinal: node.step_ordinal,
        step_id,
        step_title,
        loops,
        is_fork: node.edge.as_ref().is_some_and(|edge| {
            matches!(edge.cause.kind, EdgeCauseKind::NonTipAdvance | EdgeCauseKind::IntentionalFork)
        }),
        is_tip,
        is_complete: is_complete(state, node),
        is_readable: engine.is_some(),
        answered_step_title: answered,
        notes: current_output(state, node, OutputChannel::Recap)
            .and_then(|output| output.notes().map(str::to_owned)),
        artifacts: artifacts.collect(),
        blockers,
        gaps: state
            .gaps_of(node)
            .map(|gap| GapLine {
                severity: gap.severity,
                reason: gap.reason,
                summary: gap.summary.clone(),
                is_open: gap.is_open(),
            })
            .collect(),
        assessments: assessments.collect(),
        divergences: node
            .divergences
            .iter()
            .map(|divergence| DivergenceLine {
                reason: divergence.reason,
                summary: divergence.summary.clone(),
            })
            .collect(),
    }
}

/// The `kind` of an artifact, from its event or from the store.
fn artifact_kind(files: &SessionFiles, artifact: &ArtifactRef) -> Option<String> {
    let stored;
    let content = match &artifact.content {
        Some(content) => content,
        None => {
            let bytes = files.artifact(artifact.sha256).ok()?;
            stored = json::read(&bytes, &Limits::DEFAULT.max_bytes(ARTIFACT_BYTES)).ok()?;
            &stored
        }
    };
    content.get("kind").and_then(Value::as_str).map(str::to_owned)
}
