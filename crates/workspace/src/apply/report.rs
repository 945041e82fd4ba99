//! The report of an apply.

use serde::{Deserialize, Serialize};

use crate::slot::Mode;

/// The most paths listed as preserved, and as shadowed. More are only counted.
pub const MAX_LISTED: usize = 10_000;

/// The most recorded revisions: they are part of the lease, which stays small.
pub const MAX_PINNED: usize = 64;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplyReport {
    /// The identity of the request.
    pub apply_id: String,
    /// The digest of the applied plan.
    pub plan_digest: String,
    pub status: Status,
    /// The generation of the lease.
    pub generation: u64,
    /// The reason of the status.
    pub lease_reason: LeaseReason,
    /// The granted slots, in table order.
    pub slots: Vec<SlotReport>,
    /// Files of the agent that were kept.
    pub preserved: Vec<Preserved>,
    /// How many more were kept than listed ([`MAX_LISTED`]).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub preserved_unlisted: u64,
    /// Files that another mount of the plan shadows.
    pub shadowed: Vec<Shadowed>,
    /// How many more are shadowed than listed ([`MAX_LISTED`]).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shadowed_unlisted: u64,
    /// Resolved revisions, in plan order; at most [`MAX_PINNED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<Pinned>,
    /// Warnings of resolvers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The number of resolver calls, including retries. Literals need none.
    pub upstream_calls: u64,
    pub duration_ms: u64,
}

/// The effect of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The plan was applied.
    Applied,
    /// The plan was already applied.
    Cached,
    /// The plan was already applied, and drifted files were restored.
    Repaired,
}

/// The reason of an apply's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseReason {
    /// There was no lease.
    New,
    /// The lease is for this plan.
    Renewed,
    /// The lease is for this plan, and read-only slots had drifted.
    Drift,
    /// The lease is for the same request, which now composes to another plan.
    PlanChanged,
    /// The lease was that of an earlier request of the same run or session.
    Superseded,
    /// The lease had expired.
    Expired,
    /// The lease had been released.
    Released,
    /// An earlier apply had failed without rollback.
    Failed,
}

/// One slot after an apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotReport {
    /// The path as the agent sees it.
    pub path: String,
    pub mode: Mode,
    /// The plan's files and links in it.
    pub files: u64,
    /// Their total size.
    pub bytes: u64,
    /// The digest of the plan's content: see [`Digests`](crate::index::Digests).
    pub tree_digest: String,
    pub promote: Promote,
}

/// How a slot was installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promote {
    /// The old and new directory were exchanged atomically.
    Swap,
    /// File by file, around the agent's files.
    Merge,
    /// Entry by entry: the slot is a mount point and cannot be moved.
    Children,
    /// One file replaced another.
    File,
}

/// A resolved revision, such as the commit of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pinned {
    pub mount_key: String,
    pub revision: String,
}

/// A file of the agent that was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preserved {
    /// The path below the root.
    pub path: String,
    pub why: Why,
}

/// Why it was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The agent deleted it, and it stays deleted.
    Deleted,
    /// The agent changed it.
    Modified,
    /// The agent created it.
    Local,
    /// It was in a read-only slot before any apply, or was written while the slot was writable. It
    /// was moved to `.interlock/displaced/`.
    Displaced,
}

/// A file that another mount shadows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shadowed {
    /// The path below the root.
    pub path: String,
    /// The mount whose file is used.
    pub by: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the member by reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A list that stops growing at its limit and keeps counting.
#[derive(Clone, Debug)]
pub(super) struct Listed<T> {
    pub(super) items: Vec<T>,
    pub(super) unlisted: u64,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { items: Vec::new(), unlisted: 0 }
    }
}

impl<T> Listed<T> {
    pub(super) fn push(&mut self, item: T) {
        if self.items.len() < MAX_LISTED {
            self.items.push(item);
        } else {
            self.unlisted += 1;
        }
    }
}
