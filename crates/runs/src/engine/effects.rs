//! Performs the effects of runs: children, activities and guided nodes.
//!
//! # Order
//! * Effects are performed after the commit of the decision that requested them.
//! * The calls of one decision run concurrently, each in its own task, so that a slow model does not delay the rest of its run.
//!   The concurrency is limited for each run and for the host; see `work_limits.rs`. Results are appended in the order in which
//!   the calls end. Identities do not depend on that order: the identity of a call, the id of a child and the number of an
//!   attempt follow from the content of the run.
//! * Starting and cancelling children, ending the wait for a session and notifying the parent happen in the order of the
//!   decision, and do not wait for calls.
//! * A call gets a work permit before it is claimed, and is claimed before it is made. So a claim without a record means that the
//!   call may have been made; it never means that the call waited for a permit. The record of a call and the events that follow
//!   from it are one commit.
//! * A call that waits for a permit is not made if its run ends meanwhile or the host shuts down. In the second case, the next
//!   recovery requests it again.

use executors::ledger::{Claim, Entry, Ledger, Unwritable, Wanted};
use executors::reach::Reach;
use executors::{NodeRequest, Performed, not_served, recorded};
use flow::engine::limits::MAX_CHILD_DEPTH;
use flow::engine::{Activity, ActivityRequest, Effect, Input, StartChild};
use flow::failure::FailureCode;
use flow::id::{EffectId, NodeId, Principal, RunId, Tenant};
use flow::run::{Genesis, RunStatus};
use flow::state::{RunError, RunState};
use ports::runs::{Bytes, Change, ClaimedEffect, CommitError, Reached};
use serde_json::{Map, Value, json};
use system::backoff::{Backoff, millis};
use system::causes;
use tracing::{Instrument as _, Span, debug_span};

use super::Engine;
use super::begin::{BeginError, genesis_of_child};
use super::progress::ProgressReports;
use super::recorder::DecisionOutcome;
use super::work_limits::WorkPermit;
use crate::{Direct, Refusal};

impl Engine {
    /// Performs the effects of a decision, and notifies the parent of a run that ended. Returns when the host's own part is done;
    /// calls may still be in progress.
    pub(super) async fn make(&self, outcome: DecisionOutcome) {
        let (run_id, tenant) = (&outcome.run_id, &outcome.tenant);
        let (calls, own): (Vec<_>, Vec<_>) =
            outcome.effects.into_iter().partition(|effect| matches!(effect, Effect::Activity(_)));
        for effect in calls.into_iter().chain(own) {
            match effect {
                Effect::Activity(activity) => {
                    let (engine, run_id, tenant) = (self.clone(), run_id.clone(), tenant.clone());
                    let span = effect_span(&run_id, &activity);
                    let work = async move {
                        engine.insist(&run_id, || engine.perform(&run_id, &tenant, &activity)).await;
                    };
                    tokio::spawn(work.instrument(span));
                }
                Effect::StartChild(child) => {
                    self.insist(run_id, || self.start_child(run_id, tenant, &child)).await;
                }
                Effect::CancelChild { run_id: child } => self.cancel_child(run_id, &child).await,
                Effect::Guide(guide) => self.guide(run_id, tenant, *guide),
                Effect::EndGuide { node_id, session_id } => {
                    self.end_guide(run_id, tenant, &node_id, &session_id).await;
                }
                // Already part of the commit.
                Effect::InterruptRaised { .. }
                | Effect::InterruptClosed { .. }
                | Effect::SetTimer { .. }
                | Effect::ClearTimer { .. }
                | Effect::StoreArtifact { .. } => {}
            }
        }
        if let Some(ended) = outcome.ended {
            self.notify_parent(&ended).await;
        }
    }

    /// Gives a run an input for which no caller waits.
    pub(super) async fn give(&self, run_id: &RunId, input: Input) {
        let act = || async { self.advance_boxed(run_id, input.clone(), Vec::new()).await };
        self.insist(run_id, act).await;
    }

