//! Traces of ended runs. An exporter is notified of the end of a run and derives the spans from its log.
//!
//! This costs nothing unless traces are enabled, and runs never wait for the exporter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flow::id::RunId;
use flow::trace::{Span, spans};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::Refusal;
use super::states::States;

/// The maximum number of ended runs in the queue of the exporter. Further traces are dropped; runs do not wait.
pub const MAX_WAITING: usize = 10_000;

/// The queue of ended runs: the host's end of it.
#[derive(Clone, Debug)]
pub struct EndedRuns {
    queue: Sender<RunId>,
    lost: Arc<AtomicU64>,
}

impl EndedRuns {
    /// The two ends of a queue: one for [`Options`](super::Options), one for the exporter.
    pub fn queue() -> (Self, Ended) {
        let (sender, receiver) = channel(MAX_WAITING);
        (Self { queue: sender, lost: Arc::default() }, Ended(receiver))
    }

    fn add(&self, run_id: &RunId) {
        if self.queue.try_send(run_id.to_owned()).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Receives the id of each run that ends.
#[derive(Debug)]
pub struct Ended(Receiver<RunId>);

impl Ended {
    /// Waits for the next ended run.
    pub async fn next(&mut self) -> Option<RunId> {
        self.0.recv().await
    }

    /// The next ended run, without waiting.
    pub fn next_now(&mut self) -> Option<RunId> {
        self.0.try_recv().ok()
    }
}

/// The traces of ended runs.
pub struct Traces {
    states: Arc<States>,
    ended_runs: Option<EndedRuns>,
}

impl Traces {
    /// Creates the service. `ended_runs` is notified of the runs that end; `None` if nothing exports traces.
    pub(crate) fn new(states: Arc<States>, ended_runs: Option<EndedRuns>) -> Self {
        Self { states, ended_runs }
    }

    /// Whether traces are enabled.
    pub fn are_enabled(&self) -> bool {
        self.ended_runs.is_some()
    }

    /// How many traces were dropped because the exporter was too slow.
    pub fn lost(&self) -> u64 {
        self.ended_runs.as_ref().map_or(0, |ended| ended.lost.load(Ordering::Relaxed))
    }

    pub(crate) fn ended(&self, run_id: &RunId) {
        if let Some(ended) = &self.ended_runs {
            ended.add(run_id);
        }
    }

    /// The spans of an ended run. Reads its whole log, so call it only in the background.
    ///
    /// # Errors
    /// If there is no such run, or the store cannot be read.
    pub async fn of(&self, run_id: &RunId) -> Result<Vec<Span>, Refusal> {
        let genesis = self.states.genesis_of(run_id).await?;
        // A source that was deleted is not linked.
        let source = match &genesis.fork {
            Some(fork) => self.states.genesis_of(&fork.source_run_id).await.ok(),
            None => None,
        };
        Ok(spans(&genesis, source.as_ref(), &self.states.events(run_id, 0).await?))
    }
}
