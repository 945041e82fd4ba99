//! Which commits are executed next, and which of them together.
//!
//! Commits that share a row are executed in the order of the calls. All others may overtake each other, so that several
//! connections write at the same time.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ports::Responder;
use ports::runs::{Commit, CommitError};
use tokio::sync::Notify;

use crate::unit::{Keys, Unit, size};

/// Limits of a batch. PostgreSQL commits larger ones hardly faster.
const MAX_COMMITS: usize = 256;
const MAX_BYTES: usize = 8 << 20;

/// How many waiting commits are considered for a batch.
const MAX_LOOKED_AT: usize = 1024;

/// How many commits may wait.
pub(crate) const MAX_WAITING: usize = 65_536;

/// A commit and where its result goes.
pub(crate) struct Job {
    pub(crate) commit: Commit,
    pub(crate) responder: Responder<Result<(), CommitError>>,
    keys: Keys,
    size: usize,
    queued: Instant,
    /// Whether it can be written in a batch with others.
    is_batchable: bool,
}

impl Job {
    pub(crate) fn new(commit: Commit, responder: Responder<Result<(), CommitError>>, batching: bool) -> Self {
        let is_batchable = batching && Unit::of(&commit).is_some();
        Self {
            keys: Keys::of(&commit),
            size: size(&commit),
            queued: Instant::now(),
            is_batchable,
            commit,
            responder,
        }
    }
}

/// Commits that are executed together.
pub(crate) struct Batch {
    pub(crate) jobs: Vec<Job>,
    pub(crate) is_batchable: bool,
    keys: Vec<u64>,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// The keys of the batches that are being executed.
    busy: HashSet<u64>,
    is_closed: bool,
}

#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

/// Why a commit was not queued.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotQueued {
    Closed,
    Full,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, job: Job) -> Result<(), NotQueued> {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return Err(NotQueued::Closed);
        }
        if waiting.jobs.len() >= MAX_WAITING {
            return Err(NotQueued::Full);
        }
        waiting.jobs.push_back(job);
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    /// Refuses further commits. Those that wait are still executed.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    /// The next batch; `None` after everything was executed and the queue is closed.
    pub(crate) async fn next(&self) -> Option<Batch> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            {
                let mut waiting = self.lock();
                if let Some(batch) = waiting.take() {
                    // What was not taken may be for another writer.
                    self.changed.notify_one();
                    return Some(batch);
                }
                if waiting.is_closed && waiting.jobs.is_empty() {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// Removes the commits that have waited at least this long.
    pub(crate) fn take_older(&self, age: Duration) -> Vec<Job> {
        let mut waiting = self.lock();
        let (old, young): (Vec<_>, Vec<_>) =
            waiting.jobs.drain(..).partition(|job| job.queued.elapsed() >= age);
        waiting.jobs.extend(young);
        old
    }

    /// Ends a batch, so that commits that share rows with it can be executed.
    pub(crate) fn release(&self, keys: &[u64]) {
        let mut waiting = self.lock();
        for key in keys {
            waiting.busy.remove(key);
        }
        drop(waiting);
        self.changed.notify_waiters();
    }
}

impl Batch {
    pub(crate) fn take_keys(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.keys)
    }
}

impl Waiting {
    fn take(&mut self) -> Option<Batch> {
        let mut jobs: Vec<Job> = Vec::new();
        let (mut skipped, mut blocked, mut used) = (Vec::new(), HashSet::new(), HashSet::new());
        let (mut size, mut is_batchable) = (0, false);
        for _ in 0..self.jobs.len().min(MAX_LOOKED_AT) {
            let is_full = jobs.len() >= MAX_COMMITS || !jobs.is_empty() && !is_batchable;
            if is_full {
                break;
            }
            let Some(job) = self.jobs.pop_front() else { break };
            let is_free = job
                .keys
                .rows
                .iter()
                .all(|key| !self.busy.contains(key) && !blocked.contains(key) && !used.contains(key))
                && job.keys.chains.iter().all(|key| !self.busy.contains(key));
            let fits = jobs.is_empty() || job.is_batchable && size + job.size <= MAX_BYTES;
            if is_free && fits {
                used.extend(job.keys.rows.iter().copied());
                size += job.size;
                is_batchable = job.is_batchable;
                jobs.push(job);
            } else {
                blocked.extend(job.keys.rows.iter().copied());
                skipped.push(job);
            }
        }
        for job in skipped.into_iter().rev() {
            self.jobs.push_front(job);
        }
        if jobs.is_empty() {
            return None;
        }
        let mut keys: Vec<u64> = used.into_iter().collect();
        keys.extend(jobs.iter().flat_map(|job| job.keys.chains.iter().copied()));
        self.busy.extend(keys.iter().copied());
        Some(Batch { jobs, is_batchable, keys })
    }
}

