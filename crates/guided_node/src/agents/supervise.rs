//! Supervises one agent until its session is over, its restarts are exhausted, or the host stops.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use canon::time::Timestamp;
use ports::Cause;
use ports::sessions::Ended;
use rustix::process::Signal;
use system::backoff::{Backoff, millis};
use system::causes;
use tokio::sync::{OwnedSemaphorePermit, watch};
use workspace::environment::Scrubber;

use super::output::OutputLog;
use super::process::{self, Running};
use super::record::{ProcessEnd, Record, RecordedProcess, Records};
use super::{AgentCommand, Attended, FAREWELL, GRACE, Stop, given_up};
use crate::{GuidedNodes, Job, Trouble};

/// How often a process that an earlier host started is polled.
const GLANCE: Duration = Duration::from_millis(250);

/// What the supervisor does next.
enum Next {
    Again,
    /// The session no longer needs an agent of this host.
    Over,
}

struct OpenSession {
    events: u64,
    waits_for_person: bool,
}

pub(super) struct Supervisor {
    nodes: GuidedNodes,
    job: Job,
    agent: String,
    attended: Arc<Attended>,
    stop: watch::Receiver<Option<Stop>>,
}

impl Supervisor {
    pub(super) fn new(nodes: GuidedNodes, job: Job, agent: String, attended: Arc<Attended>) -> Self {
        let stop = attended.stop.subscribe();
        Self { nodes, job, agent, attended, stop }
    }

