//! Sessions in memory: folded once, then only what is new.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use guide::derive;
use guide::plan::{AppendPlan, Planned};
use guide::project::resume::ranking_input;
use guide::record::{Event, EventData, EventIndex, NodeId, SessionId};
use guide::state::{Node, Run, SessionState};
use guide::token::{Position, ShortToken};
use serde_json::{Map, Value};
use storage::files::{Cursor, Loaded, SessionFiles};
use storage::index::{PositionKey, Projection};

use super::Refusal;

/// How many sessions are kept folded.
const CACHED: usize = 8;

/// A session as this process knows it.
pub(super) struct Session {
    pub(super) state: SessionState,
    pub(super) cursor: Cursor,
    /// Every context that was ever in force, by the event that set it: a replay renders with the one of then.
    contexts: BTreeMap<EventIndex, Arc<Map<String, Value>>>,
    /// The node that an event made.
    nodes: HashMap<EventIndex, NodeId>,
}

impl Session {
    pub(super) fn new(id: &SessionId, loaded: &Loaded) -> Result<Self, Refusal> {
        let mut session = Self::unread(id);
        session.take(loaded)?;
        Ok(session)
    }

    /// A session of which nothing is known yet: the next look reads all of it.
    pub(super) fn unread(id: &SessionId) -> Self {
        Self {
            state: SessionState::new(id.clone()),
            cursor: Cursor::start(id.clone()),
            contexts: BTreeMap::new(),
            nodes: HashMap::new(),
        }
    }

    /// Takes over what was appended.
    pub(super) fn take(&mut self, news: &Loaded) -> Result<(), Refusal> {
        self.apply(&news.events)?;
        self.cursor = news.cursor.clone();
        Ok(())
    }

    fn apply(&mut self, events: &[Event]) -> Result<(), Refusal> {
        for event in events {
            self.state.apply(event)?;
        }
        self.note(events);
        Ok(())
    }

    /// Keeps what the state does not: earlier contexts, and which event made which node.
    fn note(&mut self, events: &[Event]) {
        for event in events {
            match &event.data {
                EventData::ContextSet { context, .. } => {
                    self.contexts.insert(event.event_index, Arc::new(context.clone()));
                }
                EventData::NodeCreated { .. } => {
                    if let Some(node_id) = event.scope.node_id() {
                        self.nodes.insert(event.event_index, node_id.clone());
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes the session away to be folded further than its log goes, and leaves one behind of which nothing
    /// is known. Should the append fail, or panic, nobody is told what was never recorded.
    pub(super) fn set_aside(&mut self) -> Self {
        let unread = Self::unread(self.state.session_id());
        std::mem::replace(self, unread)
    }

    /// Plans an append, and folds it; nothing if it was made before.
    pub(super) fn plan(&mut self, events: Vec<Event>) -> Result<Option<AppendPlan>, Refusal> {
        match AppendPlan::new(&mut self.state, events)? {
            Planned::Append(plan) => {
                self.note(plan.events());
                Ok(Some(plan))
            }
            Planned::Recorded => Ok(None),
        }
    }

    /// Reads the session again, in place of one that was set aside. If even that does not work, nothing is
    /// known of it, and the next look tries.
    pub(super) fn reread(&mut self, files: &SessionFiles) {
        let id = self.state.session_id().clone();
        let session = files.load(&id).ok().and_then(|loaded| Self::new(&id, &loaded).ok());
        *self = session.unwrap_or_else(|| Self::unread(&id));
    }

    /// The context that was in force when a node was made.
    pub(super) fn context_of(&self, node: &Node) -> Arc<Map<String, Value>> {
        let context = match node.parent {
            // The root is made before the first context is set.
            None => self.contexts.values().next(),
            Some(_) => node.context_index.and_then(|index| self.contexts.get(&index)),
        };
        context.cloned().unwrap_or_default()
    }

    /// The context that the session began with.
    pub(super) fn first_context(&self) -> Option<Arc<Map<String, Value>>> {
        self.contexts.values().next().cloned()
    }

    /// The position of a short token, whose node an event made.
    pub(super) fn position(&self, made_by: EventIndex, digest: &PositionKey) -> Option<Position> {
        let node = self.state.node(self.nodes.get(&made_by)?)?;
        self.positions_of(node).into_iter().find(|position| ShortToken::position_digest(position) == *digest)
    }

    /// Every attempt of a node that a token can stand for: the recorded ones, and the next.
    pub(super) fn positions_of(&self, node: &Node) -> Vec<Position> {
        let session_id = self.state.session_id();
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

    /// What the index keeps of the whole session, or of the nodes that `since` an event were made or advanced.
    /// Runs are found by the name of their workflow too, which only its pinned copy has.
    pub(super) fn projection(
        &self,
        touched: Option<&[NodeId]>,
        name: impl Fn(&Run) -> Option<String>,
    ) -> Projection {
        let input = |run| ranking_input(&self.state, run, name(run).as_deref());
        let runs = self.state.runs().iter().filter_map(input).collect();
        let position = |node: &Node| {
            self.positions_of(node)
                .into_iter()
                .map(|position| (ShortToken::position_digest(&position), node.created_index))
                .collect::<Vec<_>>()
        };
        let positions = match touched {
            None => {
                let nodes = self.state.runs().iter().flat_map(|run| self.state.nodes_of(run));
                nodes.flat_map(position).collect()
            }
            Some(ids) => ids.iter().filter_map(|id| self.state.node(id)).flat_map(position).collect(),
        };
        Projection { runs, positions }
    }
}

/// What the index keeps of a session that it does not know.
pub(super) fn project(loaded: &Loaded, name: impl Fn(&Run) -> Option<String>) -> Option<Projection> {
    let session = Session::new(loaded.cursor.session_id(), loaded).ok()?;
    Some(session.projection(None, name))
}

/// The sessions that are kept folded, the least recently used first.
#[derive(Default)]
pub(super) struct Sessions(Mutex<VecDeque<(SessionId, Arc<Mutex<Session>>)>>);

impl Sessions {
    /// The session, with everything that is in the log now.
    pub(super) fn current(
        &self,
        files: &SessionFiles,
        id: &SessionId,
    ) -> Result<Arc<Mutex<Session>>, Refusal> {
        if let Some(session) = self.cached(id) {
            let mut locked = session.lock().unwrap_or_else(PoisonError::into_inner);
            let news = files.load_since(&locked.cursor)?;
            // A session that was deleted and made anew begins again with its first event.
            let continues =
                news.events.first().is_none_or(|first| first.event_index == locked.state.next_index());
            if continues {
                locked.take(&news)?;
            } else {
                *locked = Session::new(id, &files.load(id)?)?;
            }
            drop(locked);
            return Ok(session);
        }
        let session = Arc::new(Mutex::new(Session::new(id, &files.load(id)?)?));
        self.keep(id, &session);
        Ok(session)
    }

    /// Keeps a session that was just made.
    pub(super) fn insert(&self, session: Session) -> Arc<Mutex<Session>> {
        let id = session.state.session_id().clone();
        let session = Arc::new(Mutex::new(session));
        self.keep(&id, &session);
        session
    }

    fn cached(&self, id: &SessionId) -> Option<Arc<Mutex<Session>>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(other, _)| other == id)?;
        let entry = kept.remove(place)?;
        let session = Arc::clone(&entry.1);
        kept.push_back(entry);
        Some(session)
    }

    fn keep(&self, id: &SessionId, session: &Arc<Mutex<Session>>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(other, _)| other != id);
        kept.push_back((id.clone(), Arc::clone(session)));
        while kept.len() > CACHED {
            kept.pop_front();
        }
    }
}
