//! The port to the place where runs are kept.
//!
//! A [`Commit`] is a list of [`Change`]s that happen together or not at all. The store may put many commits
//! into one transaction; it calls [`Done`] once they are on the disk, and not before. Reads never wait for
//! writes, and see only what is durable.

mod cause;

use std::fmt;
use std::sync::Arc;

use canon::digest::Digest;
use canon::time::Timestamp;

pub use self::cause::Cause;

use crate::id::{ArtifactId, EffectId, RunId, SubscriptionId, Tenant, WorkflowId};
use crate::run::RunStatus;

/// Bytes that are shared and never changed.
pub type Bytes = Arc<[u8]>;

/// What a read gives.
pub type Read<T> = Result<T, ReadError>;

/// What is called when a commit is durable, or refused. It runs on the store's own thread and returns at once.
pub type Done = Box<dyn FnOnce(Result<(), CommitError>) + Send>;

/// Changes that happen together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Commit {
    /// The changes, in order.
    pub changes: Vec<Change>,
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A run that did not exist.
    CreateRun {
        run_id: RunId,
        tenant: Tenant,
        workflow_id: WorkflowId,
        /// What it was created with, as JSON.
        genesis: Bytes,
        /// What may run only once at a time.
        scope_id: Option<String>,
        /// Whether the commit is refused while another run of the tenant and scope is under way.
        exclusive: bool,
        /// The run that started it.
        parent_run_id: Option<RunId>,
        /// For finding it again.
        tags: Vec<String>,
        created_at: Timestamp,
    },
    /// The next events of a run, with the snapshot after them.
    Append {
        run_id: RunId,
        /// The sequence of the first event; the commit is refused unless it is the next.
        first: u64,
        /// The sequence of the last event.
        last: u64,
        /// The JSON texts of the events, one to a line.
        events: Bytes,
        /// The state of the run after them.
        status: RunStatus,
        /// The snapshot after them, as JSON.
        snapshot: Bytes,
        at: Timestamp,
    },
    /// The folded state of a run, as [`RunState::checkpoint`](crate::state::RunState::checkpoint) gives it. It replaces the one before; `None`
    /// deletes it.
    SetRunCheckpoint { run_id: RunId, checkpoint: Option<Bytes> },
    /// A definition of a workflow. The same digest again is no change.
    PutDefinition {
        tenant: Tenant,
        workflow_id: WorkflowId,
        /// The digest of its document.
        digest: Digest,
        /// The document as it came.
        document: Bytes,
        at: Timestamp,
    },
    /// A timer, or another moment for it.
    SetTimer {
        run_id: RunId,
        /// What for, in the host's own spelling.
        key: String,
        at: Timestamp,
    },
    /// A timer that is not needed any more. It need not exist.
    ClearTimer { run_id: RunId, key: String },
    /// The answer to a request, under the caller's key. The commit is refused when the key is taken.
    PutAnswer { key: AnswerKey, answer: Answer },
    /// An effect is about to be made. The commit is refused when it was claimed before.
    ClaimActivity {
        /// The layer-2 identity.
        id: EffectId,
        run_id: RunId,
        at: Timestamp,
    },
    /// An effect was made, or failed.
    FinishActivity {
        /// The layer-2 identity.
        id: EffectId,
        /// The result of the effect, as JSON.
        outcome: Bytes,
    },
    /// An artifact of a run.
    PutArtifact {
        run_id: RunId,
        artifact_id: ArtifactId,
        /// What it is, as JSON.
        document: Bytes,
    },
    /// Replaces the content of an existing artifact. The commit is refused if the artifact does not exist, or if its content is not the
    /// expected one any more.
    ReplaceArtifact {
        run_id: RunId,
        artifact_id: ArtifactId,
        /// The digest of the document that was seen, byte for byte.
        seen: Digest,
        /// What it is from now on, as JSON.
        document: Bytes,
    },
    /// A note about a run, a node or an event.
    PutAnnotation {
        run_id: RunId,
        annotation_id: String,
        /// What it is, as JSON.
        document: Bytes,
    },
    /// A subscription of a tenant.
    PutWebhook {
        tenant: Tenant,
        webhook_id: SubscriptionId,
        /// What it is, as JSON; the secret in it is the host's to protect.
        document: Bytes,
    },
    /// A subscription that ended. The commit is refused when there is none.
    DeleteWebhook { tenant: Tenant, webhook_id: SubscriptionId },
    /// A delivery that is to be made, or to be made again later.
    PutDelivery {
        delivery_id: String,
        webhook_id: SubscriptionId,
        due: Timestamp,
        /// How often it was tried.
        attempts: u32,
        /// What is sent, as JSON.
        body: Bytes,
    },
    /// A delivery that needs no more attempts. It need not exist.
    DeleteDelivery { delivery_id: String },
    /// A delivery that was given up: it is taken out of the queue and kept for people to look at. It need not exist.
    BuryDelivery {
        delivery_id: String,
        /// Why, in a sentence.
        reason: String,
        at: Timestamp,
    },
    /// An entry of the audit log. The store adds sequence and chain: see [`RunStore::audit`].
    Audit {
        tenant: Tenant,
        /// What happened, as canonical JSON.
        entry: Bytes,
    },
    /// A signed statement about a tenant's audit log up to an entry. One for that entry already is no change.
    PutCheckpoint {
        /// Whose log.
        tenant: Tenant,
        /// The last entry that it speaks of.
        at_sequence: u64,
        /// What it says, as JSON.
        document: Bytes,
    },
    /// A run that has ended, with all that belongs to it: events, tags, artifacts, annotations, effects. One that is not there, or has
    /// not ended, is left alone.
    DeleteRun { run_id: RunId },
    /// The oldest recorded answers that were given before a moment, so many at most.
    DeleteAnswers {
        /// The moment.
        before: Timestamp,
        limit: usize,
    },
    /// Whether messages start runs of a workflow, from now on.
    SetListening {
        tenant: Tenant,
        workflow_id: WorkflowId,
        /// Whether they do.
        is_listening: bool,
    },
    /// A message of a queue starts a run. The commit is refused when it started one before.
    ClaimMessage {
        tenant: Tenant,
        /// Its id, which no other message of the tenant ever has.
        message_id: String,
        run_id: RunId,
    },
    /// A message that is gone from its queue for good: what it started need not be remembered. It need not be known.
    ForgetMessage { tenant: Tenant, message_id: String },
    /// A trigger has read a stream up to a place. The commit is refused when it is not where the change says.
    MoveListener {
        tenant: Tenant,
        workflow_id: WorkflowId,
        /// The name under which the trigger reads.
        consumer: String,
        /// Where it was; nowhere before its first place.
        from: Option<String>,
        /// Where it is from now on.
        to: String,
    },
    /// A key, by the hash of it; the same hash again replaces what is known of it.
    PutApiKey {
        hash: Digest,
        /// What is known of it, as JSON.
        document: Bytes,
    },
}

