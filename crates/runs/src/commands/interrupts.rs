//! Replies to interrupts, and other requests that change a run: cancel, pause, resume, assign.

use canon::time::Timestamp;
use flow::engine::{DrainPolicy, Input};
use flow::id::{InterruptId, NodeId, Principal, RunId};
use flow::interrupt::{ANONYMOUS, Via};
use flow::run::RunStatus;
use flow::state::{Interrupt, RunState};
use flow::token::{Intent, InterruptToken};
use serde_json::{Map, Value, json};

use super::Commands;
use crate::states::Loaded;
use crate::{ApiCode, Caller, Direct, Refusal, Respond};

/// An accepted reply to an interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredInterrupt {
    pub run_id: RunId,
    pub node_id: NodeId,
    /// The status of the run after the reply. The run may still wait at the same node, for replies of others.
    pub status: RunStatus,
}

/// The interrupt that a token refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenInterrupt {
    pub interrupt: Interrupt,
    pub expires_at: Timestamp,
}

/// A pause that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PausedRun {
    pub at: Option<Timestamp>,
    /// Whether nodes are still working. `run.paused` follows once they have ended.
    pub draining: bool,
}

/// What a reply refers to: a node, or one interrupt of it.
#[derive(Clone, Copy)]
struct AnswerTarget<'a> {
    run_id: &'a RunId,
    node_id: &'a NodeId,
    interrupt_id: Option<&'a InterruptId>,
    via: Via,
}

impl AnswerTarget<'_> {
    fn answered(&self, status: RunStatus) -> AnsweredInterrupt {
        AnsweredInterrupt { run_id: self.run_id.clone(), node_id: self.node_id.clone(), status }
    }
}

impl Commands {
    /// Replies to the interrupt of a node, with an API key.
    ///
    /// # Errors
    /// If nothing is pending at the node, or the reply is not valid for it.
    pub async fn resolve<R: Respond<AnsweredInterrupt>>(
        &self,
        caller: &Caller,
        run_id: &RunId,
        node_id: &NodeId,
        resume_value: Value,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let asked = AnswerTarget { run_id, node_id, interrupt_id: None, via: Via::Key };
        self.resolve_asked(caller, asked, resume_value, &respond).await
    }

    /// Replies to one specific interrupt of a node, with an API key. The node may have raised another interrupt meanwhile.
    ///
    /// # Errors
    /// Like [`Commands::resolve`], and if the interrupt is not the one that the node waits for.
    pub async fn resolve_interrupt(
        &self,
        caller: &Caller,
        run_id: &RunId,
        node_id: &NodeId,
        interrupt_id: &InterruptId,
        resume_value: Value,
    ) -> Result<AnsweredInterrupt, Refusal> {
        let asked = AnswerTarget { run_id, node_id, interrupt_id: Some(interrupt_id), via: Via::Key };
        self.resolve_asked(caller, asked, resume_value, &Direct).await
    }

    async fn resolve_asked<R: Respond<AnsweredInterrupt>>(
        &self,
        caller: &Caller,
        asked: AnswerTarget<'_>,
        resume_value: Value,
        respond: &R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.uses.records.admit()?;
        let before = self.uses.states.visible(caller, asked.run_id).await?.status;
        match self.answer(caller, asked, resume_value, respond).await {
            // The run was active when the reply arrived, so the reply lost a race and was not late.
            Err(refusal) if refusal.code == ApiCode::InterruptGone && !before.is_terminal() => {
                Err(Refusal::new(ApiCode::InterruptAlreadyResolved, "the run ended at the same moment"))
            }
            other => other,
        }
    }

