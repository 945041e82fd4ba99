//! Looking at sessions: what pages and the command line show of them. Nothing in here changes anything.
//!
//! Whatever is wrong with a session, the part of it that could be validated can be looked at; the [health](Salvaged::health)
//! says what the rest is.

mod folders;
mod node;
mod pin;
mod replay;
mod session_page;
mod steps;

use std::ops::Range;

use guide::project::graph::Labels;
use guide::record::SessionId;
use guide::state::{FoldError, Run, SessionState};
use storage::StoreError;
use storage::files::{SessionFiles, ValidatedPrefix};

pub use self::folders::{Branch, Folder, Shelf, ShelfEntry, ShelfPage};
pub use self::node::{Check, NodeLook, Prompt};
pub use self::pin::{Pin, Sides, StepPair};
pub use self::replay::{
    Artifact, DivergenceLine, GapLine, Replay, RunReplay, SkippedKey, SkippedLine, Turn, replay, run_replay,
    turn,
};
pub use self::session_page::{RunLook, SessionLook, TURNS};
pub use self::steps::{PendingStep, Steps};

/// What can be trusted of a session, for looking at.
#[derive(Debug)]
pub struct Salvaged {
    /// The events that could be validated.
    pub prefix: ValidatedPrefix,
    /// The state after the last event that fits.
    pub state: SessionState,
    /// Why folding stopped before the last event, if it did.
    pub misfit: Option<FoldError>,
}

/// Reads what can be trusted of a session, however it is.
///
/// # Errors
/// There is no such session, or the disk cannot be read.
pub fn salvage(files: &SessionFiles, id: &SessionId) -> Result<Salvaged, StoreError> {
    let prefix = files.load_validated_prefix(id)?;
    let mut state = SessionState::new(id.clone());
    let misfit = prefix.loaded.events.iter().find_map(|event| state.apply(event).err());
    Ok(Salvaged { prefix, state, misfit })
}

impl Salvaged {
    /// `healthy`, or why it is not.
    pub fn health(&self) -> String {
        match (&self.misfit, self.prefix.health.is_healthy()) {
            (Some(misfit), true) => format!("contradicts itself: {misfit}"),
            _ => self.prefix.health.to_string(),
        }
    }

    /// The closed name of its health.
    pub const fn health_name(&self) -> &'static str {
        if self.misfit.is_some() && self.prefix.health.is_healthy() {
            "contradictory"
        } else {
            self.prefix.health.as_str()
        }
    }

    /// Whether nothing is wrong with it.
    pub const fn is_healthy(&self) -> bool {
        self.misfit.is_none() && self.prefix.health.is_healthy()
    }
}

/// What to call the nodes of a run whose places in the order of making are in `window`: the titles of their steps.
pub fn labels(state: &SessionState, run: &Run, steps: &mut Steps<'_>, window: Range<usize>) -> Labels {
    let mut labels = Labels::new();
    for node in state.nodes_of(run).skip(window.start).take(window.len()) {
        let pending =
            steps.state(node).and_then(|engine| steps.pending(run, &engine, state.context(&run.id)));
        if let Some(step) = pending {
            labels.insert(node.id.clone(), step.title);
        }
    }
    labels
}
