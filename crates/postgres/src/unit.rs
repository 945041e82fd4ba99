//! A commit as rows, for batches that write many commits with one statement.
//!
//! Changes of one commit to the same row are combined, because a statement may write a row once. A commit that cannot be
//! expressed this way, because of a rare kind of change or an unusual order, is executed by itself: see [`crate::single`].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{EffectId, RunId, SubscriptionId, Tenant, WorkflowId};
use flow::run::RunStatus;
use ports::runs::{Change, Commit, Reached, RecordedReply, ReplyKey};

use crate::row::SHORT_SNAPSHOT;

/// The rows of a commit.
#[derive(Default)]
pub(crate) struct Unit<'c> {
    pub(crate) runs: BTreeMap<&'c RunId, Head<'c>>,
    pub(crate) appends: Vec<Append<'c>>,
    /// The new checkpoint of a run, or none; and whether the run is created by this commit.
    pub(crate) folds: BTreeMap<&'c RunId, (Option<&'c [u8]>, bool)>,
    /// The new time of a timer, or none.
    pub(crate) timers: BTreeMap<(&'c RunId, &'c str), Option<Timestamp>>,
    pub(crate) replies: Vec<(&'c ReplyKey, &'c RecordedReply)>,
    pub(crate) claims: BTreeMap<&'c EffectId, Claim<'c>>,
    pub(crate) outcomes: BTreeMap<&'c EffectId, &'c [u8]>,
    pub(crate) audit: Vec<(&'c Tenant, &'c [u8])>,
    pub(crate) deliveries: BTreeMap<&'c str, Option<Delivery<'c>>>,
    pub(crate) artifacts: BTreeMap<(&'c RunId, &'c str), &'c [u8]>,
}

/// The row of a run after the commit.
pub(crate) struct Head<'c> {
    pub(crate) origin: Origin<'c>,
    pub(crate) next_sequence: u64,
    pub(crate) status: RunStatus,
    pub(crate) updated_at: Timestamp,
    /// `None` if it is in the last append.
    pub(crate) snapshot: Option<&'c [u8]>,
    /// The position of the last append in the unit.
    last_append: Option<usize>,
}

pub(crate) enum Origin<'c> {
    Created(Creation<'c>),
    /// The run exists, and its next sequence must be this.
    Expected(u64),
}

pub(crate) struct Creation<'c> {
    pub(crate) tenant: &'c Tenant,
    pub(crate) workflow_id: &'c WorkflowId,
    pub(crate) genesis: &'c [u8],
    pub(crate) scope_id: Option<&'c str>,
    pub(crate) parent_run_id: Option<&'c str>,
    pub(crate) tags: &'c [String],
    pub(crate) created_at: Timestamp,
}

pub(crate) struct Append<'c> {
    pub(crate) run_id: &'c RunId,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) events: &'c [u8],
    pub(crate) snapshot: Option<&'c [u8]>,
}

pub(crate) struct Claim<'c> {
    pub(crate) run_id: &'c RunId,
    pub(crate) at: Timestamp,
    pub(crate) reached: Option<&'c Reached>,
    pub(crate) outcome: Option<&'c [u8]>,
}

pub(crate) struct Delivery<'c> {
    pub(crate) webhook_id: &'c SubscriptionId,
    pub(crate) due: Timestamp,
    pub(crate) attempts: u32,
    pub(crate) body: &'c [u8],
    /// The position of the change in the commit: deliveries that are due together are sent in this order.
    pub(crate) position: usize,
}

impl<'c> Unit<'c> {
    /// The rows of a commit; `None` if it must be executed separately.
    pub(crate) fn of(commit: &'c Commit) -> Option<Self> {
        let mut unit = Self::default();
        for (position, change) in commit.changes.iter().enumerate() {
            unit.add(position, change)?;
        }
        Some(unit)
    }

