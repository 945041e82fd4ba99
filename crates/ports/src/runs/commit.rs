//! Writing: changes that take effect together.

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{ArtifactId, EffectId, RunId, SubscriptionId, Tenant, WorkflowId};
use flow::run::RunStatus;

use super::{Bytes, Reached, RecordedReply, ReplyKey};
use crate::{Cause, PortFuture};

pub type CommitFuture = PortFuture<'static, Result<(), CommitError>>;

/// Makes changes durable.
///
/// # Contract
/// * A commit is all or nothing. Its future resolves with `Ok` once it survives a power failure.
/// * A commit that is refused leaves no trace. The one error after which it may have taken effect is
///   [`CommitError::OutcomeUnknown`].
/// * A commit begins when [`Commits::commit`] is called, not when its future is polled, and cannot be cancelled: dropping the
///   future only drops the result.
/// * Commits that name the same run take effect in the order of the calls.
/// * The sequences of a run are dense: an append that does not begin at the next sequence is refused.
/// * Many commits may share one transaction of the store. One that is refused does not affect the others.
pub trait Commits {
    fn commit(&self, commit: Commit) -> CommitFuture;
}

/// Changes that take effect together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Commit {
    /// Applied in order.
    pub changes: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Creates a run. Refused if the id exists.
    CreateRun {
        run_id: RunId,
        tenant: Tenant,
        workflow_id: WorkflowId,
        /// The data that the run is created with, as JSON.
        genesis: Bytes,
        /// The scope in which at most one run may be active, for `exclusive` runs.
        scope_id: Option<String>,
        /// Refuse the commit while another run of the tenant and scope is active.
        exclusive: bool,
        parent_run_id: Option<RunId>,
        /// For filtering lists.
        tags: Vec<String>,
        created_at: Timestamp,
    },
    /// Appends events to a run. Refused unless `first` is the run's next sequence.
    Append {
        run_id: RunId,
        /// The sequence of the first event.
        first: u64,
        /// The sequence of the last event.
        last: u64,
        /// The events as JSON, one per line.
        events: Bytes,
        /// The status after these events.
        status: RunStatus,
        /// The snapshot after these events, as JSON.
        snapshot: Bytes,
        at: Timestamp,
    },
    /// Replaces the checkpoint of a run's folded state, or deletes it. Its content is written by
    /// [`RunState::checkpoint`](flow::state::RunState::checkpoint).
    SetRunCheckpoint { run_id: RunId, checkpoint: Option<Bytes> },
    /// Makes a document the newest definition of a workflow. No effect if it is that already.
    PutDefinition {
        tenant: Tenant,
        workflow_id: WorkflowId,
        /// The digest of the document.
        digest: Digest,
        /// The document, byte for byte as it was received.
        document: Bytes,
        at: Timestamp,
    },
    /// Sets a timer, or moves it.
    SetTimer {
        run_id: RunId,
        /// What the timer is for, encoded by the host.
        key: String,
        at: Timestamp,
    },
    /// Deletes a timer. No effect if it does not exist.
    ClearTimer { run_id: RunId, key: String },
    /// Records the reply to a request. Refused if the key has a reply.
    RecordReply { key: ReplyKey, reply: RecordedReply },
    /// Claims the first attempt of an effect before it is executed. Refused if the effect was claimed before.
    ClaimEffect {
        id: EffectId,
        run_id: RunId,
        at: Timestamp,
        /// `None` if the effect reaches nothing outside of the run.
        reached: Option<Reached>,
    },
    /// Claims a further attempt of an effect, which reaches the same as the attempt before. Refused unless that is the last attempt, and
    /// while the effect has a result.
    RetryEffect {
        id: EffectId,
        /// The number of the new attempt, from 2.
        attempt: u32,
        at: Timestamp,
    },
    /// Records that the last attempt of an effect is known to have had no effect. No effect if it has a result.
    ReleaseEffect { id: EffectId },
    /// Records the result of the last attempt of a claimed effect. The first result counts.
    FinishEffect {
        id: EffectId,
        /// The result or the failure, as JSON.
        outcome: Bytes,
    },
    /// Creates or replaces an artifact of a run.
    PutArtifact {
        run_id: RunId,
        artifact_id: ArtifactId,
        /// As JSON.
        document: Bytes,
    },
    /// Replaces an artifact that the caller has read. Refused if it has changed since, or does not exist.
    ReplaceArtifact {
        run_id: RunId,
        artifact_id: ArtifactId,
        /// The digest of the bytes that the caller has read.
        seen: Digest,
        /// The new content, as JSON.
        document: Bytes,
    },
    /// Adds an annotation to a run, a node or an event.
    PutAnnotation {
        run_id: RunId,
        annotation_id: String,
        /// As JSON.
        document: Bytes,
    },
    /// Creates or replaces a webhook subscription.
    PutWebhook {
        tenant: Tenant,
        webhook_id: SubscriptionId,
        /// As JSON. It contains a secret that the host protects.
        document: Bytes,
    },
    /// Deletes a subscription. Refused if it does not exist.
    DeleteWebhook { tenant: Tenant, webhook_id: SubscriptionId },
    /// Queues a delivery, or changes a queued one.
    PutDelivery {
        delivery_id: String,
        webhook_id: SubscriptionId,
        due: Timestamp,
        /// Attempts so far.
        attempts: u32,
        /// The request body, as JSON.
        body: Bytes,
    },
    /// Removes a delivery that succeeded or is no longer wanted. No effect if it does not exist.
    DeleteDelivery { delivery_id: String },
    /// Removes a failed delivery from the queue and keeps it for operators. No effect if it does not exist.
    AbandonDelivery { delivery_id: String, reason: String, at: Timestamp },
    /// Queues an abandoned delivery again, with no attempts made. No effect if it does not exist.
    RequeueDelivery { delivery_id: String, due: Timestamp },
    /// Appends an entry to the tenant's audit log. The store adds the sequence and the link to the previous entry: see
    /// [`AuditEntry`](super::AuditEntry).
    Audit {
        tenant: Tenant,
        /// As canonical JSON.
        entry: Bytes,
    },
    /// Adds a signed checkpoint of a tenant's audit log. No effect if this entry has one.
    PutAuditCheckpoint {
        tenant: Tenant,
        /// The last entry that the checkpoint covers.
        at_sequence: u64,
        /// As JSON.
        document: Bytes,
    },
    /// Deletes a run that has ended, with its events, tags, timers, effects, artifacts and annotations. No effect if it does not
    /// exist or has not ended.
    DeleteRun { run_id: RunId },
    /// Deletes the oldest replies that were recorded before a time.
    DeleteReplies { before: Timestamp, limit: usize },
    /// Sets whether messages start runs of a workflow.
    SetListening { tenant: Tenant, workflow_id: WorkflowId, is_listening: bool },
    /// Claims a message of a queue for a run. Refused if a run was started for it before.
    ClaimMessage {
        tenant: Tenant,
        /// Unique among all messages of the tenant.
        message_id: String,
        run_id: RunId,
    },
    /// Deletes the claim of a message that is gone from its queue. No effect if there is none.
    ForgetMessage { tenant: Tenant, message_id: String },
    /// Moves a trigger forward in its stream. Refused unless the trigger is at `from`.
    MoveListener {
        tenant: Tenant,
        workflow_id: WorkflowId,
        /// The name under which the trigger reads.
        consumer: String,
        /// `None` if the trigger has no position yet.
        from: Option<String>,
        to: String,
    },
    /// Creates or replaces an API key.
    PutApiKey {
        hash: Digest,
        /// As JSON.
        document: Bytes,
    },
}

