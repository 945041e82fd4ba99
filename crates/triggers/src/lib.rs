//! Triggers: every message of a queue, and every record of a stream, starts one run.
//!
//! There is one *task* for each trigger of each workflow of each tenant. It waits for a notification of its queue and never polls.
//!
//! ```text
//!  queue:   consume with a lease ─► create the run, claim the message ─► acknowledge ─► delete the claim
//!                                         one commit of the run store
//!  stream:  read after the position ─► create the run, move the position
//!                                         one commit of the run store
//! ```
//!
//! A message is acknowledged only after its run is durable. If the host crashes in between, the message is delivered again; its claim says that
//! its run exists, and it is acknowledged without another run. A message whose run is refused is retried after increasing delays, and becomes a
//! dead letter after the maximum number of attempts of its trigger. If the host is overloaded, the task waits; this does not count as an
//! attempt.
//!
//! When a workflow is registered again, the tasks of changed triggers finish their messages and are replaced. Deliveries, claims and positions
//! are kept by the queue and the store, so no message is lost or processed twice.
#![forbid(unsafe_code)]

mod messages;
mod records;
mod signals;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use executors::Executors;
use flow::definition::SourceKind;
use flow::id::{Tenant, WorkflowId};
use runs::listeners::Listener;
use runs::{Refusal, Runs};
use surfaces::Tenant as SurfaceTenant;
use surfaces::queue::{Queue, Topic};
use system::causes;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::signals::Signals;
use self::task::TriggerTask;

/// The number of workflows per read.
const PAGE: usize = 500;
/// The delay after the store could not be read.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What triggers report to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerEvent {
    /// The trigger started to listen.
    Begun(TriggerName),
    /// The trigger stopped listening.
    Ended(TriggerName),
    /// No run could be started for a message, and the message became a dead letter.
    DeadLetter { trigger: TriggerName, message_id: String, reason: String },
}

/// Identifies a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerName {
    pub tenant: Tenant,
    pub workflow_id: WorkflowId,
    pub trigger_id: String,
    /// The queue or the stream.
    pub source: String,
}

/// Called with the events of triggers.
pub type TriggerObserver = Arc<dyn Fn(TriggerEvent) + Send + Sync>;

/// Identifies a task: tenant, workflow and trigger.
type Key = (Tenant, WorkflowId, String);

struct RunningTask {
    listener: Listener,
    end: watch::Sender<bool>,
    task: JoinHandle<()>,
}

struct TriggerTasks {
    runs: Runs,
    queue: Arc<dyn Queue>,
    signals: Arc<Signals>,
    observer: TriggerObserver,
    listening: BTreeMap<Key, RunningTask>,
}

/// Starts runs for messages until the host is drained. When it returns, every received message has its run or is back in its queue. Call it
/// once, after [`runs::Engine::recover`].
pub async fn keep_listening(runs: &Runs, observer: TriggerObserver) {
    let Some(surfaces) = runs.features().executors().and_then(Executors::surfaces) else { return };
    let queue = Arc::clone(surfaces.queue());
    let signals = Arc::new(Signals::default());
    let relay = tokio::spawn(Arc::clone(&signals).relay(queue.watch()));
    let mut tasks = TriggerTasks { runs: runs.clone(), queue, signals, observer, listening: BTreeMap::new() };
    tasks.start_all().await;
    while !runs.records().is_stopping() {
        tokio::select! {
            changed = runs.listeners().registered() => tasks.update(changed).await,
            () = runs.records().stopped() => {}
        }
    }
    tasks.end_all().await;
    relay.abort();
}

impl TriggerTasks {
    /// Starts the tasks of all workflows with triggers.
    async fn start_all(&mut self) {
        let mut after: Option<(Tenant, WorkflowId)> = None;
        while !self.runs.records().is_stopping() {
            match self.runs.listeners().listening(after.as_ref(), PAGE).await {
                Ok(page) => {
                    let Some(last) = page.last() else { return };
                    after = Some(last.clone());
                    self.update(page.into_iter().collect()).await;
                }
                Err(refusal) => {
                    tracing::warn!(cause = causes(&refusal), "the triggers could not be read; retrying");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    /// Starts and ends tasks so that they match the triggers of these workflows.
    async fn update(&mut self, workflows: BTreeSet<(Tenant, WorkflowId)>) {
        let mut failed = false;
        for (tenant, workflow_id) in workflows {
            if let Err(refusal) = self.update_workflow(&tenant, &workflow_id).await {
                let cause = causes(&refusal);
                tracing::warn!(
                    tenant = tenant.as_str(),
                    workflow.id = workflow_id.as_str(),
                    cause,
                    "the triggers of a workflow could not be read; retrying"
                );
                self.runs.listeners().notify_registered(&tenant, &workflow_id);
                failed = true;
            }
        }
        if failed {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }

    async fn update_workflow(&mut self, tenant: &Tenant, workflow_id: &WorkflowId) -> Result<(), Refusal> {
        let wanted = self.runs.definitions().listeners_of(tenant, workflow_id).await?;
        let from = (tenant.to_owned(), workflow_id.to_owned(), String::new());
        let of_workflow = self.listening.range(from..);
        let of_workflow = of_workflow.take_while(|(key, _)| key.0 == *tenant && key.1 == *workflow_id);
        let outdated = of_workflow
            .filter(|(_, running)| !wanted.contains(&running.listener) || running.task.is_finished());
        let outdated: Vec<Key> = outdated.map(|(key, _)| key.clone()).collect();
        for key in outdated {
            if let Some(running) = self.listening.remove(&key) {
                self.end(running).await;
            }
        }
        for listener in wanted {
            let key = (tenant.to_owned(), workflow_id.to_owned(), listener.trigger.id.clone());
            if !self.listening.contains_key(&key)
                && let Some(running) = self.start(listener)
            {
                self.listening.insert(key, running);
            }
        }
        Ok(())
    }

    fn start(&self, listener: Listener) -> Option<RunningTask> {
        // Registration has validated the name of the tenant.
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
            published: self.signals.subscribe(topic),
            ended,
        });
        (self.observer)(TriggerEvent::Begun(task.named()));
        let task = match listener.trigger.kind {
            SourceKind::Queue => tokio::spawn(messages::listen(task)),
            SourceKind::Stream => tokio::spawn(records::listen(task)),
        };
        Some(RunningTask { listener, end, task })
    }

    /// Waits until a task has finished its messages.
    async fn end(&self, running: RunningTask) {
        running.end.send_replace(true);
        // The messages of a task that panicked return to the queue when their leases expire.
        let _ = running.task.await;
        let Listener { tenant, workflow_id, trigger } = running.listener;
        let named = TriggerName { tenant, workflow_id, trigger_id: trigger.id, source: trigger.source };
        (self.observer)(TriggerEvent::Ended(named));
    }

    async fn end_all(&mut self) {
        let all = std::mem::take(&mut self.listening);
        for running in all.values() {
            running.end.send_replace(true);
        }
        for running in all.into_values() {
            self.end(running).await;
        }
    }
}