    /// Retries with backoff until success or a permanent refusal: the input came too late, or the run was deleted. While the store
    /// fails, this is the only retry. What a shutdown leaves undone is done by the next recovery.
    pub(super) async fn insist<F: Future<Output = Result<(), Refusal>>>(
        &self,
        run_id: &RunId,
        act: impl Fn() -> F,
    ) {
        let mut backoff = Backoff::new();
        while let Err(refusal) = act().await {
            if !refusal.is_host_failure() {
                return;
            }
            let (attempt, pause) = backoff.failed();
            tracing::warn!(
                run.id = run_id.as_str(),
                attempt,
                retry_in_ms = millis(pause),
                cause = causes(&refusal),
                "a run could not be advanced; retrying",
            );
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.uses.records.stopped() => return,
            }
        }
    }

    /// [`Engine::advance`], boxed, because the effects of an input can advance another run recursively.
    fn advance_boxed<'a>(
        &'a self,
        run_id: &'a RunId,
        input: Input,
        changes: Vec<Change>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send + 'a>> {
        Box::pin(async move { self.advance(run_id, input, changes, &Direct, |_| ()).await })
    }

    /// Starts a child. This is idempotent: the id of the child is derived, so a second start finds the first.
    async fn start_child(
        &self,
        parent_id: &RunId,
        tenant: &Tenant,
        child: &StartChild,
    ) -> Result<(), Refusal> {
        if self.work.newborn.contains(&child.run_id, parent_id) {
            let begun = self.advance_boxed(&child.run_id, Input::Create, Vec::new()).await;
            // After a failure of the store, the child is begun again.
            if begun.as_ref().err().is_none_or(|refusal| !refusal.is_host_failure()) {
                self.work.newborn.remove(&child.run_id, parent_id);
            }
            begun?;
            return self.end_if_unwanted(parent_id, &child.run_id).await;
        }
        let refuse = |code: FailureCode, message: &str| Input::ChildRefused {
            run_id: child.run_id.clone(),
            error: RunError::of(code, message),
        };
        if child.parent.depth > MAX_CHILD_DEPTH {
            let message = format!(
                "child runs can be nested at most {MAX_CHILD_DEPTH} levels deep; a workflow must not start \
                 itself endlessly"
            );
            self.give(parent_id, refuse(FailureCode::RecursionLimitExceeded, &message)).await;
            return Ok(());
        }
        let Some(definition) = self.uses.definitions.newest_of(tenant, &child.workflow_id).await? else {
            let message = "the workflow that the node names was not found";
            let input = refuse(FailureCode::UnknownChildWorkflow, message);
            self.give(parent_id, input).await;
            return Ok(());
        };
        let parent = self.uses.records.store().run(None, parent_id).await?.ok_or_else(Refusal::no_run)?;
        let parent: Genesis = serde_json::from_slice(&parent.genesis).map_err(|_| Refusal::no_run())?;
        let genesis = genesis_of_child(&self.uses, &parent, child, &definition);
        match self.begin(&definition, genesis, false, Vec::new(), &Direct, |_| ()).await {
            Err(BeginError::Commit(CommitError::RunExists { .. })) => {
                self.await_child(parent_id, &child.run_id).await
            }
            Err(BeginError::Refused(refusal)) => {
                self.give(parent_id, refuse(FailureCode::ChildFailed, &refusal.to_string())).await;
                Ok(())
            }
            Err(error @ (BeginError::Host(_) | BeginError::Commit(_))) => Err(error.into()),
            Ok(()) => self.end_if_unwanted(parent_id, &child.run_id).await,
        }
    }

    /// Cancels a child that was just started, if it is no longer needed: during its start, the join may have completed without it, or
    /// the parent may have ended.
    async fn end_if_unwanted(&self, parent_id: &RunId, child_id: &RunId) -> Result<(), Refusal> {
        if self.uses.states.gave_up(parent_id, child_id).await {
            self.give(child_id, parent_cancelled(parent_id)).await;
        }
        Ok(())
    }

    /// Cancels a child of this run. A fork shares the children that its source started, and does not cancel them.
    async fn cancel_child(&self, parent_id: &RunId, run_id: &RunId) {
        if !self.is_child(parent_id, run_id).await {
            return;
        }
        self.give(run_id, parent_cancelled(parent_id)).await;
    }

    async fn is_child(&self, parent_id: &RunId, run_id: &RunId) -> bool {
        let Ok(Some(row)) = self.uses.records.store().run(None, run_id).await else { return false };
        let genesis = serde_json::from_slice::<Genesis>(&row.genesis);
        genesis.is_ok_and(|genesis| genesis.parent.is_some_and(|parent| parent.run_id == *parent_id))
    }

    /// Notifies a run of the end of a child that already existed. A child in progress notifies its own parent when it ends. For a
    /// fork of the parent, the child is watched here.
    async fn await_child(&self, parent_id: &RunId, run_id: &RunId) -> Result<(), Refusal> {
        let loaded = self.uses.states.load(run_id).await?;
        if loaded.state.status.is_terminal() {
            self.give(parent_id, ended(&loaded.state)).await;
            return Ok(());
        }
        self.notify_waiting(parent_id, run_id).await;
        if !self.is_child(parent_id, run_id).await {
            let mut following = self
                .uses
                .states
                .follow(&loaded.state.genesis.tenant, run_id, loaded.state.next_sequence)
                .await?;
            let (engine, parent_id, run_id) = (self.clone(), parent_id.to_owned(), run_id.to_owned());
            tokio::spawn(async move {
                // Events between the load and the subscription are in the store.
                while matches!(following.stored().await, Ok(Some(_))) {}
                loop {
                    tokio::select! {
                        batch = following.next() => match batch {
                            Ok(Some(_)) => engine.notify_waiting(&parent_id, &run_id).await,
                            _ => break,
                        },
                        () = engine.uses.records.stopped() => return,
                    }
                }
                if let Ok(loaded) = engine.uses.states.load(&run_id).await
                    && loaded.state.status.is_terminal()
                {
                    engine.give(&parent_id, ended(&loaded.state)).await;
                }
            });
        }
        Ok(())
    }

    async fn notify_parent(&self, child: &RunState) {
        let Some(parent) = &child.genesis.parent else { return };
        self.give(&parent.run_id, ended(child)).await;
    }

    /// Performs an effect under its identity: claims it, performs it, records the result, and only then gives the result to the node.
    async fn perform(&self, run_id: &RunId, tenant: &Tenant, activity: &Activity) -> Result<(), Refusal> {
        let id = &activity.logical_invocation_id;
        let _turn = self.work.one_by_one.turn(id).await;
        // Held until the outcome is recorded, because shutdown waits for that.
        let _place = match &activity.request {
            ActivityRequest::Call(_) => match self.place_at_work(run_id, &activity.node_id).await {
                Some(place) => Some(place),
                None => return Ok(()),
            },
            ActivityRequest::SecretFingerprint { .. } | ActivityRequest::Count { .. } => None,
        };
        let kept = self.kept_of(activity).await?;
        let reached = match &activity.request {
            ActivityRequest::Call(call) => reached(Reach::of_node(call, id), &activity.node_id),
            ActivityRequest::SecretFingerprint { .. } | ActivityRequest::Count { .. } => None,
        };
        let claim = Change::ClaimEffect {
            id: id.clone(),
            run_id: run_id.to_owned(),
            at: self.uses.records.now(),
            reached,
        };
        let progress_reports = ProgressReports::new(self, run_id, activity);
        let (performed, record) = match self.uses.records.commit(vec![claim]).await {
            Ok(()) => {
                let begun = self.uses.records.now();
                let performed =
                    self.carry_out(tenant, activity, false, kept.as_ref(), &progress_reports).await;
                self.work.counters.activity(self.uses.records.now().since(begun));
                (performed, true)
            }
            Err(CommitError::EffectClaimed) => {
                progress_reports.may_be_recorded();
                match self.uses.records.store().effect(id).await? {
                    Some(ClaimedEffect::Finished(recorded)) => {
                        let mut performed = recorded::read(&recorded);
                        // A further attempt finds the failure of the first. The reports of the first attempt were delivered then.
                        if performed.outcome.is_err() && is_another_attempt(activity) {
                            performed.reports.clear();
                        }
                        (performed, false)
                    }
                    // Claimed, but the host ended before the result was recorded, or the claim was deleted meanwhile.
                    Some(ClaimedEffect::Unfinished { .. }) | None => {
                        (self.carry_out(tenant, activity, true, kept.as_ref(), &progress_reports).await, true)
                    }
                }
            }
            Err(error) => return Err(error.into()),
        };
        let record = record.then(|| {
            let mut outcome = recorded::write(&performed);
            self.uses.records.secrets().redact_known(tenant, &mut outcome);
            Change::FinishEffect { id: id.clone(), outcome: outcome.to_string().into_bytes().into() }
        });
        let reports = match progress_reports.rest_of(performed.reports).await {
            Ok(reports) => reports,
            // Record the result before the reports are retried, so that an unreadable log does not repeat the effect.
            Err(refusal) => {
                self.uses.records.commit(record.into_iter().collect()).await?;
                return Err(refusal);
            }
        };
        let input = Input::ActivityDone {
            node_id: activity.node_id.clone(),
            ordinal: activity.ordinal,
            reports,
            outcome: performed.outcome,
        };
        // One commit with the events that follow from the result.
        self.advance_boxed(run_id, input, record.into_iter().collect()).await
    }

    /// Acquires a work permit for a call of a run. `None` if the call must not be made, because its run ended meanwhile or the host
    /// shuts down.
    async fn place_at_work(&self, run_id: &RunId, node_id: &NodeId) -> Option<WorkPermit<'_>> {
        let place = tokio::select! {
            biased;
            () = self.uses.records.stopped() => None,
            place = self.work.places.take(run_id) => place,
        };
        match Ledger::is_wanted(&Book { engine: self, run_id, node_id }).await {
            true => place,
            false => None,
        }
    }

    /// The recorded result of the effect that this one resumes.
    async fn kept_of(&self, activity: &Activity) -> Result<Option<Value>, Refusal> {
        let ActivityRequest::Call(call) = &activity.request else { return Ok(None) };
        let Some(resumption) = &call.resumption else { return Ok(None) };
        let recorded =
            self.uses.records.store().effect(&resumption.invocation).await?.and_then(ClaimedEffect::finished);
        Ok(recorded.and_then(|recorded| recorded::read(&recorded).outcome.ok()))
    }

    async fn carry_out(
        &self,
        tenant: &Tenant,
        activity: &Activity,
        again: bool,
        kept: Option<&Value>,
        progress_reports: &ProgressReports<'_>,
    ) -> Performed {
        match &activity.request {
            ActivityRequest::SecretFingerprint { secret_id } => {
                Performed::plain(self.uses.records.secrets().fingerprint(tenant, secret_id))
            }
            ActivityRequest::Count { name } => Performed::plain(Ok(json!({"counter": name, "count": 1}))),
            ActivityRequest::Call(call) => {
                let run_id = progress_reports.run_id;
                let asked = NodeRequest {
                    tenant,
                    run_id,
                    node_id: &activity.node_id,
                    invocation: &activity.logical_invocation_id,
                    again,
                    now: self.uses.records.now(),
                    call,
                    saved_state: kept,
                    ledger: &Book { engine: self, run_id, node_id: &activity.node_id },
                    listener: progress_reports,
                };
                match self.uses.features.executors() {
                    Some(executors) => executors.perform(asked).await,
                    None => Performed::plain(Err(not_served(&call.type_id))),
                }
            }
        }
    }
}

