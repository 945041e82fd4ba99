//! A session turn by turn, for programs, pages and the command line.

use std::ops::Range;

use canon::json::{self, Limits};
use guide::derive;
use guide::project::arrival::{Skipped, SkippedItem};
use guide::project::summary::title;
use guide::project::{RunStatus, attempt_that_made, current_outputs, is_complete, preferred_tip, run_status};
use guide::record::budgets::ARTIFACT_BYTES;
use guide::record::{
    ArtifactRef, Block, Blocker, DivergenceReason, EngineState, GapReason, GapSeverity, NodeId, NodeKind,
    OutputChannel, OutputPayload, Preferences, RunId, SessionId, WorkflowHash,
};
use guide::state::{Node, Output, Run, SessionState};
use guide::verification::Verification;
use guide::workflow::needs::ANSWER_KIND;
use ports::sessions::SessionStore;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Salvaged;
use super::steps::{Steps, batches};
use crate::cut_notes::notes_of;
use crate::verify::{read_verification, verification_artifact};

/// A session with all its runs and turns.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    pub session_id: SessionId,
    /// The session that it was delegated from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<SessionId>,
    /// The name of its health status, from a fixed set.
    pub health: &'static str,
    /// A description of the damage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// Whether garbage collection spares it.
    pub kept: bool,
    /// Why it is incomplete, if it was salvaged from a damaged session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub salvaged: Option<guide::bundle::Salvaged>,
    /// The number of events that could be read.
    pub events: u64,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: Option<u64>,
    /// When its last event was recorded, in milliseconds since 1970.
    pub last_modified_ms: Option<u64>,
    pub runs: Vec<RunReplay>,
}

/// A run with its turns.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReplay {
    pub run_id: RunId,
    pub workflow_id: String,
    /// The name of the workflow, if its pinned version can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_name: Option<String>,
    /// The hash that the run is pinned to.
    pub workflow_hash: WorkflowHash,
    pub title: Option<String>,
    pub status: RunStatus,
    /// The number of open gaps.
    pub open_gaps: u32,
    /// The number of open critical gaps.
    pub open_critical_gaps: u32,
    /// The node that the next advance starts from.
    pub tip_node_id: Option<NodeId>,
    pub preferences: Option<Preferences>,
    /// The current values of the metrics that the workflow declares.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metrics: Map<String, Value>,
    pub context: Map<String, Value>,
    /// The number of earlier turns that are left out.
    pub omitted_turns: usize,
    /// The turns, in chronological order.
    pub turns: Vec<Turn>,
}

/// A node and everything that was recorded for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    pub node_id: NodeId,
    pub kind: NodeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_node_id: Option<NodeId>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// The number of the pending step on the path to this node, from 1.
    pub step_ordinal: u32,
    /// The number of the pending step in the workflow, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// The position as text, such as `step 4 of 10, pass 2 of at most 6`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The id of the pending step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    /// The title of the pending step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_title: Option<String>,
    /// The loops that contain the step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loops: Vec<String>,
    /// Whether the node starts another branch.
    pub is_fork: bool,
    /// Whether the next advance starts from this node.
    pub is_tip: bool,
    /// Whether the run is complete.
    pub is_complete: bool,
    /// Whether its state could be read.
    pub is_readable: bool,
    /// The title of the previous step, which the notes, artifacts and gaps of this turn were submitted for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_step_title: Option<String>,
    /// The submitted notes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// The submitted artifacts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// The checks that the host made itself, as opposed to claims of the agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<VerifiedLine>,
    /// The steps and loops that were skipped before this node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedLine>,
    /// Why the attempt was blocked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Blocker>,
    /// The gaps that were opened or closed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<GapLine>,
    /// The assessments, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assessments: Vec<String>,
    /// The deviations from the workflow that the caller declared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub divergences: Vec<DivergenceLine>,
}

/// A submitted artifact.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Its `kind`. `None` if it has none, or cannot be read.
    pub kind: Option<String>,
    /// The digest of its canonical JSON.
    pub sha256: String,
    /// The size of its canonical JSON, in bytes.
    pub bytes: u64,
    /// For an answer of the user: the question, the answer, and its provenance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Whether a person gave it directly, so that it is not a claim of the agent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_from_person: bool,
}