    /// Runs until the session is over. Temporary failures are retried.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::new();
        loop {
            let cause = match self.proceed().await {
                Ok(Next::Over) => return,
                Ok(Next::Again) => {
                    backoff = Backoff::new();
                    continue;
                }
                Err(Trouble::Failed(failure)) => {
                    // The session cannot be used. Other readers of the session report the same failure; this ensures that
                    // it is reported at least once.
                    self.report(failure);
                    return;
                }
                Err(Trouble::Later(cause)) => cause,
            };
            let (attempt, pause) = backoff.failed();
            tracing::warn!(
                session.id = self.session(),
                agent = self.agent,
                attempt,
                retry_in_ms = millis(pause),
                cause = causes(&cause),
                "an agent could not be started; retrying",
            );
            if self.pause(pause).await.is_some() {
                return;
            }
        }
    }

    fn session(&self) -> &str {
        &self.job.guide.session_id
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.nodes.now())
    }

    async fn proceed(&mut self) -> Result<Next, Trouble> {
        let mut record = self.load().await?;
        if let Some(message) = record.given_up.clone() {
            return self.give_up(record, message).await;
        }
        let Some(command) = self.command() else {
            let message = format!(
                "The agent `{}` is no longer configured. Add it to `guide.agents`, then retry the node.",
                self.agent
            );
            return self.give_up(record, message).await;
        };
        if let Some(process) = record.process.clone() {
            let end = self.adopt(&process, command.timeout).await;
            return self.ended(record, &command, end).await;
        }
        if self.stopped().is_some() {
            return Ok(Next::Over);
        }
        let Some(open) = self.look().await? else { return Ok(Next::Over) };
        if record.waits_at == Some(open.events) {
            // Wait until the session changes.
            tokio::select! {
                () = self.attended.changed.notified() => {}
                () = stop_requested(&mut self.stop) => {}
            }
            return Ok(Next::Again);
        }
        let Some(place) = self.place().await else { return Ok(Next::Over) };
        let running = match self.start(&mut record, &command).await {
            Ok(running) => running,
            Err(Trouble::Failed(failure)) => {
                let message =
                    format!("The agent `{}` cannot be started: {}", self.agent, failure.error.message);
                return self.give_up(record, message).await;
            }
            Err(Trouble::Later(cause)) => return Err(Trouble::Later(cause)),
        };
        let end = self.wait(running, &command).await;
        drop(place);
        self.ended(record, &command, end).await
    }

    fn command(&self) -> Option<AgentCommand> {
        let agents = self.nodes.agents()?;
        agents.options.commands.get(&self.agent).filter(|command| command.serves(&self.job.tenant)).cloned()
    }

    /// Waits for a free process slot. Returns `None` if the agent has to stop first.
    async fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        let places = Arc::clone(self.nodes.agents()?.places.get(&self.agent)?);
        tokio::select! {
            place = places.acquire_owned() => place.ok(),
            () = stop_requested(&mut self.stop) => None,
        }
    }

    /// Starts a process behind its gate, records it durably, and opens the gate.
    async fn start(&self, record: &mut Record, command: &AgentCommand) -> Result<Running, Trouble> {
        let (nodes, job, command, session) =
            (self.nodes.clone(), self.job.clone(), command.clone(), self.session().to_owned());
        let (mut next, now) = (record.clone(), self.now());
        let token = self.nodes.continue_token(&self.job).await?;
        let started = blocking(move || {
            let Some(agents) = nodes.agents() else {
                return Err(Trouble::Later(Cause::new("no agents are configured")));
            };
            let (launch, scrubber) = nodes.launch(&agents.options, &command, &job, token, now)?;
            let records = &agents.records;
            records.write_mcp_config(&session, &launch.mcp_config).map_err(later)?;
            next.starts = next.starts.saturating_add(1);
            next.waits_at = None;
            note(records, &session, &format!("start {} at {}", next.starts, now.to_rfc3339()));
            let folder = records.prepare(&session).map_err(later)?;
            let disk = Arc::clone(records.disk());
            let output = OutputLog::open(disk, folder, scrubber).map_err(later)?;
            let mut running =
                process::start(&launch, command.max_output, output, records.root(), now).map_err(later)?;
            next.process = Some(running.process.clone());
            // If this fails, the gate stays closed, and dropping it ends the process.
            records.save(&session, &next).map_err(later)?;
            running.open_gate(&launch.prompt).map_err(later)?;
            Ok((running, next))
        });
        let (running, next) = started.await?;
        tracing::info!(
            session.id = self.session(),
            run.id = self.job.run_id.as_str(),
            agent = self.agent,
            process = running.process.pid,
            start = next.starts,
            "an agent was started"
        );
        *record = next;
        Ok(running)
    }

    /// Waits for a process to exit, or stops it.
    async fn wait(&mut self, mut running: Running, command: &AgentCommand) -> ProcessEnd {
        let group = running.group();
        let mut wrote_too_much = running.wrote_too_much;
        let deadline = tokio::time::sleep(command.timeout);
        tokio::pin!(deadline);
        let limit = tokio::select! {
            end = &mut running.ended => return end.unwrap_or(ProcessEnd::Unseen),
            () = &mut deadline => ProcessEnd::TimedOut { limit_ms: millis(command.timeout) },
            // An error means only that all output was read.
            Ok(()) = &mut wrote_too_much => ProcessEnd::OutputLimit { limit_bytes: command.max_output },
            () = stop_requested(&mut self.stop) => ProcessEnd::Stopped,
        };
        // After the session is complete, the agent may finish its own work first.
        let is_complete = limit == ProcessEnd::Stopped && self.stopped() == Some(Stop::SessionComplete);
        let farewell = is_complete.then_some((None, FAREWELL));
        let signals = [(Some(Signal::TERM), GRACE), (Some(Signal::KILL), GRACE)];
        for (signal, patience) in farewell.into_iter().chain(signals) {
            if let Some(signal) = signal {
                group.signal(signal);
            }
            if tokio::time::timeout(patience, &mut running.ended).await.is_ok() {
                break;
            }
        }
        limit
    }

    /// Waits for a process that an earlier host started to exit, or stops it.
    async fn adopt(&mut self, process: &RecordedProcess, timeout: Duration) -> ProcessEnd {
        // An adopted process should occupy a slot. If the limit was lowered, there may be no free one.
        let places = self.nodes.agents().and_then(|agents| agents.places.get(&self.agent)).cloned();
        let _place = places.and_then(|places| places.try_acquire_owned().ok());
        let deadline = process.started_at.plus(millis(timeout));
        tracing::info!(
            session.id = self.session(),
            agent = self.agent,
            process = process.pid,
            "looking for an agent of an earlier host process"
        );
        loop {
            if !is_alive(process).await {
                return ProcessEnd::Unseen;
            }
            let limit = if self.stopped().is_some() {
                ProcessEnd::Stopped
            } else if self.now() >= deadline {
                ProcessEnd::TimedOut { limit_ms: millis(timeout) }
            } else {
                self.pause(GLANCE).await;
                continue;
            };
            let process = process.clone();
            let _ = tokio::task::spawn_blocking(move || process::kill_recorded(&process)).await;
            return limit;
        }
    }

    /// Records how a process ended, and decides what to do next.
    async fn ended(
        &mut self,
        mut record: Record,
        command: &AgentCommand,
        end: ProcessEnd,
    ) -> Result<Next, Trouble> {
        tracing::info!(
            session.id = self.session(),
            agent = self.agent,
            start = record.starts,
            "an agent ended: {end}"
        );
        let open = match self.stopped() {
            Some(_) => None,
            None => self.look().await?,
        };
        record.process = None;
        record.last_end = Some(end.clone());
        let ended_too_early = match &open {
            None => false,
            Some(open) if open.waits_for_person => {
                record.waits_at = Some(open.events);
                false
            }
            Some(_) => true,
        };
        if ended_too_early {
            record.failed_starts = record.failed_starts.saturating_add(1);
        }
        self.save_end(&record, &end).await?;
        if !ended_too_early {
            return Ok(if open.is_some() { Next::Again } else { Next::Over });
        }
        let too_often = record.failed_starts > command.restarts;
        if process::is_not_started(&end) || too_often {
            let message = if too_often {
                format!(
                    "The agent `{}` ended {} times before its session was complete; the limit is 1 start \
                     and {} restarts. \
                     The last time, {end}.",
                    self.agent, record.failed_starts, command.restarts
                )
            } else {
                format!(
                    "The agent `{}` could not be started: {end}. Check `argv` of `guide.agents.{}`; see \
                     its output.",
                    self.agent, self.agent
                )
            };
            return self.give_up(record, message).await;
        }
        let mut backoff = Backoff::new();
        let pause = (0..record.failed_starts).map(|_| backoff.failed().1).last();
        self.pause(pause.unwrap_or_default()).await;
        Ok(Next::Again)
    }

    /// Stops restarting the agent: marks the session as ended and fails the node.
    async fn give_up(&self, mut record: Record, message: String) -> Result<Next, Trouble> {
        record.given_up = Some(message.clone());
        let (nodes, tenant, session) =
            (self.nodes.clone(), self.job.tenant.clone(), self.session().to_owned());
        let ended = Ended {
            run_id: self.job.run_id.clone(),
            node_id: self.job.guide.node_id.clone(),
            run_status: "running".to_owned(),
        };
        let saved = blocking({
            let (nodes, session) = (nodes.clone(), session.clone());
            move || match nodes.agents() {
                Some(agents) => agents.records.save(&session, &record).map_err(later),
                None => Ok(()),
            }
        });
        saved.await?;
        nodes.mark(&tenant, &session, &ended).await?;
        tracing::warn!(session.id = self.session(), agent = self.agent, "{message}");
        self.report(given_up(self.session(), &self.agent, &message));
        Ok(Next::Over)
    }

    /// Reports to the run that its agent failed permanently.
    fn report(&self, failure: flow::engine::GuideFailure) {
        *self.attended.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        self.nodes.look_again(self.session());
        self.nodes.inner.options.tenants.advanced().notify_one();
    }

    async fn load(&self) -> Result<Record, Trouble> {
        let (nodes, session) = (self.nodes.clone(), self.session().to_owned());
        let new = Record::new(
            self.job.tenant.clone(),
            self.job.run_id.clone(),
            self.job.guide.node_id.clone(),
            self.agent.clone(),
        );
        blocking(move || {
            let Some(agents) = nodes.agents() else { return Ok(new) };
            Ok(agents.records.load(&session).map_err(later)?.unwrap_or(new))
        })
        .await
    }

    async fn save_end(&self, record: &Record, end: &ProcessEnd) -> Result<(), Trouble> {
        let (nodes, session, record, end) =
            (self.nodes.clone(), self.session().to_owned(), record.clone(), end.clone());
        blocking(move || {
            let Some(agents) = nodes.agents() else { return Ok(()) };
            note(&agents.records, &session, &format!("end of start {}: {end}", record.starts));
            agents.records.remove_mcp_config(&session).map_err(later)?;
            agents.records.save(&session, &record).map_err(later)
        })
        .await
    }

    /// The session, or `None` if it is complete or no run waits for it.
    async fn look(&self) -> Result<Option<OpenSession>, Trouble> {
        let found = self.nodes.open_session(&self.job.tenant, self.session()).await?;
        Ok(found.map(|(events, waits_for_person)| OpenSession { events, waits_for_person }))
    }

    fn stopped(&self) -> Option<Stop> {
        *self.stop.borrow()
    }

    /// Sleeps, unless the agent has to stop.
    async fn pause(&mut self, pause: Duration) -> Option<Stop> {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop_requested(&mut self.stop) => {}
        }
        self.stopped()
    }
}

