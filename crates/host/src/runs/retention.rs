//! How long things are kept.
//!
//! Runs are kept for good unless somebody says otherwise; answers to requests with a key for a day. What is over is deleted in small
//! commits through the one writer, so that nobody who works waits for long. A run goes with the runs that it started, once all
//! of them ended long enough ago, and not while a fork of it is under way.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use canon::time::Timestamp;
use flow::id::{Principal, RunId, Tenant};
use flow::run::Genesis;
use ports::runs::{AgedPage, AgedRun, Change};
use serde_json::json;

use super::{Caller, Refusal, Runs};

/// How long answers are kept at least, as the protocol wants: a day.
pub const MIN_ANSWERS: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a run that has ended is kept at least, so that whoever waits for it can still read it.
pub const MIN_FINISHED_RUNS: Duration = Duration::from_secs(60);

/// How often what is over is looked for.
const EVERY: Duration = Duration::from_secs(10 * 60);
/// How long after the start it is looked for first: there is more important work then.
const FIRST: Duration = Duration::from_secs(60);
/// How many runs are looked at, and how many answers are deleted, at once.
const PAGE: usize = 500;
/// The most runs that one commit deletes.
const DELETED_AT_ONCE: usize = 100;
/// How long the writer has for others between two commits.
const PAUSE: Duration = Duration::from_millis(20);

/// What is kept for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Runs, after they ended. For good where nothing is said.
    pub finished_runs: Option<Duration>,
    /// Answers to requests with a key.
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
    /// Whether answers were.
    pub answers: bool,
}

impl Runs {
    /// Deletes what is over from time to time, for ever. Ends when the host is drained.
    pub async fn keep_retention(&self, retention: Retention, mut told: impl FnMut(Result<Swept, Refusal>)) {
        let mut wait = FIRST;
        while !self.is_stopping() {
            tokio::select! {
                () = tokio::time::sleep(wait) => told(self.sweep(retention).await),
                () = self.stopped() => {}
            }
            wait = EVERY;
        }
    }

    /// Deletes what is over now.
    ///
    /// # Errors
    /// When the store fails. What was deleted before stays deleted.
    pub async fn sweep(&self, retention: Retention) -> Result<Swept, Refusal> {
        let answers = self.sweep_answers(before(self.now(), retention.answers.max(MIN_ANSWERS))).await?;
        let runs = match retention.finished_runs {
            Some(kept) => self.sweep_runs(before(self.now(), kept.max(MIN_FINISHED_RUNS))).await?,
            None => 0,
        };
        Ok(Swept { runs, answers })
    }

    async fn sweep_answers(&self, before: Timestamp) -> Result<bool, Refusal> {
        let mut swept = false;
        while !self.is_stopping() && self.store().oldest_reply().await?.is_some_and(|oldest| oldest < before)
        {
            self.commit(vec![Change::DeleteReplies { before, limit: PAGE }]).await?;
            swept = true;
            tokio::time::sleep(PAUSE).await;
        }
        Ok(swept)
    }

    async fn sweep_runs(&self, before: Timestamp) -> Result<usize, Refusal> {
        let mut forked = None;
        let (mut after, mut swept) = (None, 0);
        loop {
            let AgedPage { runs: page, next } = self.store().aged_runs(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(swept) };
            // Runs are listed in the order of their creation, so the following ones are younger still.
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
                if self.is_stopping() {
                    return Ok(swept);
                }
                self.delete(part, before).await?;
                swept += part.len();
                tokio::time::sleep(PAUSE).await;
            }
            if is_last || self.is_stopping() {
                return Ok(swept);
            }
        }
    }

    /// A run and all that it started, the youngest first, where all of them are over: whatever a crash leaves of it has its parent.
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
            let children = self.store().children(&run.run_id).await?;
            for child in children {
                match self.store().aged_run(&child).await? {
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

    /// The runs that a fork under way was made of: it may still ask for the children that they started.
    async fn forked_sources(&self) -> Result<HashSet<RunId>, Refusal> {
        let mut sources = HashSet::new();
        let mut after: Option<RunId> = None;
        loop {
            let page = self.store().open_runs(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(sources) };
            after = Some(last.clone());
            for run_id in &page {
                let Some(row) = self.store().run(None, run_id).await? else { continue };
                let genesis = serde_json::from_slice::<Genesis>(&row.genesis);
                sources.extend(genesis.ok().and_then(|genesis| genesis.fork).map(|fork| fork.source_run_id));
            }
        }
    }

    /// Deletes runs, with one entry in the audit log of each tenant.
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
            changes.push(self.audited(&caller, "run.expire", &details));
        }
        Ok(self.commit(changes).await?)
    }
}

fn is_over(run: &AgedRun, before: Timestamp) -> bool {
    run.has_ended && run.updated_at < before
}

/// The moment that is so long ago.
fn before(now: Timestamp, kept: Duration) -> Timestamp {
    Timestamp(now.0.saturating_sub(u64::try_from(kept.as_millis()).unwrap_or(u64::MAX)))
}
