//! Guided nodes: starts, watches and ends the [sessions](guided_node) that runs wait for.

use std::time::{Duration, Instant};

use canon::time::Timestamp;
use flow::engine::guide::session_of;
use flow::engine::{Guide, GuideFailure, GuideResult, Input};
use flow::id::{ArtifactId, NodeId, RunId, Tenant};
use flow::run::Genesis;
use flow::state::NodeStatus;
use guided_node::{GuidedNodes, InputArtifact, Job, Trouble, Waiter, not_provided};
use ports::Cause;
use ports::runs::Change;
use ports::sessions::Ended;
use serde_json::Value;
use system::backoff::{Backoff, millis};
use system::causes;

use super::Engine;

/// How long after its commit the timer loop ends a session, if the process that recorded the end died before it did so.
const END_AGAIN_MS: u64 = 5000;
/// The maximum number of nested forks that are followed to find an artifact.
const MAX_FORKS: usize = 16;

/// The key prefix of timers that do not belong to a run: they mark a session as ended.
const END: &str = "session:";

/// The key of the timer that ends a session even if the process dies.
pub(super) fn end_key(node_id: &NodeId, session_id: &str) -> String {
    format!("{END}{session_id}:{node_id}")
}

/// The session and the node of such a key.
pub(super) fn parse_end_key(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix(END)?.split_once(':')
}

/// The change that makes the end of a session durable, in the same commit as its cause.
pub(super) fn end_later(run_id: &RunId, node_id: &NodeId, session_id: &str, now: Timestamp) -> Change {
    Change::SetTimer {
        run_id: run_id.to_owned(),
        key: end_key(node_id, session_id),
        at: now.plus(END_AGAIN_MS),
    }
}

/// The store failed; retry later.
fn later(error: impl std::error::Error + Send + Sync + 'static) -> Trouble {
    Trouble::Later(Cause::new(error))
}

