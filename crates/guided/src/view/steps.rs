//! The steps of nodes, from the workflow that their run is pinned to.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use canon::digest::Digest;
use canon::json::{self, Limits};
use guide::project::arrival::{StepPlace, selected_at, skipped_before};
use guide::project::summary::{SessionSummary, session_summary};
use guide::project::{current_outputs, preferred_tip};
use guide::record::{
    ArtifactRef, EngineState, ExecutionSnapshot, OutputChannel, OutputPayload, SnapshotRef, WorkflowHash,
};
use guide::render::{self, Occasion, PromptInput};
use guide::state::{Node, Run, SessionState};
use guide::visit::Visit;
use guide::workflow::compiled::CompiledWorkflow;
use ports::sessions::{Object, ObjectRef, SessionStore};
use serde_json::{Map, Value};

use super::replay::SkippedLine;
use crate::cut_notes::whole_notes;

/// The maximum size of a workflow that is parsed, in bytes.
const WORKFLOW_BYTES: usize = 16 << 20;

/// The maximum number of snapshots that are read at once.
pub(super) const STATES_AT_ONCE: usize = 64;
/// The maximum size of the artifacts of several nodes that are read at once, in bytes.
const ARTIFACT_BYTES_AT_ONCE: u64 = 16 << 20;

/// The steps of runs, as far as snapshots and workflows can be read.
///
/// Reads are asynchronous and batched. All other methods use the last batch.
#[derive(Debug)]
pub struct Steps<'s> {
    store: &'s dyn SessionStore,
    workflows: HashMap<WorkflowHash, Option<CompiledWorkflow>>,
    states: HashMap<SnapshotRef, Arc<ExecutionSnapshot>>,
    artifacts: HashMap<Digest, Vec<u8>>,
}

/// A step that is pending at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingStep {
    pub id: String,
    /// Its title, with context values filled in.
    pub title: String,
    /// The loops that contain it, each with its iteration from 1, such as `slices 3`.
    pub loops: Vec<String>,
    /// Its position in the workflow, if the workflow can be read.
    pub place: Option<StepPlace>,
}

impl<'s> Steps<'s> {
    pub fn new(store: &'s dyn SessionStore) -> Self {
        Self { store, workflows: HashMap::new(), states: HashMap::new(), artifacts: HashMap::new() }
    }

    /// Reads the workflow that a run is pinned to, once.
    pub async fn read_workflow(&mut self, run: &Run) {
        let hash = run.workflow_hash;
        if self.workflows.contains_key(&hash) {
            return;
        }
        let workflow = self.store.workflow(hash).await.ok().and_then(|bytes| {
            let limits = Limits::DEFAULT.max_bytes(WORKFLOW_BYTES);
            serde_json::from_value(json::read(&bytes, &limits).ok()?).ok()
        });
        self.workflows.insert(hash, workflow);
    }

    /// Reads the workflow of a run and the snapshots of some nodes. They replace those of the last batch.
    pub(super) async fn read_states(&mut self, run: &Run, nodes: &[&Node]) {
        self.read_workflow(run).await;
        let wanted = nodes.iter().map(|node| ObjectRef::Snapshot(node.snapshot_ref));
        self.read(wanted.collect()).await;
    }

    /// Reads everything that the turns of some nodes show. It replaces the last batch.
    pub(super) async fn read_turns(&mut self, state: &SessionState, run: &Run, nodes: &[&Node]) {
        self.read_workflow(run).await;
        let mut wanted = BTreeSet::new();
        for node in nodes {
            wanted.insert(ObjectRef::Snapshot(node.snapshot_ref));
            wanted.extend(state.parent_of(node).map(|parent| ObjectRef::Snapshot(parent.snapshot_ref)));
            wanted.extend(stored_artifacts(state, node).map(|artifact| ObjectRef::Artifact(artifact.sha256)));
        }
        self.read(wanted.into_iter().collect()).await;
    }

    async fn read(&mut self, wanted: Vec<ObjectRef>) {
        self.states.clear();
        self.artifacts.clear();
        let read = self.store.objects(wanted.clone()).await;
        for (wanted, object) in wanted.into_iter().zip(read) {
            match (wanted, object) {
                (ObjectRef::Snapshot(reference), Ok(Object::Snapshot(snapshot))) => {
                    self.states.insert(reference, snapshot);
                }
                (ObjectRef::Artifact(digest), Ok(Object::Bytes(bytes))) => {
                    self.artifacts.insert(digest, bytes);
                }
                // Objects that cannot be read are shown as missing.
                (ObjectRef::Snapshot(_) | ObjectRef::Workflow(_) | ObjectRef::Artifact(_), _) => {}
            }
        }
    }