/// What an answer is kept under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AnswerKey {
    /// Whose request it was.
    pub tenant: Tenant,
    /// What was asked, as method and path.
    pub endpoint: String,
    /// The digest of the caller's key: the key itself is kept nowhere.
    pub key: Digest,
}

/// The recorded answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The digest of the canonical body of the request.
    pub request: Digest,
    /// The status of the answer.
    pub status: u16,
    /// The body of the answer.
    pub body: Bytes,
    pub at: Timestamp,
}

/// Why a commit did not happen.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CommitError {
    /// The run has moved on since it was read.
    #[error("run {run_id} has other events by now")]
    Moved { run_id: RunId },
    /// There is such a run already.
    #[error("there is a run {run_id} already")]
    RunExists { run_id: RunId },
    /// Another run of the scope is under way.
    #[error("run {active_run_id} of the scope is under way")]
    ScopeActive { active_run_id: RunId },
    /// The caller's key has an answer already.
    #[error("the key has an answer already")]
    KeyTaken,
    /// The effect was claimed before.
    #[error("the effect was claimed before")]
    ActivityClaimed,
    /// The artifact holds something else than was seen, or is not there.
    #[error("the artifact was changed by another writer")]
    ArtifactChanged,
    /// There is no such subscription.
    #[error("there is no such subscription")]
    NoSuchWebhook,
    /// The message started a run before.
    #[error("the message started a run before")]
    MessageClaimed,
    /// The trigger is at another place of its stream.
    #[error("the trigger is at another place of its stream")]
    ListenerMoved,
    /// The disk is full.
    #[error("the disk is full")]
    Full(#[source] Cause),
    /// The store failed; nothing of the commit happened, unless the error says otherwise.
    #[error("the store failed")]
    Store(#[source] Cause),
    /// The store is being closed.
    #[error("the store is closed")]
    Closed,
}

/// A run as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    pub run_id: RunId,
    pub tenant: Tenant,
    pub workflow_id: WorkflowId,
    /// What it was created with, as JSON.
    pub genesis: Bytes,
    /// Its state.
    pub status: RunStatus,
    /// The sequence of the next event.
    pub next_sequence: u64,
    /// The snapshot after the last event, as JSON.
    pub snapshot: Bytes,
}

/// The events of one append.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredAppend {
    /// The sequence of the first event.
    pub first: u64,
    /// The sequence of the last event.
    pub last: u64,
    /// The JSON texts, one to a line.
    pub events: Bytes,
}

