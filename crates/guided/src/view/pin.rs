//! Compares the workflow that a run is pinned to with its current source.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use canon::error::Envelope;
use catalogue::ResolvedWorkflow;
use guide::project::summary::{SessionSummary, session_summary};
use guide::record::{RunId, SessionId, StepName, WorkflowHash, WorkflowSourceKind};
use guide::workflow::compiled::{CompiledWorkflow, Step};
use ports::blocking;

use super::salvage;
use crate::{Guided, Refusal};

/// The workflow of a run: the pinned version, the current version, and the current source.
#[derive(Clone, Debug)]
pub struct Pin {
    pub session_id: SessionId,
    pub run_id: RunId,
    pub workflow_id: String,
    /// The hash that the run is pinned to.
    pub pinned_hash: WorkflowHash,
    /// The kind of source of the workflow when the run started.
    pub source_kind: WorkflowSourceKind,
    pub source_ref: String,
    /// The pinned workflow, or why it cannot be read.
    pub pinned: Result<Arc<CompiledWorkflow>, Refusal>,
    /// The workflow that the current source compiles to, or why it does not compile.
    pub today: Result<Arc<ResolvedWorkflow>, Envelope>,
    /// The current text of the source.
    pub source: Option<String>,
}

/// How the pinned and the current workflow compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// A run started now would be pinned to the same hash.
    Same,
    /// A run started now would be pinned to a different hash.
    Drifted,
    /// No run can be started now: the source is missing or invalid.
    NoSource,
}

/// A step in the pinned and in the current workflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepPair<'p> {
    /// The step in the pinned workflow.
    pub pinned: Option<&'p Step>,
    /// The step in the current workflow.
    pub today: Option<&'p Step>,
}

impl StepPair<'_> {
    /// Whether both workflows have the step, unchanged.
    pub fn is_same(&self) -> bool {
        self.pinned.is_some() && self.pinned == self.today
    }
}

impl Pin {
    /// Compares the two workflows.
    pub fn sides(&self) -> Sides {
        match &self.today {
            Ok(found) if found.hash == self.pinned_hash => Sides::Same,
            Ok(_) => Sides::Drifted,
            Err(_) => Sides::NoSource,
        }
    }

    /// All steps of both workflows: those of the pinned workflow in order, then those that only the current one has.
    pub fn steps(&self) -> Vec<StepPair<'_>> {
        let pinned = self.pinned.as_ref().ok();
        let today = self.today.as_ref().ok().map(|found| found.workflow.workflow());
        let known: BTreeSet<&StepName> = steps_of(pinned).map(|step| &step.step_id).collect();
        let mut pairs: Vec<StepPair<'_>> = steps_of(pinned)
            .map(|step| StepPair {
                pinned: Some(step),
                today: today.and_then(|workflow| workflow.step(&step.step_id)),
            })
            .collect();
        let added = steps_of(today).filter(|step| !known.contains(&step.step_id));
        pairs.extend(added.map(|step| StepPair { pinned: None, today: Some(step) }));
        pairs
    }
}

fn steps_of(workflow: Option<&Arc<CompiledWorkflow>>) -> impl Iterator<Item = &Step> {
    workflow.into_iter().flat_map(|workflow| &workflow.steps)
}

impl Guided {
    /// The workflow that a run like this one would be pinned to if it started now.
    ///
    /// `is_open` decides whether workflows may be read from a workspace that the session recorded.
    ///
    /// # Errors
    /// The source is missing or invalid.
    pub async fn today(
        &self,
        run: &SessionSummary,
        is_open: impl Fn(&Path) -> bool + Send + 'static,
    ) -> Result<Arc<ResolvedWorkflow>, Envelope> {
        let (catalogue, workflow_id) = (self.catalogue.clone(), run.workflow_id.clone());
        let seen = run.repo_root.as_ref().map(PathBuf::from);
        blocking(move || {
            let workspace = seen.filter(|path| path.is_absolute() && is_open(path));
            catalogue.find(workspace.as_deref(), &workflow_id)
        })
        .await
    }

    /// The workflow of a run, pinned and current. `None` if the valid prefix of the session has no such run. The default
    /// is the first run. `is_open` is that of [`today`](Self::today).
    ///
    /// # Errors
    /// An unknown session, and errors of the store.
    pub async fn pin(
        &self,
        id: &SessionId,
        run: Option<&RunId>,
        is_open: impl Fn(&Path) -> bool + Send + 'static,
    ) -> Result<Option<Pin>, Refusal> {
        let state = salvage(&*self.store, id).await?.state;
        let Some(run) = run.map_or_else(|| state.runs().first(), |id| state.run(id)) else {
            return Ok(None);
        };
        let today = self.today(&session_summary(&state, run), is_open).await;
        let source = match &today {
            Ok(found) => {
                let (catalogue, found) = (self.catalogue.clone(), Arc::clone(found));
                blocking(move || catalogue.source_text(&found)).await
            }
            Err(_) => None,
        };
        Ok(Some(Pin {
            session_id: id.clone(),
            run_id: run.id.clone(),
            workflow_id: run.workflow_id.clone(),
            pinned_hash: run.workflow_hash,
            source_kind: run.workflow_source_kind,
            source_ref: run.workflow_source_ref.clone(),
            pinned: self.pinned(run.workflow_hash).await,
            source,
            today,
        }))
    }
}
