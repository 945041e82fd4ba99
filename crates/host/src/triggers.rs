//! Triggers: every message of a queue, and every record of a stream, starts one run.
//!
//! There is one *task* for each trigger of each workflow of each tenant. It waits for an event of its queue, and never polls.
//!
//! ```text
//!  queue:   consume under a lease ─► create the run, claim the message ─► acknowledge ─► forget the claim
//!                                         one commit of the store of runs
//!  stream:  read behind the place ─► create the run, move the place
//!                                         one commit of the store of runs
//! ```
//!
//! A message is acknowledged when its run is durable, and not before. Where the host dies in between, the message is handed over
//! again; its claim says that it has its run, and it is acknowledged without another. A message whose run is refused waits a while, longer
//! every time, and is a dead letter after as many attempts as its trigger allows. A host that has too much to do is waited for: that is no
//! attempt.
//!
//! Registering a workflow again lets the tasks of triggers that changed finish what they hold, and puts others in their place. Handing
//! over, claims and places belong to the queue and the store, so nothing is lost or doubled by that.

mod messages;
mod records;
mod signals;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flow::definition::SourceKind;
use flow::id::{Tenant, WorkflowId};
use surfaces::Tenant as SurfaceTenant;
use surfaces::queue::{Queue, Topic};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::signals::Signals;
use self::task::TriggerTask;
use crate::causes;
use crate::executors::Executors;
use crate::runs::listeners::Listener;
use crate::runs::{Refusal, Runs};

/// How many workflows are looked up at once.
const PAGE: usize = 500;
/// How long to wait after the store could not be read.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What a trigger does that people may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerEvent {
    /// It listens from now on.
    Begun(TriggerName),
    /// It does not listen any more.
    Ended(TriggerName),
    /// No run could be started for a message, and it was put aside.
    DeadLetter { trigger: TriggerName, message_id: String, reason: String },
}

/// The names of a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerName {
    pub tenant: Tenant,
    pub workflow_id: WorkflowId,
    pub trigger_id: String,
    /// The queue or the stream.
    pub source: String,
}

/// Called with what triggers do.
pub type TriggerObserver = Arc<dyn Fn(TriggerEvent) + Send + Sync>;

/// A task that is there, by tenant, workflow and trigger.
type Key = (Tenant, WorkflowId, String);

struct Listening {
    listener: Listener,
    end: watch::Sender<bool>,
    task: JoinHandle<()>,
}

struct TriggerTasks {
    runs: Runs,
    queue: Arc<dyn Queue>,
    signals: Arc<Signals>,
    observer: TriggerObserver,
    listening: BTreeMap<Key, Listening>,
}

impl Runs {
    /// Starts the runs of messages, for ever. Ends when the host is drained, and every message that was held has its run, or is back in its
    /// queue. To be called once, after [`Runs::recover`].
    pub async fn keep_listening(&self, observer: TriggerObserver) {
        let Some(surfaces) = self.executors().and_then(Executors::surfaces) else { return };
        let queue = Arc::clone(surfaces.queue());
        let signals = Arc::new(Signals::default());
        let relay = tokio::spawn(Arc::clone(&signals).relay(queue.watch()));
        let mut tasks =
            TriggerTasks { runs: self.clone(), queue, signals, observer, listening: BTreeMap::new() };
        tasks.look_at_all().await;
        while !self.is_stopping() {
            tokio::select! {
                changed = self.registered() => tasks.look_at(changed).await,
                () = self.stopped() => {}
            }
        }
        tasks.end_all().await;
        relay.abort();
    }
}

impl TriggerTasks {
    /// Looks at every workflow that listens, at the start.
    async fn look_at_all(&mut self) {
        let mut after: Option<(Tenant, WorkflowId)> = None;
        while !self.runs.is_stopping() {
            match self.runs.listening(after.as_ref(), PAGE) {
                Ok(page) => {
                    let Some(last) = page.last() else { return };
                    after = Some(last.clone());
                    self.look_at(page.into_iter().collect()).await;
                }
                Err(refusal) => {
                    tracing::warn!(cause = causes(&refusal), "the triggers could not be read; retrying");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    /// Makes what listens what workflows say.
    async fn look_at(&mut self, workflows: BTreeSet<(Tenant, WorkflowId)>) {
        let mut failed = false;
        for (tenant, workflow_id) in workflows {
            if let Err(refusal) = self.look_at_one(&tenant, &workflow_id).await {
                let cause = causes(&refusal);
                tracing::warn!(
                    tenant = tenant.as_str(),
                    workflow.id = workflow_id.as_str(),
                    cause,
                    "the triggers of a workflow could not be read; retrying"
                );
                self.runs.tell_registered(&tenant, &workflow_id);
                failed = true;
            }
        }
        if failed {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }

    async fn look_at_one(&mut self, tenant: &Tenant, workflow_id: &WorkflowId) -> Result<(), Refusal> {
        let wanted = self.runs.listeners(tenant, workflow_id)?;
        let from = (tenant.to_owned(), workflow_id.to_owned(), String::new());
        let of_workflow = self.listening.range(from..);
        let of_workflow = of_workflow.take_while(|(key, _)| key.0 == *tenant && key.1 == *workflow_id);
        let over =
            of_workflow.filter(|(_, there)| !wanted.contains(&there.listener) || there.task.is_finished());
        let over: Vec<Key> = over.map(|(key, _)| key.clone()).collect();
        for key in over {
            if let Some(there) = self.listening.remove(&key) {
                self.end(there).await;
            }
        }
        for listener in wanted {
            let key = (tenant.to_owned(), workflow_id.to_owned(), listener.trigger.id.clone());
            if !self.listening.contains_key(&key)
                && let Some(begun) = self.begin(listener)
            {
                self.listening.insert(key, begun);
            }
        }
        Ok(())
    }

    fn begin(&self, listener: Listener) -> Option<Listening> {
        // Registration has seen to it that it is one.
        let tenant = SurfaceTenant::new(listener.tenant.as_str()).ok()?;
        let is_stream = listener.trigger.kind == SourceKind::Stream;
        let topic = Topic { tenant: tenant.clone(), name: listener.trigger.source.clone(), is_stream };
        let (end, ended) = watch::channel(false);
        let task = Arc::new(TriggerTask {
            runs: self.runs.clone(),
            queue: Arc::clone(&self.queue),
            observer: Arc::clone(&self.observer),
            tenant,
            listener: listener.clone(),
            heard: self.signals.of(topic),
            ended,
        });
        (self.observer)(TriggerEvent::Begun(task.named()));
        let task = match listener.trigger.kind {
            SourceKind::Queue => tokio::spawn(messages::listen(task)),
            SourceKind::Stream => tokio::spawn(records::listen(task)),
        };
        Some(Listening { listener, end, task })
    }

    /// Waits until a task has done with what it holds.
    async fn end(&self, there: Listening) {
        there.end.send_replace(true);
        // One that panicked holds nothing that does not come back by itself.
        let _ = there.task.await;
        let Listener { tenant, workflow_id, trigger } = there.listener;
        let named = TriggerName { tenant, workflow_id, trigger_id: trigger.id, source: trigger.source };
        (self.observer)(TriggerEvent::Ended(named));
    }

    async fn end_all(&mut self) {
        let all = std::mem::take(&mut self.listening);
        for there in all.values() {
            there.end.send_replace(true);
        }
        for there in all.into_values() {
            self.end(there).await;
        }
    }
}