/// Which runs to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFilter {
    /// In this state.
    pub status: Option<RunStatus>,
    pub workflow_id: Option<WorkflowId>,
    pub tag: Option<String>,
    /// Runs that wait for a person or an external event.
    pub waiting: bool,
    /// Older than this place, as a list gave it.
    pub before: Option<u64>,
}

/// A run in a list, with its place for [`RunFilter::before`].
#[derive(Clone, Debug, PartialEq)]
pub struct ListedRun {
    /// Its place; later runs have greater ones.
    pub place: u64,
    /// The snapshot, as JSON.
    pub snapshot: Bytes,
}

/// What is known of the age of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgedRun {
    /// Its place; later runs have greater ones.
    pub place: u64,
    pub run_id: RunId,
    pub tenant: Tenant,
    /// Whether another run started it.
    pub is_child: bool,
    /// Whether it has ended.
    pub has_ended: bool,
    pub created_at: Timestamp,
    /// When its last event was recorded.
    pub updated_at: Timestamp,
}

/// A timer that was set.
#[derive(Clone, Debug, PartialEq)]
pub struct Timer {
    pub run_id: RunId,
    pub key: String,
    pub at: Timestamp,
}

/// A delivery to a subscriber.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub delivery_id: String,
    pub webhook_id: SubscriptionId,
    pub due: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
    /// What is sent, as JSON.
    pub body: Bytes,
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// Its place in the log of the tenant, from 0.
    pub sequence: u64,
    /// SHA-256 of the entry before it, as it is kept; of nothing for the first.
    pub previous: Digest,
    /// What happened, as canonical JSON.
    pub entry: Bytes,
}

impl AuditEntry {
    /// What the entry after this one has to hold as [`AuditEntry::previous`].
    pub fn link(&self) -> Digest {
        link(self.sequence, self.previous, &self.entry)
    }
}

/// The digest that binds an entry of the audit log: of the canonical JSON of the entry with its place and its own link. The entry is
/// canonical already and the members stand in order, so the text is put together as it is.
pub fn link(sequence: u64, previous: Digest, entry: &[u8]) -> Digest {
    let mut linked = Vec::with_capacity(entry.len() + 128);
    linked.extend_from_slice(b"{\"entry\":");
    linked.extend_from_slice(entry);
    linked.extend_from_slice(
        format!(",\"prevHash\":\"{}\",\"sequence\":{sequence}}}", previous.to_hex()).as_bytes(),
    );
    Digest::of_bytes(&linked)
}

