//! What the nodes of a run are about: the steps of the workflow that it is pinned to.

use std::collections::HashMap;

use canon::json::{self, Limits};
use guide::project::preferred_tip;
use guide::project::summary::{SessionSummary, session_summary};
use guide::project::way::{StepPlace, selected_at, skipped_before};
use guide::record::{EngineState, WorkflowHash};
use guide::render::{self, Facts, Occasion};
use guide::state::{Node, Run, SessionState};
use guide::workflow::compiled::CompiledWorkflow;
use serde_json::{Map, Value};
use storage::files::{SessionFiles, WORKFLOW_BYTES};

use super::replay::SkippedLine;

/// Looks up steps, as far as snapshots and workflows can be read.
#[derive(Debug)]
pub struct Steps<'f> {
    files: &'f SessionFiles,
    workflows: HashMap<WorkflowHash, Option<CompiledWorkflow>>,
}

/// A step that is pending at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingStep {
    pub id: String,
    /// What it is called, with the context filled in.
    pub title: String,
    /// The loops around it, each with its time round from 1, such as `slices 3`.
    pub loops: Vec<String>,
    /// Which step of its workflow it is, if that can be read.
    pub place: Option<StepPlace>,
}

impl<'f> Steps<'f> {
    /// Of the sessions in these files.
    pub fn new(files: &'f SessionFiles) -> Self {
        Self { files, workflows: HashMap::new() }
    }

    /// The workflow that a run is pinned to; none if it cannot be read.
    pub fn workflow(&mut self, run: &Run) -> Option<&CompiledWorkflow> {
        let files = self.files;
        self.workflows
            .entry(run.workflow_hash)
            .or_insert_with(|| {
                let bytes = files.workflow(run.workflow_hash).ok()?;
                let limits = Limits::DEFAULT.max_bytes(usize::try_from(WORKFLOW_BYTES).unwrap_or(usize::MAX));
                serde_json::from_value(json::read(&bytes, &limits).ok()?).ok()
            })
            .as_ref()
    }

    /// The state at a node; none if it cannot be read.
    pub fn state(&self, node: &Node) -> Option<EngineState> {
        self.files.snapshot(node.snapshot_ref).ok().map(|snapshot| snapshot.state().clone())
    }

    /// The step that is pending in a state, called as the context has it.
    pub fn pending(
        &mut self,
        run: &Run,
        state: &EngineState,
        context: &Map<String, Value>,
    ) -> Option<PendingStep> {
        let pending = state.pending()?;
        let workflow = self.workflow(run);
        let step = workflow.and_then(|workflow| workflow.step(&pending.step_id));
        let rendered =
            workflow.filter(|_| step.is_some_and(|step| step.title.contains("{{"))).and_then(|workflow| {
                render::pending(Facts {
                    workflow,
                    state,
                    context,
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

    /// The summary of a run, with the place of its pending step.
    pub fn summary(&mut self, state: &SessionState, run: &Run) -> SessionSummary {
        let mut summary = session_summary(state, run);
        if let Some(tip) = preferred_tip(state, run).filter(|_| !summary.is_complete)
            && let Some(selected) = selected_at(state, tip)
            && let Some(workflow) = self.workflow(run)
        {
            let innermost = selected.innermost.as_ref().map(|(loop_id, iteration)| (loop_id, *iteration));
            let place = StepPlace::of(workflow, &selected.step_id, innermost, state.context(&run.id));
            summary.place = place.map(|place| place.to_string());
        }
        summary
    }

    /// What was skipped on the way to a node.
    pub fn skipped(&mut self, state: &SessionState, run: &Run, node: &Node) -> Vec<SkippedLine> {
        self.workflow(run).map_or_else(Vec::new, |workflow| {
            skipped_before(state, workflow, node).into_iter().map(SkippedLine::of).collect()
        })
    }
}