/// Logs that a session could not be marked as ended. The timer loop retries.
fn unmarked(run_id: &RunId, session_id: &str, cause: &(dyn std::error::Error + 'static)) -> bool {
    let cause = causes(cause);
    tracing::warn!(
        run.id = run_id.as_str(),
        session.id = session_id,
        cause,
        "a session could not be ended; retrying"
    );
    false
}

impl Engine {
    fn guided_nodes(&self) -> Option<&GuidedNodes> {
        self.uses.guided_nodes.as_ref()
    }

    /// Prepares an agent, starts its session and watches it, in its own task: a repository may take minutes to fetch.
    pub(super) fn guide(&self, run_id: &RunId, tenant: &Tenant, guide: Guide) {
        let (engine, run_id, tenant) = (self.clone(), run_id.to_owned(), tenant.to_owned());
        tokio::spawn(async move { engine.carry_guide(run_id, tenant, guide).await });
    }

    async fn carry_guide(&self, run_id: RunId, tenant: Tenant, guide: Guide) {
        let Some(path) = self.guided_nodes().cloned() else {
            self.report_end(&run_id, &guide.node_id, &guide.session_id, Err(not_provided())).await;
            return;
        };
        let (node_id, session_id) = (guide.node_id.clone(), guide.session_id.clone());
        let attended = guide.agent.is_some().then(|| guide.clone());
        if !guide.is_started {
            let begun = self
                .patiently(&run_id, || async {
                    let job = self.job(&run_id, &tenant, guide.clone()).await?;
                    let path = path.clone();
                    // In its own task, so that a panic ends only this attempt.
                    tokio::spawn(async move { path.begin(&job).await }).await.map_err(later)?
                })
                .await;
            match begun {
                Some(Ok(())) => {}
                Some(Err(failure)) => {
                    self.report_end(&run_id, &node_id, &session_id, Err(failure)).await;
                    return;
                }
                // The host shuts down. The next start begins again.
                None => return,
            }
            let input = Input::GuideStarted { node_id: node_id.clone(), session_id: session_id.clone() };
            self.give(&run_id, input).await;
        }
        path.watch(&tenant, &session_id, Waiter { run_id: run_id.clone(), node_id: node_id.clone() });
        // Checked after the watch began, so that an end of the wait in between is not missed.
        if !self.wants(&run_id, &node_id, &session_id).await {
            self.end_guide(&run_id, &tenant, &node_id, &session_id).await;
            return;
        }
        if let Some(guide) = attended {
            self.attend(&path, &run_id, &tenant, guide).await;
        }
    }

    /// Starts the agent of a session, unless the session belongs to another run, for example the source of this fork.
    async fn attend(&self, path: &GuidedNodes, run_id: &RunId, tenant: &Tenant, guide: Guide) {
        let job = self
            .patiently(run_id, || async {
                let job = self.job(run_id, tenant, guide.clone()).await?;
                Ok(path.is_own(&job).await?.then_some(job))
            })
            .await;
        // If the session cannot be read, the watcher of the session reports it.
        if let Some(Ok(Some(job))) = job {
            path.attend(job);
        }
    }

    /// Whether a run waits for a session, or will wait for it after it resumes.
    async fn wants(&self, run_id: &RunId, node_id: &NodeId, session_id: &str) -> bool {
        // If the run cannot be read now, the next recovery checks again.
        let Ok(loaded) = self.uses.states.load(run_id).await else { return true };
        let state = &loaded.state;
        let Some(node) = state.node_index(node_id) else { return false };
        let awaited = state.interrupts.get(node_id).and_then(|open| session_of(&open.data));
        match awaited {
            Some(awaited) => awaited == session_id,
            None => {
                !state.status.is_terminal()
                    && matches!(state.nodes[node].status, NodeStatus::Running | NodeStatus::Suspended)
            }
        }
    }

    /// The description of a node for the guided session.
    async fn job(&self, run_id: &RunId, tenant: &Tenant, guide: Guide) -> Result<Job, Trouble> {
        let genesis = self.uses.states.genesis_of(run_id).await.map_err(later)?;
        let mut artifacts = Vec::new();
        for upstream in &guide.artifacts {
            if let Some(document) = self.artifact_of(&genesis, &upstream.artifact_id).await? {
                let (artifact_id, node_id) = (upstream.artifact_id.clone(), upstream.node_id.clone());
                artifacts.push(InputArtifact { artifact_id, node_id, document });
            }
        }
        Ok(Job {
            tenant: tenant.to_owned(),
            run_id: run_id.to_owned(),
            workflow_id: genesis.workflow_id,
            guide,
            artifacts,
        })
    }

    /// An artifact of a run, or of the run that it was forked from: a fork copies the events of its source, not its artifacts.
    async fn artifact_of(
        &self,
        genesis: &Genesis,
        artifact_id: &ArtifactId,
    ) -> Result<Option<Value>, Trouble> {
        let mut genesis = genesis.clone();
        for _ in 0..MAX_FORKS {
            let found =
                self.uses.records.store().artifact(&genesis.run_id, artifact_id).await.map_err(later)?;
            if let Some(document) = found {
                return Ok(serde_json::from_slice(&document).ok());
            }
            match genesis.fork {
                Some(fork) => {
                    genesis = self.uses.states.genesis_of(&fork.source_run_id).await.map_err(later)?;
                }
                None => break,
            }
        }
        Ok(None)
    }

    /// Retries with backoff until success or permanent failure. `None` if the host is stopped first.
    async fn patiently<T, F: Future<Output = Result<T, Trouble>>>(
        &self,
        run_id: &RunId,
        act: impl Fn() -> F,
    ) -> Option<Result<T, GuideFailure>> {
        let mut backoff = Backoff::new();
        loop {
            let cause = match act().await {
                Ok(done) => return Some(Ok(done)),
                Err(Trouble::Failed(failure)) => return Some(Err(failure)),
                Err(Trouble::Later(cause)) => cause,
            };
            let (attempt, pause) = backoff.failed();
            tracing::warn!(
                run.id = run_id.as_str(),
                attempt,
                retry_in_ms = millis(pause),
                cause = causes(&cause),
                "a guided node could not be started; retrying",
            );
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.uses.records.stopped() => return None,
            }
        }
    }

    async fn report_end(
        &self,
        run_id: &RunId,
        node_id: &NodeId,
        session_id: &str,
        outcome: Result<GuideResult, GuideFailure>,
    ) {
        let (node_id, session_id) = (node_id.to_owned(), session_id.to_owned());
        self.give(run_id, Input::GuideEnded { node_id, session_id, outcome }).await;
    }

    /// Watches the sessions that runs wait for, until the host is drained. Sessions can also be advanced by other processes.
    pub async fn keep_sessions(&self) {
        let Some(path) = self.guided_nodes().cloned() else { return };
        let mut took = Duration::ZERO;
        while !self.uses.records.is_stopping() {
            tokio::select! {
                () = path.news(took) => {}
                () = self.uses.records.stopped() => return,
            }
            let began = Instant::now();
            let changed = path.changed().await;
            took = began.elapsed();
            for (session_id, tenant) in changed {
                self.look_into(&path, &tenant, &session_id).await;
            }
        }
    }

    /// Reports the result of a session to every node that waits for it, if the session has ended.
    async fn look_into(&self, path: &GuidedNodes, tenant: &Tenant, session_id: &str) {
        let looked = {
            let (path, tenant, session_id) = (path.clone(), tenant.to_owned(), session_id.to_owned());
            tokio::spawn(async move { path.result(&tenant, &session_id).await }).await
        };
        let outcome = match looked {
            Ok(Ok(None)) => return,
            Ok(Ok(Some(result))) => Ok(result),
            Ok(Err(Trouble::Failed(failure))) => Err(failure),
            Ok(Err(Trouble::Later(cause))) => {
                tracing::warn!(
                    session.id = session_id,
                    cause = causes(&cause),
                    "a session could not be read; retrying"
                );
                path.look_again(session_id);
                return;
            }
            Err(error) => {
                tracing::error!(
                    session.id = session_id,
                    cause = causes(&error),
                    "a session could not be read; retrying"
                );
                path.look_again(session_id);
                return;
            }
        };
        for waiter in path.waiters(session_id) {
            self.report_end(&waiter.run_id, &waiter.node_id, session_id, outcome.clone()).await;
            // A paused run asks again when it resumes.
            path.forget(session_id, &waiter.run_id, &waiter.node_id);
        }
        path.release(tenant, session_id).await;
    }

    /// Marks a session that no run waits for any more. Returns whether that succeeded; otherwise the timer loop retries.
    pub(super) async fn end_guide(
        &self,
        run_id: &RunId,
        tenant: &Tenant,
        node_id: &NodeId,
        session_id: &str,
    ) -> bool {
        if let Some(path) = self.guided_nodes().cloned() {
            let status = match self.uses.records.store().run(None, run_id).await {
                Ok(Some(row)) => row.status.as_str().to_owned(),
                Ok(None) => "unknown".to_owned(),
                Err(error) => return unmarked(run_id, session_id, &error),
            };
            let ended = Ended { run_id: run_id.to_owned(), node_id: node_id.to_owned(), run_status: status };
            let marked = {
                let (tenant, session_id) = (tenant.to_owned(), session_id.to_owned());
                tokio::spawn(async move { path.end(&tenant, &session_id, &ended).await }).await
            };
            match marked {
                // A session that cannot be read has no next step.
                Ok(Ok(()) | Err(Trouble::Failed(_))) => {}
                Ok(Err(Trouble::Later(cause))) => return unmarked(run_id, session_id, &cause),
                Err(error) => return unmarked(run_id, session_id, &error),
            }
        }
        let clear = Change::ClearTimer { run_id: run_id.to_owned(), key: end_key(node_id, session_id) };
        match self.uses.records.commit(vec![clear]).await {
            Ok(()) => true,
            Err(error) => unmarked(run_id, session_id, &error),
        }
    }

    /// Ends a session whose end was recorded by a process that died before it could end it.
    pub(super) async fn end_guide_late(&self, run_id: &RunId, node_id: &NodeId, session_id: &str) -> bool {
        match self.uses.states.genesis_of(run_id).await {
            Ok(genesis) => self.end_guide(run_id, &genesis.tenant, node_id, session_id).await,
            Err(refusal) => unmarked(run_id, session_id, &refusal),
        }
    }
}