    async fn answer<R: Respond<AnsweredInterrupt>>(
        &self,
        caller: &Caller,
        asked: AnswerTarget<'_>,
        resume_value: Value,
        respond: &R,
    ) -> Result<R::Response, Refusal> {
        let AnswerTarget { run_id, node_id, interrupt_id, via } = asked;
        let input = Input::Resolve {
            node_id: node_id.to_owned(),
            interrupt_id: interrupt_id.cloned(),
            resume_value: resume_value.clone(),
            by: caller.principal.clone(),
            grants: caller.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
            via,
        };
        let audit = self.uses.records.audited(
            caller,
            "interrupt.resolve",
            &json!({"runId": run_id, "nodeId": node_id}),
        );
        let result = |state: &RunState| asked.answered(state.status);
        match self.engine.advance(run_id, input, vec![audit], respond, result).await {
            // A sender with an API key that repeats an external event gets the response to the first delivery. A token can be used
            // once; its holder repeats a request with an `Idempotency-Key`.
            Err(refusal) if refusal.code == ApiCode::InterruptAlreadyResolved && via == Via::Key => {
                let loaded = self.uses.states.load(run_id).await?;
                let again = self.delivered_again(&loaded, asked, &resume_value, respond).await?;
                again.ok_or(refusal)
            }
            other => other,
        }
    }

    /// The response to an external event that was already delivered to the same interrupt. Only the reply for the request's
    /// idempotency key is recorded.
    async fn delivered_again<R: Respond<AnsweredInterrupt>>(
        &self,
        loaded: &Loaded,
        asked: AnswerTarget<'_>,
        event: &Value,
        respond: &R,
    ) -> Result<Option<R::Response>, Refusal> {
        let state = &loaded.state;
        let same = |event: &Value| state.was_delivered(asked.node_id, asked.interrupt_id, event);
        // Known secrets are removed from the event in the log.
        let is_known = same(event) || {
            let mut kept = event.clone();
            self.uses.records.secrets().redact_known(&state.genesis.tenant, &mut kept);
            same(&kept)
        };
        if !is_known {
            return Ok(None);
        }
        self.uses.records.commit_response(Vec::new(), respond, asked.answered(state.status)).await.map(Some)
    }

    /// The interrupt that a token refers to, for the holder of the token.
    ///
    /// # Errors
    /// If the token is invalid or expired, or the interrupt is no longer pending.
    pub async fn inspect_token(&self, token: &str) -> Result<TokenInterrupt, Refusal> {
        let (token, Loaded { mut state, .. }) = self.token(token).await?;
        let interrupt =
            state.interrupts.remove(&token.node_id).filter(|interrupt| interrupt.id == token.interrupt_id);
        let Some(interrupt) = interrupt else {
            return Err(Refusal::new(
                ApiCode::InterruptAlreadyResolved,
                "the interrupt was resolved, or ended with its run",
            ));
        };
        Ok(TokenInterrupt { interrupt, expires_at: Timestamp(token.expires_at) })
    }

    /// Replies to the interrupt that a token refers to.
    ///
    /// # Errors
    /// Like [`Commands::resolve`], and if the token can only inspect.
    pub async fn resolve_token<R: Respond<AnsweredInterrupt>>(
        &self,
        token: &str,
        resume_value: Value,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.uses.records.admit()?;
        // Before the interrupt is looked up, because a repeated reply finds the interrupt that it resolved itself.
        if let Some(response) = respond.replayed(&self.uses.records).await? {
            return Ok(response);
        }
        let (token, loaded) = self.token(token).await?;
        if token.intent != Intent::Resolve {
            return Err(Refusal::new(
                ApiCode::Forbidden,
                "the token can only be used to inspect the interrupt; read the run with a key that has \
                 `approvals:respond`",
            ));
        }
        let gone = || {
            Refusal::new(
                ApiCode::InterruptAlreadyResolved,
                "the interrupt was resolved, or ended with its run",
            )
        };
        let asked = AnswerTarget {
            run_id: &token.run_id,
            node_id: &token.node_id,
            interrupt_id: Some(&token.interrupt_id),
            via: Via::Token,
        };
        let state = &loaded.state;
        let pending =
            state.interrupts.get(&token.node_id).is_some_and(|interrupt| interrupt.id == token.interrupt_id);
        if !pending {
            return Err(gone());
        }
        let tenant = &state.genesis.tenant;
        if let Some(holder) = &token.holder
            && !self.keys.may_respond(tenant, holder).await?
        {
            let message = "the key that this token was issued to was revoked, has expired, or may no \
                           longer respond; request a new token with a key that has `approvals:respond`";
            return Err(Refusal::new(ApiCode::Forbidden, message));
        }
        let caller = Caller {
            tenant: tenant.clone(),
            principal: token.holder.clone().unwrap_or_else(|| Principal::new(ANONYMOUS)),
            scopes: Vec::new(),
            test: state.genesis.test,
        };
        match self.answer(&caller, asked, resume_value, &respond).await {
            Err(refusal) if refusal.code == ApiCode::InterruptGone => Err(gone()),
            other => other,
        }
    }

