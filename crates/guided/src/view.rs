//! Views of sessions for pages and the command line. Nothing here changes a session.
//!
//! For a damaged session, the valid prefix is shown. Its [health](Salvaged::health) describes the damage.

mod folders;
mod node;
mod pin;
mod replay;
mod session_page;
mod steps;

use std::ops::Range;

use guide::project::graph::Labels;
use guide::record::SessionId;
use guide::state::{FoldError, Node, Run, SessionState};
use ports::blocking;
use ports::sessions::{SessionStore, StoreError, ValidatedPrefix};

pub use self::folders::{Branch, Folder, Shelf, ShelfEntry, ShelfPage};
pub use self::node::{Check, NodeLook, Prompt};
pub use self::pin::{Pin, Sides, StepPair};
pub use self::replay::{
    Artifact, DivergenceLine, GapLine, Replay, RunReplay, SkippedKey, SkippedLine, Turn, replay, run_replay,
};
pub use self::session_page::{RunLook, SessionLook, TURNS};
use self::steps::STATES_AT_ONCE;
pub use self::steps::{PendingStep, Steps};

/// The valid prefix of a session.
#[derive(Debug)]
pub struct Salvaged {
    /// The valid events.
    pub prefix: ValidatedPrefix,
    /// The state after the last event that could be folded.
    pub state: SessionState,
    /// Why folding stopped before the last event, if it did.
    pub misfit: Option<FoldError>,
}

/// Reads the valid prefix of a session.
///
/// # Errors
/// An unknown session, or a store that cannot be read.
pub async fn salvage(store: &dyn SessionStore, id: &SessionId) -> Result<Salvaged, StoreError> {
    let prefix = store.load_validated_prefix(id.clone()).await?;
    let id = id.clone();
    // Folding a long session can take long enough to block the runtime.
    let salvaged = blocking(move || {
        let mut state = SessionState::new(id);
        let misfit = prefix.loaded.events.iter().find_map(|event| state.apply(event).err());
        Salvaged { prefix, state, misfit }
    });
    Ok(salvaged.await)
}

impl Salvaged {
    /// `healthy`, or a description of the damage.
    pub fn health(&self) -> String {
        match (&self.misfit, self.prefix.health.is_healthy()) {
            (Some(misfit), true) => format!("contradicts itself: {misfit}"),
            _ => self.prefix.health.to_string(),
        }
    }

    /// The name of the health status, from a fixed set.
    pub const fn health_name(&self) -> &'static str {
        if self.misfit.is_some() && self.prefix.health.is_healthy() {
            "contradictory"
        } else {
            self.prefix.health.as_str()
        }
    }

    /// Whether the session has no damage.
    pub const fn is_healthy(&self) -> bool {
        self.misfit.is_none() && self.prefix.health.is_healthy()
    }
}

/// The labels of the nodes of a run in `window`, counted in the order of their creation: the titles of their steps.
pub async fn labels(state: &SessionState, run: &Run, steps: &mut Steps<'_>, window: Range<usize>) -> Labels {
    let mut labels = Labels::new();
    let nodes: Vec<&Node> = state.nodes_of(run).skip(window.start).take(window.len()).collect();
    for batch in nodes.chunks(STATES_AT_ONCE) {
        steps.read_states(run, batch).await;
        for node in batch {
            let pending =
                steps.state(node).and_then(|engine| steps.pending(run, &engine, state.context(&run.id)));
            if let Some(step) = pending {
                labels.insert(node.id.clone(), step.title);
            }
        }
    }
    labels
}
