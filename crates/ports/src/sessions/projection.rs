//! What the index keeps of a session. It follows from the events and the names of workflows, and from nothing else.

use guide::derive;
use guide::project::resume::{RankingInput, ranking_input};
use guide::record::{Event, EventIndex, NodeId, SessionId};
use guide::state::{Node, Run, SessionState};
use guide::token::{Position, ShortToken};

/// What a short token contains: the beginning of the digest of its position.
pub type PositionKey = [u8; 12];

/// What the index keeps of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Projection {
    /// The inputs of ranking, for each run. The [recap](RankingInput::recap) is not kept: only the few candidates that are
    /// offered need one, and they are read from their logs anyway.
    pub runs: Vec<RankingInput>,
    /// The positions that tokens refer to, and the event that created the node of each.
    pub positions: Vec<(PositionKey, EventIndex)>,
}

impl Projection {
    /// The projection of a session: of all its nodes, or with the positions of `touched` nodes only. `name` gives the name
    /// of a run's workflow, which is in its pinned copy.
    pub fn of(
        state: &SessionState,
        touched: Option<&[NodeId]>,
        name: impl Fn(&Run) -> Option<String>,
    ) -> Self {
        let input = |run| ranking_input(state, run, name(run).as_deref());
        let runs = state.runs().iter().filter_map(input).collect();
        let keys = |node: &Node| {
            let key = |position: &Position| (ShortToken::position_digest(position), node.created_index);
            positions_of(state, node).iter().map(key).collect::<Vec<_>>()
        };
        let positions = match touched {
            None => {
                let nodes = state.runs().iter().flat_map(|run| state.nodes_of(run));
                nodes.flat_map(keys).collect()
            }
            Some(ids) => ids.iter().filter_map(|id| state.node(id)).flat_map(keys).collect(),
        };
        Self { runs, positions }
    }
}

/// The projection of a session from its events; `None` if they contradict each other.
pub fn project(
    session: &SessionId,
    events: &[Event],
    name: impl Fn(&Run) -> Option<String>,
) -> Option<Projection> {
    let state = SessionState::fold(session.clone(), events).ok()?;
    Some(Projection::of(&state, None, name))
}

/// Every attempt on a node that a token can refer to: the recorded ones, and the next.
pub fn positions_of(state: &SessionState, node: &Node) -> Vec<Position> {
    let session_id = state.session_id();
    let next = derive::attempt_id(session_id, &node.id, node.attempts() as u64);
    let attempts = node.advances().map(|(attempt_id, _)| attempt_id.clone()).chain([next]);
    attempts
        .map(|attempt_id| Position {
            session_id: session_id.clone(),
            run_id: node.run_id.clone(),
            node_id: node.id.clone(),
            attempt_id,
        })
        .collect()
}
