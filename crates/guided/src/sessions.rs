//! A cache of folded sessions. After the first read, only new events are folded.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError};

use guide::plan::{AppendPlan, Planned};
use guide::record::{Event, EventData, EventIndex, NodeId, SessionId};
use guide::state::{Node, Run, SessionState};
use guide::token::{Position, ShortToken};
use ports::blocking;
use ports::sessions::{Cursor, Loaded, PositionKey, Projection, SessionStore, positions_of};
use tokio::sync::Mutex;

use super::Refusal;

/// The maximum number of folded sessions in the cache.
const CACHED: usize = 8;
/// Sessions with more events are folded on a blocking thread.
const FOLDED_HERE: usize = 256;

/// A session as folded by this process.
pub(super) struct Session {
    pub(super) state: SessionState,
    pub(super) cursor: Cursor,
    /// The node that an event created.
    nodes: HashMap<EventIndex, NodeId>,
}

impl Session {
    /// Reads and folds a session.
    async fn read(store: &dyn SessionStore, id: &SessionId) -> Result<Self, Refusal> {
        let loaded = store.load(id.clone()).await?;
        if loaded.events.len() <= FOLDED_HERE {
            return Self::new(id, &loaded);
        }
        let id = id.clone();
        blocking(move || Self::new(&id, &loaded)).await
    }

    fn new(id: &SessionId, loaded: &Loaded) -> Result<Self, Refusal> {
        let mut session = Self::unread(id);
        session.take(loaded)?;
        Ok(session)
    }

    /// A session before its first read.
    pub(super) fn unread(id: &SessionId) -> Self {
        Self {
            state: SessionState::new(id.clone()),
            cursor: Cursor::start(id.clone()),
            nodes: HashMap::new(),
        }
    }

    /// Folds new events.
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

    /// Keeps what the state does not contain: which event created which node.
    fn note(&mut self, events: &[Event]) {
        for event in events {
            if let (EventData::NodeCreated { .. }, Some(node_id)) = (&event.data, event.scope.node_id()) {
                self.nodes.insert(event.event_index, node_id.clone());
            }
        }
    }

    /// Moves the session out, to fold events that are not yet in the log, and leaves an unread one in its place. If the
    /// append fails, panics or is dropped, no reply can contain events that were never recorded.
    pub(super) fn set_aside(&mut self) -> Self {
        let unread = Self::unread(self.state.session_id());
        std::mem::replace(self, unread)
    }

    /// Plans an append and folds it. Returns `None` if it is already recorded.
    pub(super) fn plan(&mut self, events: Vec<Event>) -> Result<Option<AppendPlan>, Refusal> {
        match AppendPlan::new(&mut self.state, events)? {
            Planned::Append(plan) => {
                self.note(plan.events());
                Ok(Some(plan))
            }
            Planned::Recorded => Ok(None),
        }
    }

    /// Reads the session again after it was moved out. If this fails too, the next call retries.
    pub(super) async fn reread(&mut self, store: &dyn SessionStore) {
        let id = self.state.session_id().clone();
        *self = Self::read(store, &id).await.unwrap_or_else(|_| Self::unread(&id));
    }

    /// The position of a short token, by the event that created its node.
    pub(super) fn position(&self, made_by: EventIndex, digest: &PositionKey) -> Option<Position> {
        let node = self.state.node(self.nodes.get(&made_by)?)?;
        self.positions_of(node).into_iter().find(|position| ShortToken::position_digest(position) == *digest)
    }

    /// Every attempt on a node that a token can identify.
    pub(super) fn positions_of(&self, node: &Node) -> Vec<Position> {
        positions_of(&self.state, node)
    }

    /// The index entry of the session. With `touched`, it has only the positions of those nodes.
    pub(super) fn projection(
        &self,
        touched: Option<&[NodeId]>,
        name: impl Fn(&Run) -> Option<String>,
    ) -> Projection {
        Projection::of(&self.state, touched, name)
    }
}

/// The cache, least recently used session first.
#[derive(Default)]
pub(super) struct Sessions(std::sync::Mutex<VecDeque<(SessionId, Arc<Mutex<Session>>)>>);

impl Sessions {
    /// The session, including all events that are in the log now.
    pub(super) async fn current(
        &self,
        store: &dyn SessionStore,
        id: &SessionId,
    ) -> Result<Arc<Mutex<Session>>, Refusal> {
        if let Some(session) = self.cached(id) {
            let mut locked = session.lock().await;
            let news = store.load_since(locked.cursor.clone()).await?;
            // If the session was deleted and created again, the events begin with the first one.
            let continues =
                news.events.first().is_none_or(|first| first.event_index == locked.state.next_index());
            if continues {
                locked.take(&news)?;
            } else {
                *locked = Session::read(store, id).await?;
            }
            drop(locked);
            return Ok(session);
        }
        let session = Arc::new(Mutex::new(Session::read(store, id).await?));
        self.keep(id, &session);
        Ok(session)
    }

    /// Caches a session that was just created.
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
