//! What a run is pinned to, beside what its workflow would be today.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use canon::error::Envelope;
use guide::project::summary::{SessionSummary, session_summary};
use guide::record::{RunId, SessionId, StepName, WorkflowHash, WorkflowSourceKind};
use guide::workflow::compiled::{CompiledWorkflow, Step};

use super::salvage;
use crate::catalogue::Found;
use crate::guided::{Guided, Refusal};

/// The three forms of a run's workflow.
#[derive(Clone, Debug)]
pub struct Pin {
    pub session_id: SessionId,
    pub run_id: RunId,
    pub workflow_id: String,
    /// What the run is pinned to.
    pub pinned_hash: WorkflowHash,
    /// Where the workflow came from when the run began.
    pub source_kind: WorkflowSourceKind,
    pub source_ref: String,
    /// The pinned workflow, or why it cannot be read.
    pub pinned: Result<Arc<CompiledWorkflow>, Refusal>,
    /// What the source compiles to today, or why it does not.
    pub today: Result<Arc<Found>, Envelope>,
    /// The source as it is today.
    pub source: Option<String>,
}

/// How the pinned workflow and today's stand to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// A run that began now would be pinned to the same.
    Same,
    /// A run that began now would be pinned to something else.
    Drifted,
    /// No run could begin now: the source is gone, or broken.
    NoSource,
}

/// A step, as the two have it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepPair<'p> {
    /// As the run has it.
    pub pinned: Option<&'p Step>,
    /// As it would be today.
    pub today: Option<&'p Step>,
}

impl StepPair<'_> {
    /// Whether both have it, and alike.
    pub fn is_same(&self) -> bool {
        self.pinned.is_some() && self.pinned == self.today
    }
}

impl Pin {
    /// How the two stand to one another.
    pub fn sides(&self) -> Sides {
        match &self.today {
            Ok(found) if found.hash == self.pinned_hash => Sides::Same,
            Ok(_) => Sides::Drifted,
            Err(_) => Sides::NoSource,
        }
    }

    /// Every step of both, in the order of the pinned workflow, and then those that only today's has.
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
    /// What a run like this one would be pinned to if it began now.
    ///
    /// `is_open` says whether a workspace that the session was seen in may be looked into for workflows of its own.
    ///
    /// # Errors
    /// No run could begin: the source is gone, or broken.
    pub fn today(
        &self,
        run: &SessionSummary,
        is_open: &dyn Fn(&Path) -> bool,
    ) -> Result<Arc<Found>, Envelope> {
        let seen = run.repo_root.as_deref().map(Path::new);
        let workspace = seen.filter(|path| path.is_absolute() && is_open(path));
        self.catalogue.find(workspace, &run.workflow_id)
    }

    /// The workflow of a run in its three forms; nothing if what could be validated of the session has no such run. The first run is
    /// meant if none is named. `is_open` is that of [`today`](Self::today).
    ///
    /// # Errors
    /// There is no such session, or trouble with the store.
    pub fn pin(
        &self,
        id: &SessionId,
        run: Option<&RunId>,
        is_open: &dyn Fn(&Path) -> bool,
    ) -> Result<Option<Pin>, Refusal> {
        let state = salvage(&self.files, id)?.state;
        let Some(run) = run.map_or_else(|| state.runs().first(), |id| state.run(id)) else {
            return Ok(None);
        };
        let today = self.today(&session_summary(&state, run), is_open);
        Ok(Some(Pin {
            session_id: id.clone(),
            run_id: run.id.clone(),
            workflow_id: run.workflow_id.clone(),
            pinned_hash: run.workflow_hash,
            source_kind: run.workflow_source_kind,
            source_ref: run.workflow_source_ref.clone(),
            pinned: self.pinned(run.workflow_hash),
            source: today.as_ref().ok().and_then(|found| self.catalogue.source_text(found)),
            today,
        }))
    }
}