/// A read that did not work.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the store cannot be read")]
pub struct ReadError(#[source] pub Cause);

/// Where runs are kept.
///
/// # Contract
/// * A commit is all or nothing, durable when [`Done`] is called with `Ok`, and refused commits leave no trace.
/// * Commits that are handed over by one thread happen in that order.
/// * Sequences of a run are dense: an append that does not begin at the next one is refused.
/// * A read sees every commit whose [`Done`] was called before it began, and none in part.
/// * What belongs to a tenant is found only through that tenant, where a method takes one.
pub trait RunStore: Send + Sync + fmt::Debug {
    /// Hands over a commit.
    fn commit(&self, commit: Commit, done: Done);

    /// A run; with a tenant only where it is that tenant's.
    ///
    /// # Errors
    /// When the store cannot be read. So for all reads.
    fn run(&self, tenant: Option<&Tenant>, run_id: &RunId) -> Read<Option<RunRow>>;

    /// The appends that hold events from `from` on, in order, until `max_events` or `max_bytes` are reached; at least one.
    fn appends(
        &self,
        run_id: &RunId,
        from: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> Read<Vec<StoredAppend>>;

    /// The last checkpoint of a run. A cache: where there is none, the whole log is folded.
    fn run_checkpoint(&self, run_id: &RunId) -> Read<Option<Bytes>>;

    /// The runs of a tenant, newest first.
    fn runs(&self, tenant: &Tenant, filter: &RunFilter, limit: usize) -> Read<Vec<ListedRun>>;

    /// The ids of runs that are under way, `limit` of them after the given one, in the order of ids: for recovery.
    fn open_runs(&self, after: Option<&RunId>, limit: usize) -> Read<Vec<RunId>>;

    /// The ids of the children of a run.
    fn children(&self, run_id: &RunId) -> Read<Vec<RunId>>;

    /// The runs of all tenants in the order of their creation, `limit` of them after a place: for what is kept for how long.
    fn aged_runs(&self, after: u64, limit: usize) -> Read<Vec<AgedRun>>;

    /// The age of one run.
    fn aged_run(&self, run_id: &RunId) -> Read<Option<AgedRun>>;

    /// When the oldest recorded answer was given.
    fn oldest_answer(&self) -> Read<Option<Timestamp>>;

    /// The newest definition of that id which the tenant has, with its digest.
    fn definition(&self, tenant: &Tenant, workflow_id: &WorkflowId) -> Read<Option<(Digest, Bytes)>>;

    /// The definition of that digest.
    fn definition_by_digest(&self, digest: Digest) -> Read<Option<Bytes>>;

    /// The newest definitions of a tenant, in the order of their ids, `limit` of them after the given one.
    fn definitions(
        &self,
        tenant: &Tenant,
        after: Option<&WorkflowId>,
        limit: usize,
    ) -> Read<Vec<(WorkflowId, Digest)>>;

    /// The timers that are due at a moment, the earliest first.
    fn due_timers(&self, at: Timestamp, limit: usize) -> Read<Vec<Timer>>;

    /// The earliest timer.
    fn next_timer(&self) -> Read<Option<Timer>>;

    /// The recorded answer to a request.
    fn answer(&self, key: &AnswerKey) -> Read<Option<Answer>>;

    /// Whether an effect was claimed, and its result: `Some(None)` means claimed and not finished.
    fn activity(&self, id: &EffectId) -> Read<Option<Option<Bytes>>>;

    /// An artifact of a run.
    fn artifact(&self, run_id: &RunId, artifact_id: &ArtifactId) -> Read<Option<Bytes>>;

    /// The ids of the artifacts of a run, in their order.
    fn artifact_ids(&self, run_id: &RunId, limit: usize) -> Read<Vec<ArtifactId>>;

    /// The annotations of a run, in the order in which they were made.
    fn annotations(&self, run_id: &RunId) -> Read<Vec<Bytes>>;

    /// The subscriptions of a tenant, with their ids.
    fn webhooks(&self, tenant: &Tenant) -> Read<Vec<(SubscriptionId, Bytes)>>;

    /// The deliveries that are due, the earliest first.
    fn due_deliveries(&self, at: Timestamp, limit: usize) -> Read<Vec<Delivery>>;

    /// A subscription, whosever it is, with its tenant: for the deliverer.
    fn webhook(&self, webhook_id: &SubscriptionId) -> Read<Option<(Tenant, Bytes)>>;

    /// When the earliest delivery is due.
    fn next_delivery(&self) -> Read<Option<Timestamp>>;

    /// The deliveries of a subscription that were given up, the newest first, with why.
    fn buried_deliveries(&self, webhook_id: &SubscriptionId, limit: usize) -> Read<Vec<(Delivery, String)>>;

    /// The entries of a tenant's audit log, both ends included.
    fn audit(&self, tenant: &Tenant, from: u64, to: u64, limit: usize) -> Read<Vec<AuditEntry>>;

    /// Whether damaged data was read. It stays damaged until an operator restores a backup.
    fn is_damaged(&self) -> bool {
        false
    }

    /// The sequence of the last entry of a tenant's audit log.
    fn audit_end(&self, tenant: &Tenant) -> Read<Option<u64>>;

    /// The checkpoints of a tenant's audit log whose entries lie in the range, both ends included, in order.
    fn checkpoints(&self, tenant: &Tenant, from: u64, to: u64, limit: usize) -> Read<Vec<(u64, Bytes)>>;

    /// The last checkpoint of a tenant's audit log before an entry.
    fn checkpoint_before(&self, tenant: &Tenant, sequence: u64) -> Read<Option<(u64, Bytes)>>;

    /// The workflows of all tenants that messages start runs of, as tenant and id, `limit` of them after the given one, in their order.
    fn listening(
        &self,
        after: Option<(&Tenant, &WorkflowId)>,
        limit: usize,
    ) -> Read<Vec<(Tenant, WorkflowId)>>;

    /// The workflows of all tenants whose newest document contains one of these texts, as tenant and id, `limit` of them after the given
    /// one, in their order. It reads every document: for a look at the start, and not for requests.
    fn workflows_containing(
        &self,
        texts: [&str; 2],
        after: Option<(&Tenant, &WorkflowId)>,
        limit: usize,
    ) -> Read<Vec<(Tenant, WorkflowId)>>;

    /// How far a trigger has read its stream.
    fn listener_place(
        &self,
        tenant: &Tenant,
        workflow_id: &WorkflowId,
        consumer: &str,
    ) -> Read<Option<String>>;

    /// What is known of a key.
    fn api_key(&self, hash: Digest) -> Read<Option<Bytes>>;

    /// Every key, by hash.
    fn api_keys(&self) -> Read<Vec<(Digest, Bytes)>>;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_link_is_the_digest_of_canonical_json() {
        let entry = json!({"a": [1, "x"], "b": null});
        let previous = Digest::of_bytes(b"before");
        let whole = json!({"sequence": 7, "prevHash": previous.to_hex(), "entry": entry});
        assert_eq!(link(7, previous, entry.to_string().as_bytes()), Digest::of_canonical(&whole).unwrap());
    }
}
