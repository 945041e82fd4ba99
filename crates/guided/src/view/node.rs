//! One node of a session with all its details.

use canon::budget::truncate;
use canon::json::{self, Limits};
use guide::record::budgets::ARTIFACT_BYTES;
use guide::record::{
    ArtifactRef, Event, EventData, EventIndex, NodeId, NodeKind, OutputPayload, RunId, SessionId, TraceEntry,
};
use guide::render::{self, Occasion, PromptInput};
use guide::state::{Node, SessionState};
use guide::visit::Visit;

use super::replay::{handed_in, turn};
use super::{Salvaged, Steps, Turn, salvage};
use crate::{Guided, Refusal};

/// The maximum number of bytes of an artifact that are shown, and of all artifacts of a node.
const ARTIFACT_TEXT: usize = 4 * 1024;
const ARTIFACTS_TEXT: usize = 10 * 1024;
/// The maximum number of children that are listed.
const NAMED_CHILDREN: usize = 20;

/// A node, with its prompt, decisions and output.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeLook {
    pub session_id: SessionId,
    /// A description of the damage of the session. If present, the node is part of the valid prefix.
    pub damage: Option<String>,
    pub run_id: RunId,
    pub workflow_id: String,
    /// Its index in the order of creation, from 0.
    pub place: usize,
    /// What happened here.
    pub turn: Turn,
    /// The prompt of the pending step. `None` if the run is complete, or if the workflow cannot be read.
    pub prompt: Option<Prompt>,
    /// The content of the turn's artifacts as text, in the same order.
    pub artifacts: Vec<Option<String>>,
    /// The results of validating outputs.
    pub checks: Vec<Check>,
    /// The consequences of assessments.
    pub consequences: Vec<String>,
    /// The decision trace of the engine.
    pub trace: Vec<TraceEntry>,
    /// The child nodes, oldest first. At most 20.
    pub children: Vec<(NodeId, NodeKind)>,
    /// The total number of child nodes.
    pub children_total: usize,
}

/// The prompt of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The prompt as Markdown.
    pub text: String,
    /// The role that the agent takes.
    pub agent_role: Option<String>,
}

/// The result of validating an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The contract or criteria that the output was validated against.
    pub contract_ref: String,
    /// Whether it passed.
    pub valid: bool,
    /// The problems that were found.
    pub issues: Vec<String>,
}

impl Guided {
    /// A node of a session. `None` if the valid prefix of the session has no such node.
    ///
    /// The decision trace is only in the log, so this reads the log.
    ///
    /// # Errors
    /// An unknown session, and errors of the store.
    pub async fn look_at_node(&self, id: &SessionId, node: &NodeId) -> Result<Option<NodeLook>, Refusal> {
        let salvaged = salvage(&*self.store, id).await?;
        let mut steps = Steps::new(&*self.store);
        if let Some(node) = salvaged.state.node(node)
            && let Some(run) = salvaged.state.run(&node.run_id)
        {
            steps.read_turns(&salvaged.state, run, &[node]).await;
        }
        Ok(look(&steps, &salvaged, node))
    }
}

fn look(steps: &Steps<'_>, salvaged: &Salvaged, node_id: &NodeId) -> Option<NodeLook> {
    let state = &salvaged.state;
    let events = &salvaged.prefix.loaded.events;
    let node = state.node(node_id)?;
    let run = state.run(&node.run_id)?;
    let turn = turn(state, run, node, steps);
    let prompt = steps.state(node).and_then(|engine| {
        let occasion = if node.parent.is_none() { Occasion::Start } else { Occasion::Advance };
        let workflow = steps.workflow(run)?;
        let context = state.context_of(node);
        let visit = Visit::at(state, workflow, node, &engine, &context);
        let pending = render::pending(PromptInput {
            workflow,
            state: &engine,
            context: &context,
            visit: &visit,
            occasion,
            blockers: &[],
        })?;
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
        artifacts: artifacts(steps, state, node),
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

/// The event at an index. Indices are dense from 0, so an event index is a position in the slice.
fn at(events: &[Event], index: EventIndex) -> Option<&Event> {
    events.get(usize::try_from(index.0).ok()?).filter(|event| event.event_index == index)
}

fn trace_at(events: &[Event], index: EventIndex) -> &[TraceEntry] {
    match at(events, index).map(|event| &event.data) {
        Some(EventData::DecisionTraceAppended { entries, .. }) => entries,
        _ => &[],
    }
}

/// The artifacts of a node as text, truncated if they are long. `None` for an artifact that cannot be read.
fn artifacts(steps: &Steps<'_>, state: &SessionState, node: &Node) -> Vec<Option<String>> {
    let outputs = handed_in(state, node);
    let references = outputs.filter_map(|output| match &output.payload {
        OutputPayload::ArtifactRef(artifact) => Some(artifact),
        OutputPayload::Notes { .. } => None,
    });
    let mut room = ARTIFACTS_TEXT;
    references
        .map(|artifact| {
            let text = text(steps, artifact, room.min(ARTIFACT_TEXT))?;
            room -= text.len();
            Some(text)
        })
        .collect()
}

fn text(steps: &Steps<'_>, artifact: &ArtifactRef, room: usize) -> Option<String> {
    let content = match &artifact.content {
        Some(content) => content.clone(),
        None => {
            let bytes = steps.artifact(artifact.sha256)?;
            json::read(bytes, &Limits::DEFAULT.max_bytes(ARTIFACT_BYTES)).ok()?
        }
    };
    let text = serde_json::to_string_pretty(&content).ok()?;
    Some(truncate(&text, room).into_owned())
}