fn is_another_attempt(activity: &Activity) -> bool {
    attempt(activity) > 0
}

fn attempt(activity: &Activity) -> u32 {
    match &activity.request {
        ActivityRequest::Call(call) => call.attempt,
        ActivityRequest::SecretFingerprint { .. } | ActivityRequest::Count { .. } => 0,
    }
}

/// Names the effect by its ids only: inputs, configuration and results may hold secrets.
fn effect_span(run_id: &RunId, activity: &Activity) -> Span {
    debug_span!(
        "run.effect",
        run.id = run_id.as_str(),
        node.id = activity.node_id.as_str(),
        effect.id = activity.logical_invocation_id.as_str(),
        attempt = attempt(activity)
    )
}

/// What the store keeps of what an effect reaches.
fn reached(reach: Reach<'_>, node_id: &NodeId) -> Option<Reached> {
    match reach {
        Reach::Nothing => None,
        Reach::Outside { provider_key } => {
            Some(Reached { node_id: node_id.clone(), provider_key: provider_key.map(str::to_owned) })
        }
    }
}

/// The ledger of the work of a run, in the store of runs.
struct Book<'a> {
    engine: &'a Engine,
    run_id: &'a RunId,
    node_id: &'a NodeId,
}

impl Book<'_> {
    fn claim_of(&self, id: &str, reach: Reach<'_>) -> Change {
        Change::ClaimEffect {
            id: EffectId::new(id),
            run_id: self.run_id.to_owned(),
            at: self.engine.uses.records.now(),
            reached: reached(reach, self.node_id),
        }
    }

    /// The work is aborted because the store failed. The cause is only logged; the node does not see it.
    fn unwritable(&self, error: &(dyn std::error::Error + 'static)) -> Unwritable {
        tracing::warn!(
            run.id = self.run_id.as_str(),
            cause = causes(error),
            "a part of the work of a node could not be recorded"
        );
        Unwritable
    }
}