    fn add(&mut self, position: usize, change: &'c Change) -> Option<()> {
        match change {
            Change::CreateRun { exclusive: false, run_id, .. } => {
                let creation = Creation::of(change)?;
                let head = Head {
                    next_sequence: 0,
                    status: RunStatus::Pending,
                    updated_at: creation.created_at,
                    snapshot: Some(&[]),
                    origin: Origin::Created(creation),
                    last_append: None,
                };
                insert_new(&mut self.runs, run_id, head)?;
            }
            Change::Append { run_id, first, last, events, status, snapshot, at } => {
                let head = self.runs.entry(run_id).or_insert_with(|| Head {
                    next_sequence: *first,
                    status: *status,
                    updated_at: *at,
                    snapshot: None,
                    origin: Origin::Expected(*first),
                    last_append: None,
                });
                if head.next_sequence != *first || last < first || i64::try_from(*last).is_err() {
                    return None;
                }
                if let Some(previous) = head.last_append.and_then(|place| self.appends.get_mut(place)) {
                    previous.snapshot = None;
                }
                let is_short = snapshot.len() <= SHORT_SNAPSHOT;
                head.next_sequence = last.checked_add(1)?;
                head.status = *status;
                head.updated_at = *at;
                head.snapshot = is_short.then_some(&**snapshot);
                head.last_append = Some(self.appends.len());
                let snapshot = (!is_short).then_some(&**snapshot);
                self.appends.push(Append { run_id, first: *first, last: *last, events, snapshot });
            }
            Change::SetRunCheckpoint { run_id, checkpoint } => {
                let is_created =
                    self.runs.get(run_id).is_some_and(|head| matches!(head.origin, Origin::Created(_)));
                self.folds.insert(run_id, (checkpoint.as_deref(), is_created));
            }
            Change::SetTimer { run_id, key, at } => {
                self.timers.insert((run_id, key), Some(*at));
            }
            Change::ClearTimer { run_id, key } => {
                self.timers.insert((run_id, key), None);
            }
            Change::RecordReply { key, reply } => {
                if self.replies.iter().any(|(known, _)| *known == key) {
                    return None;
                }
                self.replies.push((key, reply));
            }
            Change::ClaimEffect { id, run_id, at, reached } => {
                if self.outcomes.contains_key(id) {
                    return None;
                }
                let claim = Claim { run_id, at: *at, reached: reached.as_ref(), outcome: None };
                insert_new(&mut self.claims, id, claim)?;
            }
            // The first outcome counts.
            Change::FinishEffect { id, outcome } => match self.claims.get_mut(id) {
                Some(claim) => {
                    claim.outcome.get_or_insert(outcome);
                }
                None => {
                    self.outcomes.entry(id).or_insert(outcome);
                }
            },
            Change::PutArtifact { run_id, artifact_id, document } => {
                self.artifacts.insert((run_id, artifact_id.as_str()), document);
            }
            Change::PutDelivery { delivery_id, webhook_id, due, attempts, body } => {
                let delivery = Delivery { webhook_id, due: *due, attempts: *attempts, body, position };
                self.deliveries.insert(delivery_id, Some(delivery));
            }
            Change::DeleteDelivery { delivery_id } => {
                self.deliveries.insert(delivery_id, None);
            }
            Change::Audit { tenant, entry } => self.audit.push((tenant, entry)),
            Change::CreateRun { exclusive: true, .. }
            | Change::RetryEffect { .. }
            | Change::ReleaseEffect { .. }
            | Change::PutDefinition { .. }
            | Change::ReplaceArtifact { .. }
            | Change::PutAnnotation { .. }
            | Change::PutWebhook { .. }
            | Change::DeleteWebhook { .. }
            | Change::AbandonDelivery { .. }
            | Change::RequeueDelivery { .. }
            | Change::PutAuditCheckpoint { .. }
            | Change::DeleteRun { .. }
            | Change::DeleteReplies { .. }
            | Change::SetListening { .. }
            | Change::ClaimMessage { .. }
            | Change::ForgetMessage { .. }
            | Change::MoveListener { .. }
            | Change::PutApiKey { .. } => return None,
        }
        Some(())
    }
}

impl<'c> Creation<'c> {
    /// `None` if the change creates no run.
    pub(crate) fn of(change: &'c Change) -> Option<Self> {
        let Change::CreateRun {
            run_id: _,
            tenant,
            workflow_id,
            genesis,
            scope_id,
            exclusive: _,
            parent_run_id,
            tags,
            created_at,
        } = change
        else {
            return None;
        };
        Some(Self {
            tenant,
            workflow_id,
            genesis,
            scope_id: scope_id.as_deref(),
            parent_run_id: parent_run_id.as_ref().map(RunId::as_str),
            tags,
            created_at: *created_at,
        })
    }
}

/// Adds a row that must be new to the unit.
fn insert_new<K: Ord, V>(rows: &mut BTreeMap<K, V>, key: K, value: V) -> Option<()> {
    match rows.entry(key) {
        Entry::Vacant(vacant) => {
            vacant.insert(value);
            Some(())
        }
        Entry::Occupied(_) => None,
    }
}

/// The rows that a commit depends on or changes, as hashes. Commits that share one are executed one after the other. Two
/// different rows with the same hash only make a commit wait that need not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    /// Executed in the order of the calls.
    pub(crate) rows: Vec<u64>,
    /// Audit logs: their entries are chained, so one batch at a time appends to one, but in any order.
    pub(crate) chains: Vec<u64>,
}

impl Keys {
    pub(crate) fn of(commit: &Commit) -> Self {
        let mut keys = Self::default();
        for change in &commit.changes {
            keys.add(change);
        }
        for list in [&mut keys.rows, &mut keys.chains] {
            list.sort_unstable();
            list.dedup();
        }
        keys
    }