/// Why a commit failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CommitError {
    #[error("run {run_id} has newer events")]
    Moved { run_id: RunId },
    #[error("run {run_id} exists already")]
    RunExists { run_id: RunId },
    #[error("run {active_run_id} of the same scope is active")]
    ScopeActive { active_run_id: RunId },
    #[error("a reply is recorded for this idempotency key already")]
    KeyTaken,
    /// The effect, or this attempt of it, was claimed before.
    #[error("the effect was already claimed")]
    EffectClaimed,
    /// The artifact differs from what the caller has read, or does not exist.
    #[error("the artifact was changed by another caller")]
    ArtifactChanged,
    #[error("the subscription does not exist")]
    NoSuchWebhook,
    #[error("a run was started for this message before")]
    MessageClaimed,
    #[error("the trigger has another position in its stream")]
    ListenerMoved,
    #[error("the disk is full")]
    Full(#[source] Cause),
    /// The store failed before the commit took effect.
    #[error("the store failed")]
    Store(#[source] Cause),
    /// The store failed, or the connection to it was lost, while the commit was being made durable. It may have taken effect.
    ///
    /// Callers look before they repeat: background work reads the run again and decides from what it finds; a request is
    /// answered with an error that says so, and its client repeats it under the same idempotency key or looks the run up.
    /// Repeating the same commit blindly is safe only if all its changes are.
    #[error("the store failed while it made the commit durable, so the commit may have taken effect")]
    OutcomeUnknown(#[source] Cause),
    #[error("the store is closed")]
    Closed,
}
