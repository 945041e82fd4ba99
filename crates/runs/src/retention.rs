//! Retention: deletes old runs and recorded replies.
//!
//! Runs are kept forever by default; replies for idempotency keys are kept for a day. Deletion uses small commits, so that other
//! writes are not delayed for long. A run is deleted together with its descendants, once all of them ended long enough ago, and
//! not while a fork of it is active.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use canon::time::Timestamp;
use flow::id::{Principal, RunId, Tenant};
use flow::run::Genesis;
use ports::runs::{AgedPage, AgedRun, Change};
use serde_json::json;

use super::records::Records;
use super::{Caller, Refusal};

/// The minimum retention of replies, as the protocol requires: one day.
pub const MIN_ANSWERS: Duration = Duration::from_secs(24 * 60 * 60);
/// The minimum retention of an ended run, so that waiting clients can still read it.
pub const MIN_FINISHED_RUNS: Duration = Duration::from_secs(60);

/// The interval between sweeps.
const EVERY: Duration = Duration::from_secs(10 * 60);
/// The delay of the first sweep after the start, which has more important work.
const FIRST: Duration = Duration::from_secs(60);
/// How many runs are examined and how many replies are deleted at once.
const PAGE: usize = 500;
/// The maximum number of runs that one commit deletes.
const DELETED_AT_ONCE: usize = 100;
/// The pause between two commits, for other writers.
const PAUSE: Duration = Duration::from_millis(20);

/// How long data is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The retention of ended runs. `None` keeps them forever.
    pub finished_runs: Option<Duration>,
    /// The retention of replies for idempotency keys.
    pub answers: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { finished_runs: None, answers: MIN_ANSWERS }
    }
}

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub runs: usize,
    /// Whether replies were deleted.
    pub answers: bool,
}

/// Deletes what was kept long enough.
pub struct Sweeper {
    records: Arc<Records>,
}

impl Sweeper {
    pub(crate) fn new(records: Arc<Records>) -> Self {
        Self { records }
    }

    /// Sweeps periodically, until the host is drained.
    pub async fn keep_sweeping(&self, retention: Retention, mut report: impl FnMut(Result<Swept, Refusal>)) {
        let mut wait = FIRST;
        while !self.records.is_stopping() {
            tokio::select! {
                () = tokio::time::sleep(wait) => report(self.sweep(retention).await),
                () = self.records.stopped() => {}
            }
            wait = EVERY;
        }
    }

    /// Deletes everything whose retention is over.
    ///
    /// # Errors
    /// If the store fails. What was already deleted stays deleted.
    pub async fn sweep(&self, retention: Retention) -> Result<Swept, Refusal> {
        let answers =
            self.sweep_answers(before(self.records.now(), retention.answers.max(MIN_ANSWERS))).await?;
        let runs = match retention.finished_runs {
            Some(kept) => self.sweep_runs(before(self.records.now(), kept.max(MIN_FINISHED_RUNS))).await?,
            None => 0,
        };
        Ok(Swept { runs, answers })
    }

    async fn sweep_answers(&self, before: Timestamp) -> Result<bool, Refusal> {
        let mut swept = false;
        while !self.records.is_stopping()
            && self.records.store().oldest_reply().await?.is_some_and(|oldest| oldest < before)
        {
            self.records.commit(vec![Change::DeleteReplies { before, limit: PAGE }]).await?;
            swept = true;
            tokio::time::sleep(PAUSE).await;
        }
        Ok(swept)
    }

    async fn sweep_runs(&self, before: Timestamp) -> Result<usize, Refusal> {
        let mut forked = None;
        let (mut after, mut swept) = (None, 0);
        loop {
            let AgedPage { runs: page, next } = self.records.store().aged_runs(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(swept) };
            // Runs are listed in the order of their creation, so all following runs are newer.
            let is_last = last.created_at >= before || next.is_none();
            after = next;
            let mut families = Vec::new();
            for run in page.into_iter().filter(|run| !run.is_child && is_over(run, before)) {
                if forked.is_none() {
                    forked = Some(self.forked_sources().await?);
                }
                let is_forked = |run_id: &RunId| forked.as_ref().is_some_and(|known| known.contains(run_id));
                if let Some(family) = self.family(run, before, is_forked).await? {
                    families.extend(family);
                }
            }
            for part in families.chunks(DELETED_AT_ONCE) {
                if self.records.is_stopping() {
                    return Ok(swept);
                }
                self.delete(part, before).await?;
                swept += part.len();
                tokio::time::sleep(PAUSE).await;
            }
            if is_last || self.records.is_stopping() {
                return Ok(swept);
            }
        }
    }

    /// A run and its descendants, newest first, if the retention of all is over. In this order, a crash never leaves a child without its
    /// parent.
    async fn family(
        &self,
        run: AgedRun,
        before: Timestamp,
        is_forked: impl Fn(&RunId) -> bool,
    ) -> Result<Option<Vec<AgedRun>>, Refusal> {
        let mut family = vec![run];
        let mut next = 0;
        while let Some(run) = family.get(next) {
            if is_forked(&run.run_id) {
                return Ok(None);
            }
            let children = self.records.store().children(&run.run_id).await?;
            for child in children {
                match self.records.store().aged_run(&child).await? {
                    Some(child) if is_over(&child, before) => family.push(child),
                    Some(_) => return Ok(None),
                    None => {}
                }
            }
            next += 1;
        }
        family.reverse();
        Ok(Some(family))
    }

    /// The source runs of active forks. A fork may still need the children that its source started.
    async fn forked_sources(&self) -> Result<HashSet<RunId>, Refusal> {
        let mut sources = HashSet::new();
        let mut after: Option<RunId> = None;
        loop {
            let page = self.records.store().open_runs(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(sources) };
            after = Some(last.clone());
            for run_id in &page {
                let Some(row) = self.records.store().run(None, run_id).await? else { continue };
                let genesis = serde_json::from_slice::<Genesis>(&row.genesis);
                sources.extend(genesis.ok().and_then(|genesis| genesis.fork).map(|fork| fork.source_run_id));
            }
        }
    }

    /// Deletes runs, with one audit entry for each tenant.
    async fn delete(&self, runs: &[AgedRun], before: Timestamp) -> Result<(), Refusal> {
        let mut changes: Vec<_> =
            runs.iter().map(|run| Change::DeleteRun { run_id: run.run_id.clone() }).collect();
        let mut by_tenant: BTreeMap<&Tenant, Vec<&RunId>> = BTreeMap::new();
        for run in runs {
            by_tenant.entry(&run.tenant).or_default().push(&run.run_id);
        }
        for (tenant, run_ids) in by_tenant {
            let caller = Caller {
                tenant: tenant.to_owned(),
                principal: Principal::new("retention"),
                scopes: Vec::new(),
                test: false,
            };
            let details = json!({"endedBefore": before.to_rfc3339(), "runIds": run_ids});
            changes.push(self.records.audited(&caller, "run.expire", &details));
        }
        Ok(self.records.commit(changes).await?)
    }
}

fn is_over(run: &AgedRun, before: Timestamp) -> bool {
    run.has_ended && run.updated_at < before
}

/// The time at which the retention period began.
fn before(now: Timestamp, kept: Duration) -> Timestamp {
    Timestamp(now.0.saturating_sub(u64::try_from(kept.as_millis()).unwrap_or(u64::MAX)))
}