    fn add(&mut self, change: &Change) {
        let (run, other) = match change {
            Change::CreateRun { run_id, tenant, scope_id, .. } => {
                (Some(run_id), scope_id.as_ref().map(|scope| hash("scope", tenant.as_str(), scope)))
            }
            Change::Append { run_id, .. }
            | Change::SetRunCheckpoint { run_id, .. }
            | Change::SetTimer { run_id, .. }
            | Change::ClearTimer { run_id, .. }
            | Change::PutArtifact { run_id, .. }
            | Change::ReplaceArtifact { run_id, .. }
            | Change::PutAnnotation { run_id, .. }
            | Change::DeleteRun { run_id } => (Some(run_id), None),
            Change::ClaimEffect { id, run_id, .. } => (Some(run_id), Some(hash("effect", id.as_str(), ""))),
            Change::RetryEffect { id, .. }
            | Change::ReleaseEffect { id }
            | Change::FinishEffect { id, .. } => (None, Some(hash("effect", id.as_str(), ""))),
            Change::RecordReply { key, .. } => {
                let place = format!("{}\0{}", key.endpoint, key.key.to_hex());
                (None, Some(hash("reply", key.tenant.as_str(), &place)))
            }
            Change::PutDefinition { tenant, workflow_id, .. } => {
                (None, Some(hash("workflow", tenant.as_str(), workflow_id.as_str())))
            }
            Change::SetListening { tenant, workflow_id, .. }
            | Change::MoveListener { tenant, workflow_id, .. } => {
                (None, Some(hash("listener", tenant.as_str(), workflow_id.as_str())))
            }
            Change::ClaimMessage { tenant, message_id, run_id } => {
                (Some(run_id), Some(hash("message", tenant.as_str(), message_id)))
            }
            Change::ForgetMessage { tenant, message_id } => {
                (None, Some(hash("message", tenant.as_str(), message_id)))
            }
            Change::PutWebhook { webhook_id, .. } | Change::DeleteWebhook { webhook_id, .. } => {
                (None, Some(hash("webhook", webhook_id.as_str(), "")))
            }
            Change::PutDelivery { delivery_id, .. }
            | Change::DeleteDelivery { delivery_id }
            | Change::AbandonDelivery { delivery_id, .. }
            | Change::RequeueDelivery { delivery_id, .. } => (None, Some(hash("delivery", delivery_id, ""))),
            Change::PutAuditCheckpoint { tenant, .. } => {
                (None, Some(hash("checkpoint", tenant.as_str(), "")))
            }
            Change::DeleteReplies { .. } => (None, Some(hash("replies", "", ""))),
            Change::PutApiKey { hash: key, .. } => (None, Some(hash("key", &key.to_hex(), ""))),
            Change::Audit { tenant, .. } => {
                self.chains.push(hash("chain", tenant.as_str(), ""));
                (None, None)
            }
        };
        self.rows.extend(run.map(|run_id| hash("run", run_id.as_str(), "")));
        self.rows.extend(other);
    }
}

fn hash(kind: &str, first: &str, second: &str) -> u64 {
    let digest = Digest::of_bytes(format!("{kind}\0{first}\0{second}").as_bytes());
    u64::from_be_bytes(std::array::from_fn(|place| digest.as_bytes()[place]))
}

/// About how many bytes a commit needs in a statement.
pub(crate) fn size(commit: &Commit) -> usize {
    let of = |change: &Change| match change {
        Change::CreateRun { genesis, .. } => genesis.len(),
        Change::Append { events, snapshot, .. } => events.len() + snapshot.len(),
        Change::SetRunCheckpoint { checkpoint, .. } => checkpoint.as_ref().map_or(0, |bytes| bytes.len()),
        Change::RecordReply { reply, .. } => reply.body.len(),
        Change::FinishEffect { outcome, .. } => outcome.len(),
        Change::PutDefinition { document, .. }
        | Change::PutArtifact { document, .. }
        | Change::ReplaceArtifact { document, .. }
        | Change::PutAnnotation { document, .. }
        | Change::PutWebhook { document, .. }
        | Change::PutAuditCheckpoint { document, .. }
        | Change::PutApiKey { document, .. } => document.len(),
        Change::PutDelivery { body, .. } => body.len(),
        Change::Audit { entry, .. } => entry.len(),
        Change::SetTimer { .. }
        | Change::ClearTimer { .. }
        | Change::ClaimEffect { .. }
        | Change::RetryEffect { .. }
        | Change::ReleaseEffect { .. }
        | Change::DeleteWebhook { .. }
        | Change::DeleteDelivery { .. }
        | Change::AbandonDelivery { .. }
        | Change::RequeueDelivery { .. }
        | Change::DeleteRun { .. }
        | Change::DeleteReplies { .. }
        | Change::SetListening { .. }
        | Change::ClaimMessage { .. }
        | Change::ForgetMessage { .. }
        | Change::MoveListener { .. } => 0,
    };
    commit.changes.iter().map(|change| of(change) + 128).sum()
}
