//! Reads runs for callers.

use std::sync::Arc;

use flow::definition::Definition;
use flow::event::wire::{self, RawEvent};
use flow::history::{self, Difference, History};
use flow::id::{NodeId, RunId, Tenant};
use flow::mask::Mask;
use flow::redact;
use flow::run::RunStatus;
use flow::snapshot::RunView;
use flow::state::Interrupt;
use ports::runs::{Bytes, ListCursor, RunFilter, RunPage, StoredRun};
use serde_json::Value;

use super::Queries;
use crate::interrupt_tokens::{Recipient, TOKEN_PERIOD_MS};
pub use crate::records::MAX_LISTED;
use crate::states::{genesis_in, lines, shown, unreadable_event, unreadable_snapshot};
use crate::{Caller, Following, Refusal};

/// The maximum number of events in one page.
pub const MAX_EVENTS: usize = 200;
/// The maximum size of the part of the log that one page of events is read from, in bytes.
const PAGE_BYTES: usize = 1 << 20;

/// A run that started another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentRun {
    pub run_id: RunId,
    /// The type of the node that started it.
    pub type_id: String,
}

impl Queries {
    /// The snapshot of a run, and the sequence of its last event, which changes whenever the run does.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn read(&self, caller: &Caller, run_id: &RunId) -> Result<(Bytes, u64), Refusal> {
        let row = self.states.visible(caller, run_id).await?;
        let sequence = row.next_sequence;
        Ok((self.shown(caller, row).await?.0, sequence))
    }

    /// The snapshot of a run, and an entity tag for exactly these bytes. The tag has the sequence. While an interrupt is pending, it
    /// also has the period of the token in the snapshot, so that a client does not keep an expired token because the run has not
    /// changed. For a reader who may see how an agent connects, it also has the progress of the session. It never contains a token.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn read_tagged(&self, caller: &Caller, run_id: &RunId) -> Result<(Bytes, String), Refusal> {
        let row = self.states.visible(caller, run_id).await?;
        let mut tag = row.next_sequence.to_string();
        if row.status.is_waiting() {
            // Tokens are issued to the reader, so the response differs for another key of the same client.
            let reader = Recipient::caller(caller).tag();
            tag = format!("{tag}.{}.{reader}", self.records.now().0 / TOKEN_PERIOD_MS);
        }
        let (bytes, of_session) = self.shown(caller, row).await?;
        if let Some(of_session) = of_session {
            tag = format!("{tag}.{of_session}");
        }
        Ok((bytes, tag))
    }

    /// The snapshot as a reader may see it, and the part of its tag that is about a session.
    async fn shown(&self, caller: &Caller, row: StoredRun) -> Result<(Bytes, Option<String>), Refusal> {
        if !row.status.is_waiting() {
            return Ok((row.snapshot, None));
        }
        let run_id = &row.run_id;
        let mut snapshot: Value =
            serde_json::from_slice(&row.snapshot).map_err(|error| unreadable_snapshot(&error))?;
        // A child of the run waits. The reply goes to the child.
        if snapshot.get("interrupt").is_none() {
            return Ok((row.snapshot, None));
        }
        // An interrupt is pending. A caller who may respond gets a token to reply with, any other caller a token to inspect with.
        // Tokens are created here, for this caller, and are not stored.
        let loaded = self.states.load(run_id).await?;
        let node = snapshot.pointer("/interrupt/nodeId").and_then(Value::as_str).map(NodeId::new);
        let mut of_session = None;
        if let Some(node) = &node {
            of_session = self.connections.tag(caller, &loaded.state, node).await;
            self.connections.show(caller, &loaded.state, node, &mut snapshot["interrupt"]).await;
        }
        let interrupt = node.and_then(|node| loaded.state.interrupts.get(&node));
        let recipient = Recipient::caller(caller);
        let token = interrupt.and_then(|interrupt| self.tokens.sign(&loaded, interrupt, &recipient));
        if let Some(token) = token {
            snapshot["interrupt"]["callbackUrl"] =
                format!("{}/v1/interrupts/{token}", self.public_url).into();
            snapshot["interrupt"]["interruptToken"] = token.into();
        }
        Ok((snapshot.to_string().into_bytes().into(), of_session))
    }

    /// The status of a run, and the sequence of its next event.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn status(&self, caller: &Caller, run_id: &RunId) -> Result<(RunStatus, u64), Refusal> {
        let row = self.states.visible(caller, run_id).await?;
        Ok((row.status, row.next_sequence))
    }

    /// The tenant of a run, for a caller who was admitted by other means than a key of the tenant.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn tenant_of(&self, run_id: &RunId) -> Result<Option<Tenant>, Refusal> {
        Ok(self.records.store().run(None, run_id).await?.map(|row| row.tenant))
    }

    /// A typed view of a run, and the sequence of its next event. It has no tokens for interrupts.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn view(&self, caller: &Caller, run_id: &RunId) -> Result<(RunView, u64), Refusal> {
        let row = self.states.visible(caller, run_id).await?;
        let view = RunView::read(&row.snapshot).map_err(|error| unreadable_snapshot(&error))?;
        Ok((view, row.next_sequence))
    }

    /// Like [`Queries::list`], with typed views, and the cursor of the next page.
    ///
    /// # Errors
    /// Like [`Queries::list`], and if a snapshot cannot be read.
    pub async fn views(
        &self,
        caller: &Caller,
        filter: &RunFilter,
        limit: usize,
    ) -> Result<(Vec<RunView>, Option<ListCursor>), Refusal> {
        let page = self.list(caller, filter, limit).await?;
        let views = page.runs.iter().map(|bytes| RunView::read(bytes));
        let views = views.collect::<Result<_, _>>().map_err(|error| unreadable_snapshot(&error))?;
        Ok((views, page.next))
    }

    /// A page of the runs of a tenant, newest first: at most [`MAX_LISTED`].
    ///
    /// # Errors
    /// If the cursor of the filter is invalid, or the store cannot be read.
    pub async fn list(&self, caller: &Caller, filter: &RunFilter, limit: usize) -> Result<RunPage, Refusal> {
        Ok(self.records.store().runs(&caller.tenant, filter, limit.clamp(1, MAX_LISTED)).await?)
    }

    /// The workflow that a run is pinned to.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn definition_of(&self, caller: &Caller, run_id: &RunId) -> Result<Arc<Definition>, Refusal> {
        let row = self.states.visible(caller, run_id).await?;
        self.states.pinned(&row).await
    }

    /// A page of events of a run from a sequence on, as a reader may see them, and whether more follow.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn event_page(
        &self,
        caller: &Caller,
        run_id: &RunId,
        from: u64,
        limit: usize,
    ) -> Result<(Vec<RawEvent>, bool), Refusal> {
        let row = self.states.visible(caller, run_id).await?;
        let definition = self.states.pinned(&row).await?;
        let mask = Mask::of(&definition);
        let limit = limit.clamp(1, MAX_EVENTS);
        let appends = self.records.store().appends(run_id, from, limit, PAGE_BYTES).await?;
        let lines = appends.iter().flat_map(|append| lines(append, from)).take(limit);
        let shown = lines.filter_map(|(_, text)| shown(mask.as_ref(), run_id, text));
        let events = shown.map(|text| wire::decode_raw(text.as_bytes()).map_err(unreadable_event));
        let events: Vec<RawEvent> = events.collect::<Result<_, _>>()?;
        let more = events.last().is_some_and(|last| last.sequence + 1 < row.next_sequence);
        Ok((events, more))
    }

    /// All pending interrupts of a run, in the order in which they were raised.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn open_interrupts(&self, caller: &Caller, run_id: &RunId) -> Result<Vec<Interrupt>, Refusal> {
        let row = self.states.visible(caller, run_id).await?;
        if row.status.is_terminal() {
            return Ok(Vec::new());
        }
        let mut open: Vec<Interrupt> =
            self.states.load(run_id).await?.state.interrupts.into_values().collect();
        open.sort_by_key(|interrupt| interrupt.sequence);
        Ok(open)
    }

    /// A number that changes whenever a run changes in this process.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.states.changes()
    }

    /// Watches a run of the tenant, from a sequence on.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn follow(&self, tenant: &Tenant, run_id: &RunId, from: u64) -> Result<Following, Refusal> {
        self.states.follow(tenant, run_id, from).await
    }

    /// The differences between two runs.
    ///
    /// # Errors
    /// If one of them does not exist.
    pub async fn difference(&self, caller: &Caller, a: &RunId, b: &RunId) -> Result<Difference, Refusal> {
        let read = async |run_id: &RunId| -> Result<_, Refusal> {
            let row = self.states.visible(caller, run_id).await?;
            let mut snapshot: Value = serde_json::from_slice(&row.snapshot).unwrap_or(Value::Null);
            let (definition, events) =
                (self.states.pinned(&row).await?, self.states.events(run_id, 0).await?);
            // Compared as readers see them: a difference must not reveal hidden values, nor that they differ.
            let mask = Mask::of(&definition);
            let shown = events.iter().map(|event| match &mask {
                Some(mask) => mask.shown(event),
                None => RawEvent::from(event),
            });
            let mut events: Vec<RawEvent> = shown.collect();
            for event in &mut events {
                let mut payload = Value::Object(std::mem::take(&mut event.payload));
                redact::value(&mut payload);
                if let Value::Object(payload) = payload {
                    event.payload = payload;
                }
                event.node_id =
                    event.node_id.take().map(|id| NodeId::new(redact::text(id.as_str()).into_owned()));
            }
            redact::value(&mut snapshot);
            Ok((events, snapshot))
        };
        let (a, b) = (read(a).await?, read(b).await?);
        let (a, b) = (History { events: &a.0, snapshot: &a.1 }, History { events: &b.0, snapshot: &b.1 });
        Ok(history::difference(a, b))
    }

    /// The run that started a run, if there is one.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn parent(&self, caller: &Caller, run_id: &RunId) -> Result<Option<ParentRun>, Refusal> {
        let row = self.states.visible(caller, run_id).await?;
        let parent = genesis_in(&row)?.parent;
        Ok(parent.map(|parent| ParentRun { run_id: parent.run_id, type_id: parent.type_id }))
    }
}
