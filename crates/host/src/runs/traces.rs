//! Traces: told that a run ended, read off its log by whoever sends them.
//!
//! Nothing of this costs anything unless somebody asked for traces, and a run never waits for them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use flow::id::RunId;
use flow::trace::{Span, spans};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{Refusal, Runs};

/// How many ended runs may wait to be traced. A sender that is further behind loses traces, and no run waits for it.
pub const MAX_WAITING: usize = 10_000;

/// The runs that ended, for whoever sends their traces.
#[derive(Default)]
pub(super) struct Traces {
    ended: OnceLock<Sender<RunId>>,
    lost: AtomicU64,
}

/// The ids of runs, each once it has ended.
#[derive(Debug)]
pub struct Ended(Receiver<RunId>);

impl Ended {
    /// The next run that ends.
    pub async fn next(&mut self) -> Option<RunId> {
        self.0.recv().await
    }

    /// The next run that ended already.
    pub fn next_now(&mut self) -> Option<RunId> {
        self.0.try_recv().ok()
    }
}

impl Runs {
    /// Turns traces on. To be called before anything else; nothing is given the second time.
    pub fn ended_runs(&self) -> Option<Ended> {
        let (sender, receiver) = channel(MAX_WAITING);
        self.inner.traces.ended.set(sender).ok()?;
        Some(Ended(receiver))
    }

    /// Whether traces are sent.
    pub fn is_traced(&self) -> bool {
        self.inner.traces.ended.get().is_some()
    }

    /// How many traces were lost so far because nobody was quick enough to send them.
    pub fn traces_lost(&self) -> u64 {
        self.inner.traces.lost.load(Ordering::Relaxed)
    }

    pub(super) fn tell_traces(&self, run_id: &RunId) {
        if let Some(ended) = self.inner.traces.ended.get()
            && ended.try_send(run_id.to_owned()).is_err()
        {
            self.inner.traces.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The spans of a run that has ended. Reads its whole log: work for a thread that nobody waits for.
    ///
    /// # Errors
    /// When there is no such run, or the store cannot be read.
    pub async fn trace(&self, run_id: &RunId) -> Result<Vec<Span>, Refusal> {
        let genesis = self.genesis_of(run_id).await?;
        // A source that is gone by now is not linked to.
        let source = match &genesis.fork {
            Some(fork) => self.genesis_of(&fork.source_run_id).await.ok(),
            None => None,
        };
        Ok(spans(&genesis, source.as_ref(), &self.events(run_id, 0).await?))
    }
}