impl Ledger for Book<'_> {
    fn is_wanted(&self) -> Wanted<'_> {
        Box::pin(async move {
            // If the store cannot be read, the run is assumed to continue.
            let row = self.engine.uses.records.store().run(None, self.run_id).await;
            row.map_or(true, |row| row.is_some_and(|row| !row.status.is_terminal()))
        })
    }

    fn claim<'a>(&'a self, id: &'a str, reach: Reach<'a>) -> Entry<'a, Claim> {
        Box::pin(async move {
            let claim = self.claim_of(id, reach);
            match self.engine.uses.records.commit(vec![claim]).await {
                Ok(()) => Ok(Claim::New),
                Err(CommitError::EffectClaimed) => {
                    match self.engine.uses.records.store().effect(&EffectId::new(id)).await {
                        Ok(Some(ClaimedEffect::Finished(recorded))) => Ok(Claim::Done(recorded)),
                        Ok(Some(ClaimedEffect::Unfinished { .. }) | None) => Ok(Claim::Unknown),
                        Err(error) => Err(self.unwritable(&error)),
                    }
                }
                Err(error) => Err(self.unwritable(&error)),
            }
        })
    }

    fn retry<'a>(&'a self, id: &'a str) -> Entry<'a, ()> {
        Box::pin(async move {
            let id = EffectId::new(id);
            let known = self
                .engine
                .uses
                .records
                .store()
                .effect(&id)
                .await
                .map_err(|error| self.unwritable(&error))?;
            let attempt = match known {
                Some(ClaimedEffect::Unfinished { attempt }) => attempt + 1,
                // Another host finished it, or its run was deleted.
                Some(ClaimedEffect::Finished(_)) | None => return Err(Unwritable),
            };
            let retry = Change::RetryEffect { id, attempt, at: self.engine.uses.records.now() };
            self.engine.uses.records.commit(vec![retry]).await.map_err(|error| self.unwritable(&error))
        })
    }

    fn release<'a>(&'a self, id: &'a str) -> Entry<'a, ()> {
        Box::pin(async move {
            let release = Change::ReleaseEffect { id: EffectId::new(id) };
            self.engine.uses.records.commit(vec![release]).await.map_err(|error| self.unwritable(&error))
        })
    }

    fn recall<'a>(&'a self, id: &'a str) -> Entry<'a, Option<Bytes>> {
        Box::pin(async move {
            let recorded = self.engine.uses.records.store().effect(&EffectId::new(id)).await;
            let recorded = recorded.map_err(|error| self.unwritable(&error))?;
            Ok(recorded.and_then(ClaimedEffect::finished))
        })
    }

    fn note<'a>(&'a self, id: &'a str, noted: Vec<u8>) -> Entry<'a, Option<Bytes>> {
        Box::pin(async move {
            let claim = self.claim_of(id, Reach::Nothing);
            let finish = Change::FinishEffect { id: EffectId::new(id), outcome: noted.into() };
            match self.engine.uses.records.commit(vec![claim, finish]).await {
                Ok(()) => Ok(None),
                Err(CommitError::EffectClaimed) => self.recall(id).await,
                Err(error) => Err(self.unwritable(&error)),
            }
        })
    }

    fn finish<'a>(&'a self, id: &'a str, outcome: Vec<u8>) -> Entry<'a, ()> {
        Box::pin(async move {
            let finish = Change::FinishEffect { id: EffectId::new(id), outcome: outcome.into() };
            self.engine.uses.records.commit(vec![finish]).await.map_err(|error| self.unwritable(&error))
        })
    }
}

/// The input that cancels a run on behalf of its parent.
pub(super) fn parent_cancelled(parent_id: &RunId) -> Input {
    Input::Cancel {
        reason: Some("parent-cancelled".to_owned()),
        by: Principal::new("parent"),
        parent_run_id: Some(parent_id.to_owned()),
    }
}

/// The input that reports the end of a run to its parent.
fn ended(child: &RunState) -> Input {
    let completed = child.status == RunStatus::Completed;
    Input::ChildEnded {
        run_id: child.genesis.run_id.clone(),
        status: child.status,
        variables: if completed { child.variables.clone() } else { Map::new() },
        error: child.error.clone(),
    }
}
