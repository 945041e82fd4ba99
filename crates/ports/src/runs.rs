//! The port for runs.
//!
//! Reads are grouped by subject, one trait each. Writes go through one trait, [`Commits`], because a [`Commit`] changes
//! several subjects together: the events of a run, its timers, the reply to the caller and the audit entry are durable
//! together or not at all. [`RunStore`] is all of them; an adapter that implements the parts implements it automatically.
//!
//! | subject | reads | changes |
//! |---|---|---|
//! | [`log`] | runs, their events and checkpoints | `CreateRun`, `Append`, `SetRunCheckpoint` |
//! | [`list`] | lists of runs | |
//! | [`definitions`] | workflow definitions | `PutDefinition` |
//! | [`timers`] | due timers | `SetTimer`, `ClearTimer` |
//! | [`effects`] | claimed effects, their attempts and results | `ClaimEffect`, `RetryEffect`, `ReleaseEffect`, `FinishEffect` |
//! | [`replies`] | replies recorded for idempotency keys | `RecordReply`, `DeleteReplies` |
//! | [`artifacts`] | artifacts | `PutArtifact`, `ReplaceArtifact` |
//! | [`annotations`] | annotations | `PutAnnotation` |
//! | [`webhooks`] | subscriptions and deliveries | `PutWebhook`, `DeleteWebhook`, `PutDelivery`, `DeleteDelivery`, `AbandonDelivery`, `RequeueDelivery` |
//! | [`audit`] | the audit log and its checkpoints | `Audit`, `PutAuditCheckpoint` |
//! | [`keys`] | API keys | `PutApiKey` |
//! | [`listeners`] | triggers that read queues and streams | `SetListening`, `ClaimMessage`, `ForgetMessage`, `MoveListener` |
//! | [`retention`] | ages of runs and replies | `DeleteRun`, `DeleteReplies` |

pub mod annotations;
pub mod artifacts;
pub mod audit;
pub mod commit;
pub mod definitions;
pub mod effects;
pub mod health;
pub mod keys;
pub mod list;
pub mod listeners;
pub mod log;
pub mod replies;
pub mod retention;
pub mod timers;
pub mod webhooks;

use std::fmt;
use std::sync::Arc;

pub use self::annotations::Annotations;
pub use self::artifacts::Artifacts;
pub use self::audit::{AuditEntry, AuditLog};
pub use self::commit::{Change, Commit, CommitError, CommitFuture, Commits};
pub use self::definitions::Definitions;
pub use self::effects::{AttemptPosition, AttemptState, ClaimedEffect, Effects, Reached, StoredAttempt};
pub use self::health::Health;
pub use self::keys::ApiKeys;
pub use self::list::{ListCursor, RunFilter, RunLists, RunPage};
pub use self::listeners::Listeners;
pub use self::log::{RunLog, StoredAppend, StoredRun};
pub use self::replies::{RecordedReply, Replies, ReplyKey};
pub use self::retention::{AgedPage, AgedRun, Retention};
pub use self::timers::{Timer, Timers};
pub use self::webhooks::{Delivery, Webhooks};

use crate::{Cause, PortFuture};

/// All traits of the port without their names: for code that has an adapter and not a `dyn RunStore`.
pub mod prelude {
    pub use super::{
        Annotations as _, ApiKeys as _, Artifacts as _, AuditLog as _, Commits as _, Definitions as _,
        Effects as _, Health as _, Listeners as _, Replies as _, Retention as _, RunLists as _, RunLog as _,
        Timers as _, Webhooks as _,
    };
}

/// Immutable bytes, shared without copying.
pub type Bytes = Arc<[u8]>;

pub type ReadFuture<'a, T> = PortFuture<'a, Result<T, ReadError>>;

/// Why a read failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReadError {
    /// The store failed. The read may succeed later.
    #[error("the store cannot be read")]
    Store(#[source] Cause),
    /// The list cursor was not made by this store.
    #[error("the list cursor is invalid")]
    InvalidCursor,
}

/// Everything that a host of runs keeps.
///
/// # Contract
/// * Commits: see [`Commits`].
/// * A read sees every commit whose future resolved before the read began, and no commit in part.
/// * A read never waits for a commit.
/// * Dropping the future of a read cancels it.
/// * Where a method takes a tenant, it returns only what belongs to that tenant.
/// * A list that takes a limit returns at most that many entries.
pub trait RunStore:
    Annotations
    + ApiKeys
    + Artifacts
    + AuditLog
    + Commits
    + Definitions
    + Effects
    + Health
    + Listeners
    + Replies
    + Retention
    + RunLists
    + RunLog
    + Timers
    + Webhooks
    + Send
    + Sync
    + fmt::Debug
{
}

impl<S> RunStore for S where
    S: Annotations
        + ApiKeys
        + Artifacts
        + AuditLog
        + Commits
        + Definitions
        + Effects
        + Health
        + Listeners
        + Replies
        + Retention
        + RunLists
        + RunLog
        + Timers
        + Webhooks
        + Send
        + Sync
        + fmt::Debug
{
}
