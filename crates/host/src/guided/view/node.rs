//! One node of a session, with everything that is known about it.

use canon::budget::truncate;
use canon::json::{self, Limits};
use guide::record::budgets::ARTIFACT_BYTES;
use guide::record::{
    ArtifactRef, Event, EventData, EventIndex, NodeId, NodeKind, OutputPayload, RunId, SessionId, TraceEntry,
};
use guide::render::{self, Facts, Occasion};
use guide::state::{Node, SessionState};
use serde_json::{Map, Value};
use storage::files::SessionFiles;

use super::replay::handed_in;
use super::{Salvaged, Steps, Turn, salvage, turn};
use crate::guided::{Guided, Refusal};

/// How much of an artifact is shown, and of all artifacts of a node, in bytes.
const ARTIFACT_TEXT: usize = 4 * 1024;
const ARTIFACTS_TEXT: usize = 10 * 1024;
/// How many nodes after it are named.
const NAMED_CHILDREN: usize = 20;

/// A node, and what was said, decided and handed in there.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeLook {
    pub session_id: SessionId,
    /// What is wrong with the session. Then the node is of the part that could be validated.
    pub damage: Option<String>,
    pub run_id: RunId,
    pub workflow_id: String,
    /// Its place in the order of making, from 0.
    pub place: usize,
    /// What happened here.
    pub turn: Turn,
    /// What the caller was told to do; nothing when nothing is left to do, or when the workflow cannot be read.
    pub prompt: Option<Prompt>,
    /// What was handed in, as text, in the order of the turn's artifacts.
    pub artifacts: Vec<Option<String>>,
    /// How outputs were judged.
    pub checks: Vec<Check>,
    /// What assessments asked for.
    pub consequences: Vec<String>,
    /// Why the engine went where it went.
    pub trace: Vec<TraceEntry>,
    /// The nodes made from it, oldest first; some of them.
    pub children: Vec<(NodeId, NodeKind)>,
    /// How many of those there are.
    pub children_total: usize,
}

/// What a caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The words, as Markdown.
    pub text: String,
    /// The stance to take.
    pub agent_role: Option<String>,
}

/// How an output was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The contract, or the criteria.
    pub contract_ref: String,
    /// Whether it passed.
    pub valid: bool,
    /// Each thing that was wrong.
    pub issues: Vec<String>,
}

impl Guided {
    /// A node of a session; nothing if what could be validated of the session has no such node.
    ///
    /// The decision trace is in the log and nowhere else, so the log is read.
    ///
    /// # Errors
    /// There is no such session, or trouble with the store.
    pub fn look_at_node(&self, id: &SessionId, node: &NodeId) -> Result<Option<NodeLook>, Refusal> {
        let salvaged = salvage(&self.files, id)?;
        Ok(look(&self.files, &salvaged, node))
    }
}

fn look(files: &SessionFiles, salvaged: &Salvaged, node_id: &NodeId) -> Option<NodeLook> {
    let state = &salvaged.state;
    let events = &salvaged.prefix.loaded.events;
    let node = state.node(node_id)?;
    let run = state.run(&node.run_id)?;
    let mut steps = Steps::new(files);
    let turn = turn(files, state, run, node, &mut steps);
    let prompt = steps.state(node).and_then(|engine| {
        let occasion = if node.parent.is_none() { Occasion::Start } else { Occasion::Advance };
        let workflow = steps.workflow(run)?;
        let context = context_of(events, node);
        let pending =
            render::pending(Facts { workflow, state: &engine, context: &context, occasion, blockers: &[] })?;
        Some(Prompt { text: pending.prompt, agent_role: pending.agent_role })
    });
    let children = || state.children_of(node).map(|child| (child.id.clone(), child.kind));
    Some(NodeLook {
        session_id: state.session_id().clone(),
        damage: (!salvaged.is_healthy()).then(|| salvaged.health()),
        run_id: run.id.clone(),
        workflow_id: run.workflow_id.clone(),
        place: state.nodes_of(run).take_while(|other| other.created_index < node.created_index).count(),
        turn,
        prompt,
        artifacts: artifacts(files, state, node),
        checks: node
            .validations
            .iter()
            .map(|validation| Check {
                contract_ref: validation.contract_ref.clone(),
                valid: validation.result.valid,
                issues: validation.result.issues.clone(),
            })
            .collect(),
        consequences: node.consequences.iter().map(|consequence| consequence.guidance.clone()).collect(),
        trace: node.traces.iter().flat_map(|trace| trace_at(events, trace.index)).cloned().collect(),
        children: children().take(NAMED_CHILDREN).collect(),
        children_total: children().count(),
    })
}

/// The event at an index. Indices are dense from 0, so an index is a place.
fn at(events: &[Event], index: EventIndex) -> Option<&Event> {
    events.get(usize::try_from(index.0).ok()?).filter(|event| event.event_index == index)
}

fn trace_at(events: &[Event], index: EventIndex) -> &[TraceEntry] {
    match at(events, index).map(|event| &event.data) {
        Some(EventData::DecisionTraceAppended { entries, .. }) => entries,
        _ => &[],
    }
}

/// The context that was in force when a node was made. The root is made before the first one is set.
fn context_of(events: &[Event], node: &Node) -> Map<String, Value> {
    let set = |event: &Event| match &event.data {
        EventData::ContextSet { context, .. } if event.scope.run_id() == Some(&node.run_id) => {
            Some(context.clone())
        }
        _ => None,
    };
    let context = match node.parent {
        None => events.iter().find_map(set),
        Some(_) => node.context_index.and_then(|index| at(events, index)).and_then(set),
    };
    context.unwrap_or_default()
}

/// The artifacts of a node as text, cut where they are long; nothing for one that cannot be read.
fn artifacts(files: &SessionFiles, state: &SessionState, node: &Node) -> Vec<Option<String>> {
    let outputs = handed_in(state, node);
    let references = outputs.filter_map(|output| match &output.payload {
        OutputPayload::ArtifactRef(artifact) => Some(artifact),
        OutputPayload::Notes { .. } => None,
    });
    let mut room = ARTIFACTS_TEXT;
    references
        .map(|artifact| {
            let text = text(files, artifact, room.min(ARTIFACT_TEXT))?;
            room -= text.len();
            Some(text)
        })
        .collect()
}

fn text(files: &SessionFiles, artifact: &ArtifactRef, room: usize) -> Option<String> {
    let content = match &artifact.content {
        Some(content) => content.clone(),
        None => {
            let bytes = files.artifact(artifact.sha256).ok()?;
            json::read(&bytes, &Limits::DEFAULT.max_bytes(ARTIFACT_BYTES)).ok()?
        }
    };
    let text = serde_json::to_string_pretty(&content).ok()?;
    Some(truncate(&text, room).into_owned())
}