#[cfg(test)]
mod tests {
    use canon::time::Timestamp;
    use flow::id::{RunId, Tenant};
    use ports::PortFuture;
    use ports::runs::Change;

    use super::*;

    fn timer(run: &str) -> Change {
        Change::SetTimer { run_id: RunId::new(run), key: "k".into(), at: Timestamp(1) }
    }

    fn alone(run: &str) -> Change {
        Change::DeleteRun { run_id: RunId::new(run) }
    }

    fn audit(tenant: &str) -> Change {
        Change::Audit { tenant: Tenant::new(tenant), entry: b"{}"[..].into() }
    }

    fn queued(commits: &[&[Change]]) -> Waiting {
        let mut waiting = Waiting::default();
        for changes in commits {
            let (responder, _) = PortFuture::channel(|| Ok(()));
            waiting.jobs.push_back(Job::new(Commit { changes: changes.to_vec() }, responder, true));
        }
        waiting
    }

    fn taken(waiting: &mut Waiting) -> (Vec<Vec<Change>>, Vec<u64>) {
        waiting.take().map_or_else(Default::default, |batch| {
            (batch.jobs.into_iter().map(|job| job.commit.changes).collect(), batch.keys)
        })
    }

    #[test]
    fn commits_of_one_run_are_executed_in_order_and_others_overtake() {
        let mut waiting = queued(&[
            &[timer("a")],
            &[timer("a"), timer("b")],
            &[timer("b")],
            &[timer("c")],
            &[alone("d")],
            &[timer("d")],
        ]);
        let (first, keys) = taken(&mut waiting);
        assert_eq!(
            first,
            [vec![timer("a")], vec![timer("c")]],
            "the second waits for the first, the third for it"
        );
        assert_eq!(
            taken(&mut waiting).0,
            [vec![alone("d")]],
            "by itself, and nothing of its run overtakes it"
        );
        assert_eq!(taken(&mut waiting).0, Vec::<Vec<Change>>::new(), "everything waits for a batch");
        for key in keys {
            waiting.busy.remove(&key);
        }
        assert_eq!(taken(&mut waiting).0, [vec![timer("a"), timer("b")]]);
        assert_eq!(waiting.jobs.len(), 2);
    }

    #[test]
    fn entries_of_an_audit_log_share_a_batch_but_not_two_batches() {
        let mut waiting = queued(&[&[audit("a")], &[audit("a"), timer("r")], &[alone("x")], &[audit("b")]]);
        assert_eq!(taken(&mut waiting).0.len(), 3, "all but the one that is executed by itself");
        waiting.jobs.extend(queued(&[&[audit("b")], &[audit("c")]]).jobs);
        assert_eq!(taken(&mut waiting).0, [vec![alone("x")]]);
        assert_eq!(taken(&mut waiting).0, [vec![audit("c")]]);
    }

    #[test]
    fn a_batch_is_bounded_and_a_large_commit_gets_its_turn() {
        let many: Vec<Vec<Change>> = (0..600).map(|number| vec![timer(&number.to_string())]).collect();
        let mut waiting = queued(&many.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let sizes: Vec<usize> = (0..4).map(|_| taken(&mut waiting).0.len()).collect();
        assert_eq!(sizes, [256, 256, 88, 0]);
        let large = Change::SetRunCheckpoint {
            run_id: RunId::new("large"),
            checkpoint: Some(vec![0; MAX_BYTES + 1].into()),
        };
        let mut waiting = queued(&[&[timer("1000")], std::slice::from_ref(&large), &[timer("1001")]]);
        assert_eq!(taken(&mut waiting).0.len(), 2);
        assert_eq!(taken(&mut waiting).0, [vec![large]]);
    }
}