/// Resolves when the agent has to stop.
async fn stop_requested(stop: &mut watch::Receiver<Option<Stop>>) {
    if stop.wait_for(Option::is_some).await.is_err() {
        // The sender is gone, so there can be no stop request. It normally lives as long as the supervisor.
        std::future::pending::<()>().await;
    }
}

async fn is_alive(process: &RecordedProcess) -> bool {
    let process = process.clone();
    // If the thread panicked, assume that the process is alive.
    tokio::task::spawn_blocking(move || process::is_alive(&process)).await.unwrap_or(true)
}

async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
) -> Result<T, Trouble> {
    match tokio::task::spawn_blocking(act).await {
        Ok(done) => done,
        Err(error) => Err(Trouble::Later(Cause::new(error))),
    }
}

fn later(error: io::Error) -> Trouble {
    Trouble::Later(Cause::new(error))
}

/// Appends a line of the host to the output. Errors are ignored, because the output is only informative.
fn note(records: &Records, session: &str, line: &str) {
    let written = records.prepare(session).and_then(|folder| {
        let mut log = OutputLog::open(Arc::clone(records.disk()), folder, Scrubber::new([]))?;
        log.note(line)
    });
    if let Err(error) = written {
        tracing::warn!(session.id = session, cause = causes(&error), "the output of an agent was not stored");
    }
}

/// Stops a process that an earlier host started, for a session without a supervisor.
pub(super) fn stop_recorded(records: &Records, session: &str) {
    let stopped = (|| {
        let Some(mut record) = records.load(session)? else { return Ok(()) };
        records.remove_mcp_config(session)?;
        let Some(process) = record.process.take() else { return Ok(()) };
        process::kill_recorded(&process);
        record.last_end = Some(ProcessEnd::Stopped);
        records.save(session, &record)
    })();
    if let Err(error) = stopped {
        let error: io::Error = error;
        tracing::warn!(
            session.id = session,
            cause = causes(&error),
            "the agent of a session could not be stopped"
        );
    }
}