/// One check that the host made itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedLine {
    pub passed: bool,
    /// A description of the check and its result.
    pub words: String,
}

/// A gap that was opened or closed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GapLine {
    pub severity: GapSeverity,
    pub reason: GapReason,
    /// A description of the gap.
    pub summary: String,
    /// Whether the gap is still open.
    pub is_open: bool,
}

/// A deviation from the workflow that the caller declared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DivergenceLine {
    pub reason: DivergenceReason,
    /// A description of the reason.
    pub summary: String,
}

/// A skipped step or loop, and the recorded context that its condition depends on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkippedLine {
    /// `step` or `loop`.
    pub kind: &'static str,
    pub id: String,
    /// The title of the step or loop.
    pub title: String,
    /// The keys that its condition reads.
    pub keys: Vec<SkippedKey>,
}

/// A context key that a condition reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkippedKey {
    pub key: String,
    /// A description of its allowed values, if the workflow declares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
    /// The recorded value at that time, if any.
    pub value: Option<Value>,
}

impl SkippedLine {
    pub(super) fn of(skipped: Skipped) -> Self {
        let (kind, id) = match skipped.item {
            SkippedItem::Step(id) => ("step", id),
            SkippedItem::Loop(id) => ("loop", id),
        };
        let keys = skipped.keys.into_iter();
        let keys = keys.map(|deciding| SkippedKey {
            key: deciding.key,
            allowed: deciding.allowed,
            value: deciding.value,
        });
        Self { kind, id, title: skipped.title, keys: keys.collect() }
    }

    /// A description of why it was skipped, such as `fixDecision is "report" (one of "fix", "report")`.
    pub fn reason(&self) -> String {
        let keys: Vec<String> = self.keys.iter().map(SkippedKey::words).collect();
        if keys.is_empty() { "its condition does not hold".to_owned() } else { keys.join("; ") }
    }
}

impl SkippedKey {
    fn words(&self) -> String {
        let value = match &self.value {
            Some(value) => shortened(&value.to_string()),
            None => "missing".to_owned(),
        };
        let allowed =
            self.allowed.as_ref().map_or_else(String::new, |allowed| format!(" (allowed: {allowed})"));
        format!("{} is {value}{allowed}", self.key)
    }
}

/// Replays a session with at most the last `limit` turns of each run.
pub async fn replay(store: &dyn SessionStore, salvaged: &Salvaged, kept: bool, limit: usize) -> Replay {
    let state = &salvaged.state;
    let mut steps = Steps::new(store);
    let mut runs = Vec::with_capacity(state.runs().len());
    for run in state.runs() {
        let nodes = state.nodes_of(run).len();
        runs.push(run_replay(state, run, &mut steps, nodes.saturating_sub(limit)..nodes).await);
    }
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

/// Replays a run with the turns of the nodes in `window`, counted in the order of their creation.
pub async fn run_replay(
    state: &SessionState,
    run: &Run,
    steps: &mut Steps<'_>,
    window: Range<usize>,
) -> RunReplay {
    let tip = preferred_tip(state, run);
    let nodes: Vec<&Node> = state.nodes_of(run).skip(window.start).take(window.len()).collect();
    let mut turns = Vec::with_capacity(nodes.len());
    for batch in batches(state, &nodes) {
        steps.read_turns(state, run, batch).await;
        turns.extend(batch.iter().map(|node| turn(state, run, node, steps)));
    }
    steps.read_workflow(run).await;
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
        metrics: metrics(state.context(&run.id)),
        context: state.context(&run.id).clone(),
        omitted_turns: window.start.min(state.nodes_of(run).len()),
        turns,
    }
}

/// The metrics in a context, without the prefix of their keys.
fn metrics(context: &Map<String, Value>) -> Map<String, Value> {
    let named = |(key, value): (&String, &Value)| {
        key.strip_prefix("metrics_").map(|name| (name.to_owned(), value.clone()))
    };
    context.iter().filter_map(named).collect()
}

impl RunReplay {
    /// The metrics on one line, such as `outcome success, files changed 3`.
    pub fn metrics_line(&self) -> Option<String> {
        let words = self.metrics.iter().map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{} {}", name.replace('_', " "), shortened(&value))
        });
        let words: Vec<String> = words.collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// The turn of a node, whose objects were [read](Steps::read_turns) before.
