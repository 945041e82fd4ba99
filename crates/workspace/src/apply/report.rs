//! What an apply tells of itself.

use serde::{Deserialize, Serialize};

use crate::slot::Mode;

/// The most paths that a report lists as preserved, and as shadowed. More are counted, not listed.
pub const MAX_LISTED: usize = 10_000;

/// The most revisions that are recorded: they stand in the lease, which stays small.
pub const MAX_PINNED: usize = 64;

/// What an apply did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplyReport {
    /// The identity of the request.
    pub apply_id: String,
    /// The digest of the plan that is now in place.
    pub plan_digest: String,
    /// What was done.
    pub status: Status,
    /// The generation of the lease.
    pub generation: u64,
    /// Why it was done.
    pub lease_reason: LeaseReason,
    /// The granted slots, in table order.
    pub slots: Vec<SlotReport>,
    /// What the agent had made its own, and was kept.
    pub preserved: Vec<Preserved>,
    /// How many more were kept than [`MAX_LISTED`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub preserved_unlisted: u64,
    /// What another mount of the plan covers.
    pub shadowed: Vec<Shadowed>,
    /// How many more are covered than [`MAX_LISTED`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shadowed_unlisted: u64,
    /// What sources without a fixed revision turned out to be, in plan order; at most [`MAX_PINNED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<Pinned>,
    /// What resolvers found worth telling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How many times a resolver was asked, each try counted. Literals are in the plan and ask nobody.
    pub upstream_calls: u64,
    /// How long it took.
    pub duration_ms: u64,
}

/// What an apply did with the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The plan was put in place.
    Applied,
    /// It was in place already.
    Cached,
    /// It was in place, and what had drifted was put right.
    Repaired,
}

/// Why an apply did what it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseReason {
    /// There was no lease.
    New,
    /// The lease is for this very plan.
    Renewed,
    /// The lease is for this plan, and read-only slots had drifted.
    Drift,
    /// The lease is for the same request, which composes to another plan now.
    PlanChanged,
    /// The lease was that of an earlier request of the same run or session.
    Superseded,
    /// The lease had expired.
    Expired,
    /// The lease had been released.
    Released,
    /// An earlier apply could not be undone, until now.
    Failed,
}

/// One slot after an apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotReport {
    /// The path as the agent sees it.
    pub path: String,
    /// What the agent may do there.
    pub mode: Mode,
    /// How many files and links the plan has there.
    pub files: u64,
    /// How many bytes they are.
    pub bytes: u64,
    /// The digest of what the plan has there: see [`Digests`](crate::index::Digests).
    pub tree_digest: String,
    /// How it got there.
    pub promote: Promote,
}

/// How a slot is put in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promote {
    /// The old and the new directory changed places at once.
    Swap,
    /// File by file, around what the agent wrote.
    Merge,
    /// Name by name: the slot is a mount point and cannot be moved.
    Children,
    /// One file took the place of another.
    File,
}

/// What a source turned out to be, such as the commit of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pinned {
    /// The name of the mount.
    pub mount_key: String,
    /// Which revision is mounted.
    pub revision: String,
}

/// Something of the agent's that was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preserved {
    /// The path below the root.
    pub path: String,
    /// Why.
    pub why: Why,
}

/// Why something was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The agent deleted it, and it stays deleted.
    Deleted,
    /// The agent changed it.
    Modified,
    /// The agent made it.
    Local,
    /// It stood in a read-only slot before any apply, or was written while the slot could be written to. It was moved
    /// to `.interlock/displaced/`.
    Displaced,
}

/// Something that another mount covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shadowed {
    /// The path below the root.
    pub path: String,
    /// The mount whose file is there.
    pub by: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the member by reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A list that stops growing and goes on counting.
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
