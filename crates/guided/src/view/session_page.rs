//! A session for its page: the runs, and a page of turns of one run with their graph.

use std::ops::Range;

use guide::project::graph::to_svg_part;
use guide::project::summary::SessionSummary;
use guide::record::{NodeId, RunId, SessionId};
use guide::state::SessionState;

use super::{RunReplay, Steps, labels, run_replay, salvage};
use crate::{Guided, Refusal};

/// The number of turns per page. It keeps the graph readable and the page small.
pub const TURNS: usize = 30;

/// A session as far as it can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionLook {
    pub session_id: SessionId,
    /// The session that it was delegated from.
    pub parent_session_id: Option<SessionId>,
    /// The name of its health status, from a fixed set.
    pub health: &'static str,
    /// A description of the damage. If present, the other fields describe the valid prefix.
    pub damage: Option<String>,
    /// Whether garbage collection spares it.
    pub kept: bool,
    /// Why it is incomplete, if it was salvaged from a damaged session.
    pub salvaged: Option<guide::bundle::Salvaged>,
    /// The number of events that could be read.
    pub events: u64,
    pub runs: Vec<SessionSummary>,
    /// The run that is shown. `None` if no run could be read.
    pub shown: Option<RunLook>,
}

/// A page of the turns of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLook {
    /// The turns, in the order of their creation.
    pub replay: RunReplay,
    /// The range of nodes that are shown, from 0.
    pub window: Range<usize>,
    /// The total number of nodes.
    pub nodes: usize,
    /// The graph of the turns as SVG, each a link.
    pub picture: String,
}

impl Guided {
    /// A session with a page of turns of one run. The default is the first run and the last page. Pages are counted from
    /// 0.
    ///
    /// # Errors
    /// An unknown session, and errors of the store. A damaged session is not an error.
    pub async fn look(
        &self,
        id: &SessionId,
        run: Option<&RunId>,
        page: Option<usize>,
        address: &(dyn Fn(&NodeId) -> String + Sync),
    ) -> Result<SessionLook, Refusal> {
        // A cached session is healthy.
        if let Ok(session) = self.sessions.current(&*self.store, id).await {
            let session = session.lock().await;
            return self.look_at(&session.state, "healthy", None, run, page, address).await;
        }
        let salvaged = salvage(&*self.store, id).await?;
        let damage = (!salvaged.is_healthy()).then(|| salvaged.health());
        self.look_at(&salvaged.state, salvaged.health_name(), damage, run, page, address).await
    }

    async fn look_at(
        &self,
        state: &SessionState,
        health: &'static str,
        damage: Option<String>,
        run: Option<&RunId>,
        page: Option<usize>,
        address: &(dyn Fn(&NodeId) -> String + Sync),
    ) -> Result<SessionLook, Refusal> {
        let id = state.session_id();
        let run = run.map_or_else(|| state.runs().first(), |id| state.run(id));
        let mut steps = Steps::new(&*self.store);
        let shown = match run {
            Some(run) => {
                let nodes = state.nodes_of(run).len();
                let last = nodes.saturating_sub(1) / TURNS;
                let page = page.unwrap_or(last).min(last);
                let window = page * TURNS..nodes.min((page + 1) * TURNS);
                let labels = labels(state, run, &mut steps, window.clone()).await;
                let picture =
                    to_svg_part(state, &run.id, &labels, window.clone(), address).unwrap_or_default();
                let replay = run_replay(state, run, &mut steps, window.clone()).await;
                Some(RunLook { replay, window, nodes, picture })
            }
            None => None,
        };
        Ok(SessionLook {
            session_id: id.clone(),
            parent_session_id: state.parent_session_id().cloned(),
            health,
            damage,
            kept: self.store.is_kept(id.clone()).await?,
            salvaged: self.store.salvaged(id.clone()).await?,
            events: state.next_index().0,
            runs: steps.summaries(state).await,
            shown,
        })
    }
}