    async fn token(&self, text: &str) -> Result<(InterruptToken, Loaded), Refusal> {
        let token = self.tokens.verify(text)?;
        let loaded =
            self.uses.states.load(&token.run_id).await.map_err(|_| {
                Refusal::new(ApiCode::InterruptNotFound, "the run of the token no longer exists")
            })?;
        Ok((token, loaded))
    }

    /// Cancels a run and returns its status. A run that has already ended does not change.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn cancel<R: Respond<RunStatus>>(
        &self,
        caller: &Caller,
        run_id: &RunId,
        reason: Option<String>,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.uses.records.admit()?;
        let row = self.uses.states.visible(caller, run_id).await?;
        if row.status.is_terminal() {
            return self.ended_already(row.status, &respond).await;
        }
        let input = Input::Cancel { reason, by: caller.principal.clone(), parent_run_id: None };
        let audit = self.uses.records.audited(caller, "run.cancel", &json!({"runId": run_id}));
        match self.engine.advance(run_id, input, vec![audit], &respond, |state| state.status).await {
            // The run ended during the cancellation. Respond as if it had ended before.
            Err(refusal) if refusal.code == ApiCode::Conflict => {
                let row = self.uses.states.visible(caller, run_id).await?;
                if row.status.is_terminal() {
                    self.ended_already(row.status, &respond).await
                } else {
                    Err(refusal)
                }
            }
            other => other,
        }
    }

    /// The response to the cancellation of a run that has ended.
    async fn ended_already<R: Respond<RunStatus>>(
        &self,
        status: RunStatus,
        respond: &R,
    ) -> Result<R::Response, Refusal> {
        if let Some(response) = respond.replayed(&self.uses.records).await? {
            return Ok(response);
        }
        self.uses.records.commit_response(Vec::new(), respond, status).await
    }

    /// Pauses a run.
    ///
    /// # Errors
    /// If there is no such run, or it has ended.
    pub async fn pause<R: Respond<PausedRun>>(
        &self,
        caller: &Caller,
        run_id: &RunId,
        reason: Option<String>,
        policy: DrainPolicy,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.uses.records.admit()?;
        self.uses.states.visible(caller, run_id).await?;
        let audit = self.uses.records.audited(caller, "run.pause", &json!({"runId": run_id}));
        let result = |state: &RunState| {
            let requested = state.draining.as_ref().map(|draining| draining.since);
            let at = state.paused.map(|(at, _)| at).or(requested);
            PausedRun { at, draining: requested.is_some() }
        };
        self.engine.advance(run_id, Input::Pause { reason, policy }, vec![audit], &respond, result).await
    }

    /// Sets variables of a run, for conformance suites.
    ///
    /// # Errors
    /// If there is no such run, it has ended, or a name is that of a channel.
    pub async fn assign<R: Respond<()>>(
        &self,
        caller: &Caller,
        run_id: &RunId,
        variables: Map<String, Value>,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.uses.records.admit()?;
        self.uses.states.visible(caller, run_id).await?;
        // Names only: values may be sensitive.
        let names = json!({"runId": run_id, "updated": variables.keys().collect::<Vec<_>>()});
        let audit = self.uses.records.audited(caller, "run.assign", &names);
        self.engine.advance(run_id, Input::Assign { variables }, vec![audit], &respond, |_| ()).await
    }

    /// Resumes a paused run. Returns the time of the resumption.
    ///
    /// # Errors
    /// If there is no such run, or it is not paused.
    pub async fn resume<R: Respond<Timestamp>>(
        &self,
        caller: &Caller,
        run_id: &RunId,
        reason: Option<String>,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.uses.records.admit()?;
        self.uses.states.visible(caller, run_id).await?;
        let audit = self.uses.records.audited(caller, "run.resume", &json!({"runId": run_id}));
        let resumed_at = self.uses.records.now();
        self.engine.advance(run_id, Input::Resume { reason }, vec![audit], &respond, |_| resumed_at).await
    }
}