pub(super) fn turn(state: &SessionState, run: &Run, node: &Node, steps: &Steps<'_>) -> Turn {
    let engine = steps.state(node);
    let context = state.context(&run.id);
    let pending = engine.as_ref().and_then(|engine| steps.pending(run, engine, context));
    let parent = node.parent.as_ref().and_then(|parent| state.node(parent));
    let answered = parent
        .and_then(|parent| steps.state(parent))
        .and_then(|engine| steps.pending(run, &engine, context))
        .map(|step| step.title);
    let blockers = match engine.as_ref() {
        // A checkpoint of a blocked attempt has the same state. Show its blockers only once.
        Some(EngineState::Blocked(blocked)) if node.kind == NodeKind::BlockedAttempt => {
            match &blocked.blocked {
                Block::RetryableBlock { blockers, .. } | Block::TerminalBlock { blockers, .. } => {
                    blockers.blockers().to_vec()
                }
            }
        }
        _ => Vec::new(),
    };
    let artifacts = handed_in(state, node).filter_map(|output| match &output.payload {
        OutputPayload::ArtifactRef(artifact) => Some(Artifact {
            kind: artifact_kind(steps, artifact),
            sha256: artifact.sha256.to_string(),
            bytes: artifact.byte_length,
            answer: artifact.content.as_ref().and_then(answer_words),
            is_from_person: artifact.content.as_ref().is_some_and(is_from_person),
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
    let place = pending.as_ref().and_then(|step| step.place);
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
        step: place.map(|place| place.step),
        place: place.map(|place| place.to_string()),
        step_id,
        step_title,
        loops,
        is_fork: node.is_fork(),
        is_tip: preferred_tip(state, run).is_some_and(|tip| tip.id == node.id),
        is_complete: is_complete(state, node),
        is_readable: engine.is_some(),
        answered_step_title: answered,
        notes: notes_of(state, node, |digest| steps.artifact(digest)),
        artifacts: artifacts.collect(),
        verified: verification_artifact(state, node)
            .and_then(|artifact| read_verification(artifact, steps.artifact(artifact.sha256)))
            .iter()
            .flat_map(Verification::lines)
            .map(|(passed, words)| VerifiedLine { passed, words })
            .collect(),
        skipped: steps.skipped(state, run, node),
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

/// The artifacts that an agent submitted, without those that the host recorded.
pub(super) fn handed_in<'s>(state: &'s SessionState, node: &'s Node) -> impl Iterator<Item = &'s Output> {
    let verification = attempt_that_made(state, &node.id).map(derive::verification_output_id);
    current_outputs(state, node, OutputChannel::Artifact)
        .filter(move |output| Some(&output.id) != verification.as_ref())
}

/// The maximum length of a recorded value on a line, in characters.
const SHOWN_VALUE: usize = 60;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Describes an answer of the user, such as `confirmation: given (elicited)`. Old answers have no provenance.
fn answer_words(artifact: &Value) -> Option<String> {
    let text = |name: &str| artifact.get(name).and_then(Value::as_str);
    text("kind").filter(|kind| *kind == ANSWER_KIND)?;
    let (about, outcome) = (text("dependencyId")?, text("outcome")?);
    let person = text("person").map(|person| format!(" by {person}")).unwrap_or_default();
    Some(format!("{about}: {outcome} ({}{person})", text("provenance").unwrap_or("claimed")))
}

/// Whether a person gave an answer directly. Only the engine writes `provenance`.
fn is_from_person(artifact: &Value) -> bool {
    let text = |name: &str| artifact.get(name).and_then(Value::as_str);
    text("kind") == Some(ANSWER_KIND) && matches!(text("provenance"), Some("elicited" | "console"))
}

/// The `kind` of an artifact, from its event or from the store.
fn artifact_kind(steps: &Steps<'_>, artifact: &ArtifactRef) -> Option<String> {
    let stored;
    let content = match &artifact.content {
        Some(content) => content,
        None => {
            let bytes = steps.artifact(artifact.sha256)?;
            stored = json::read(bytes, &Limits::DEFAULT.max_bytes(ARTIFACT_BYTES)).ok()?;
            &stored
        }
    };
    content.get("kind").and_then(Value::as_str).map(str::to_owned)
}