    /// The workflow that a run is pinned to. `None` if it cannot be read, or was not read.
    pub fn workflow(&self, run: &Run) -> Option<&CompiledWorkflow> {
        self.workflows.get(&run.workflow_hash)?.as_ref()
    }

    /// The state at a node of the last batch. `None` if it cannot be read.
    pub fn state(&self, node: &Node) -> Option<EngineState> {
        self.states.get(&node.snapshot_ref).map(|snapshot| snapshot.state().clone())
    }

    /// The content of an artifact of the last batch that is not part of its event. `None` if it cannot be read.
    pub(super) fn artifact(&self, digest: Digest) -> Option<&[u8]> {
        self.artifacts.get(&digest).map(Vec::as_slice)
    }

    /// The step that is pending in a state.
    pub fn pending(
        &self,
        run: &Run,
        state: &EngineState,
        context: &Map<String, Value>,
    ) -> Option<PendingStep> {
        let pending = state.pending()?;
        let workflow = self.workflow(run);
        let step = workflow.and_then(|workflow| workflow.step(&pending.step_id));
        let rendered =
            workflow.filter(|_| step.is_some_and(|step| step.title.contains("{{"))).and_then(|workflow| {
                render::pending(PromptInput {
                    workflow,
                    state,
                    context,
                    // Only the title is used.
                    visit: &Visit::default(),
                    occasion: Occasion::Advance,
                    blockers: &[],
                })
            });
        let title = match (rendered, step) {
            (Some(rendered), _) => rendered.title,
            (None, Some(step)) => step.title.clone(),
            (None, None) => pending.step_id.as_str().to_owned(),
        };
        let loops = pending.loop_path.iter().map(|at| format!("{} {}", at.loop_id, at.iteration + 1));
        let innermost = pending.loop_path.last().map(|at| (&at.loop_id, at.iteration));
        let place =
            workflow.and_then(|workflow| StepPlace::of(workflow, &pending.step_id, innermost, context));
        Some(PendingStep { id: pending.step_id.as_str().to_owned(), title, loops: loops.collect(), place })
    }

    /// The summary of a run, with the position of its pending step.
    pub async fn summary(&mut self, state: &SessionState, run: &Run) -> SessionSummary {
        let mut summary = session_summary(state, run);
        if let Some(tip) = preferred_tip(state, run).filter(|_| !summary.is_complete)
            && let Some(selected) = selected_at(state, tip)
        {
            self.read_workflow(run).await;
            let innermost = selected.innermost.as_ref().map(|(loop_id, iteration)| (loop_id, *iteration));
            let place = self.workflow(run).and_then(|workflow| {
                StepPlace::of(workflow, &selected.step_id, innermost, state.context(&run.id))
            });
            summary.place = place.map(|place| place.to_string());
        }
        summary
    }

    /// The summaries of all runs of a session.
    pub async fn summaries(&mut self, state: &SessionState) -> Vec<SessionSummary> {
        let mut summaries = Vec::with_capacity(state.runs().len());
        for run in state.runs() {
            summaries.push(self.summary(state, run).await);
        }
        summaries
    }

    /// The steps and loops that were skipped before a node.
    pub fn skipped(&self, state: &SessionState, run: &Run, node: &Node) -> Vec<SkippedLine> {
        self.workflow(run).map_or_else(Vec::new, |workflow| {
            skipped_before(state, workflow, node).into_iter().map(SkippedLine::of).collect()
        })
    }
}

/// The artifacts that the turn of a node shows and that are not part of their events.
fn stored_artifacts<'s>(state: &'s SessionState, node: &'s Node) -> impl Iterator<Item = &'s ArtifactRef> {
    let outputs = current_outputs(state, node, OutputChannel::Artifact);
    let artifacts = outputs.filter_map(|output| match &output.payload {
        OutputPayload::ArtifactRef(artifact) => Some(artifact),
        OutputPayload::Notes { .. } => None,
    });
    artifacts.chain(whole_notes(state, node)).filter(|artifact| artifact.content.is_none())
}

/// Divides nodes into batches, each with a bounded number of snapshots and of bytes of artifacts.
pub(super) fn batches<'n, 's>(state: &'s SessionState, nodes: &'n [&'s Node]) -> Vec<&'n [&'s Node]> {
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0_u64);
    for (at, node) in nodes.iter().enumerate() {
        let more: u64 = stored_artifacts(state, node).map(|artifact| artifact.byte_length).sum();
        let is_full = at - start >= STATES_AT_ONCE || bytes.saturating_add(more) > ARTIFACT_BYTES_AT_ONCE;
        if at > start && is_full {
            batches.push(&nodes[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes = bytes.saturating_add(more);
    }
    if start < nodes.len() {
        batches.push(&nodes[start..]);
    }
    batches
}
