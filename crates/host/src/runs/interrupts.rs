//! Answers to what runs wait for, and the other things that somebody may want of a run.

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::engine::{DrainPolicy, Input};
use flow::id::{InterruptId, NodeId, Principal, RunId};
use flow::interrupt::{ANONYMOUS, Via, answerable_by_token, takes_tokens};
use flow::run::RunStatus;
use flow::state::Interrupt;
use flow::store::CommitError;
use flow::token::{Intent, InterruptToken, LIFETIME_MS, TokenError};
use serde_json::{Map, Value, json};

use super::advance::Ask;
use super::live::Loaded;
use super::{ApiCode, Caller, Keyed, Refusal, Reply, Runs, Scope};

/// For how long the same interrupt gets the same token. Every token is good for at least [`LIFETIME_MS`] less this.
pub(super) const TOKEN_PERIOD_MS: u64 = LIFETIME_MS / 2;

/// What an answer is to: a node, or one interrupt of it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    run_id: &'a RunId,
    node_id: &'a NodeId,
    interrupt_id: Option<&'a InterruptId>,
    via: Via,
}

/// Whom a token is issued to.
pub(super) struct Recipient<'a> {
    pub(super) principal: &'a Principal,
    /// Whether they have `approvals:respond`.
    pub(super) may_respond: bool,
}

impl<'a> Recipient<'a> {
    pub(super) fn caller(caller: &'a Caller) -> Self {
        Self { principal: &caller.principal, may_respond: caller.may(Scope::ApprovalsRespond) }
    }

    /// A short name for what this recipient is shown. It is not secret.
    pub(super) fn tag(&self) -> String {
        let digest = Digest::of_bytes(format!("{}\0{}", self.may_respond, self.principal).as_bytes());
        digest.to_hex()[..12].to_owned()
    }
}

impl Asked<'_> {
    /// What somebody is told whose answer counts.
    fn heard(&self, status: RunStatus) -> Reply {
        Reply::new(200, &json!({"runId": self.run_id, "nodeId": self.node_id, "status": status}))
    }
}

impl Runs {
    /// Answers the interrupt of a node, with a key.
    ///
    /// # Errors
    /// When nothing waits there, or not for this.
    pub async fn resolve(
        &self,
        caller: &Caller,
        run_id: &RunId,
        node_id: &NodeId,
        resume_value: Value,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        let asked = Asked { run_id, node_id, interrupt_id: None, via: Via::Key };
        self.resolve_asked(caller, asked, resume_value, keyed).await
    }

    /// Answers one interrupt of a node and no other, with a key: what the node asks by now may be something else.
    ///
    /// # Errors
    /// As for [`Runs::resolve`], and when the interrupt is not the one that the node waits for.
    pub async fn resolve_interrupt(
        &self,
        caller: &Caller,
        run_id: &RunId,
        node_id: &NodeId,
        interrupt_id: &InterruptId,
        resume_value: Value,
    ) -> Result<Reply, Refusal> {
        let asked = Asked { run_id, node_id, interrupt_id: Some(interrupt_id), via: Via::Key };
        self.resolve_asked(caller, asked, resume_value, None).await
    }

    async fn resolve_asked(
        &self,
        caller: &Caller,
        asked: Asked<'_>,
        resume_value: Value,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        let _place = self.admit()?;
        let before = self.visible(caller, asked.run_id)?.status;
        match self.answer(caller, asked, resume_value, keyed).await {
            // The run was still there when the answer came: it lost a race, and did not come too late.
            Err(refusal) if refusal.code == ApiCode::InterruptGone && !before.is_terminal() => Err(
                Refusal::new(ApiCode::InterruptAlreadyResolved, "somebody ended the run at the same moment"),
            ),
            other => other,
        }
    }

    async fn answer(
        &self,
        caller: &Caller,
        asked: Asked<'_>,
        resume_value: Value,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        let Asked { run_id, node_id, interrupt_id, via } = asked;
        let input = Input::Resolve {
            node_id: node_id.to_owned(),
            interrupt_id: interrupt_id.cloned(),
            resume_value: resume_value.clone(),
            by: caller.principal.clone(),
            grants: caller.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
            via,
        };
        let audit = self.audited(caller, "interrupt.resolve", &json!({"runId": run_id, "nodeId": node_id}));
        let ask = Ask { keyed, changes: vec![audit] };
        let answered = self.advance(run_id, input, ask, |state, _| Ok(asked.heard(state.status))).await;
        match answered {
            // Somebody was quicker, perhaps with the same event: who sends one twice, or to be sure, is told that it arrived.
            Err(refusal) if refusal.code == ApiCode::InterruptAlreadyResolved => {
                let loaded = self.load(run_id)?;
                let again = self.delivered_again(&loaded, asked, &resume_value, keyed).await?;
                again.ok_or(refusal)
            }
            other => other,
        }
    }

    /// The answer to an event from outside that was delivered before, to the same interrupt: nothing is recorded of it but its key.
    async fn delivered_again(
        &self,
        loaded: &Loaded,
        asked: Asked<'_>,
        event: &Value,
        keyed: Option<&Keyed>,
    ) -> Result<Option<Reply>, Refusal> {
        let Loaded { definition, state } = loaded;
        let Some(place) = state.place(asked.node_id) else { return Ok(None) };
        if asked.via == Via::Token && !takes_tokens(&definition.nodes[place]) {
            return Ok(None);
        }
        let same = |event: &Value| state.was_delivered(asked.node_id, asked.interrupt_id, event);
        // The log has the event without the secrets that are known.
        let is_known = same(event) || {
            let mut kept = event.clone();
            self.redact_known(&state.genesis.tenant, &mut kept);
            same(&kept)
        };
        if !is_known {
            return Ok(None);
        }
        self.unchanged(asked.heard(state.status), keyed).await.map(Some)
    }

    /// What a token refers to, for whoever holds it.
    ///
    /// # Errors
    /// When the token is none, or its time is over, or the interrupt is.
    pub fn inspect_token(&self, token: &str) -> Result<Value, Refusal> {
        let (token, Loaded { state, .. }) = self.token(token)?;
        let interrupt =
            state.interrupts.get(&token.node_id).filter(|interrupt| interrupt.id == token.interrupt_id);
        let Some(interrupt) = interrupt else {
            return Err(Refusal::new(
                ApiCode::InterruptAlreadyResolved,
                "the interrupt was resolved, or ended with its run",
            ));
        };
        Ok(json!({
            "kind": interrupt.kind,
            "key": interrupt.key,
            "resumeSchema": interrupt.resume_schema,
            "data": interrupt.data,
            "expiresAt": Timestamp(token.expires_at).to_rfc3339(),
            "resolved": false,
        }))
    }

    /// Answers the interrupt that a token refers to.
    ///
    /// # Errors
    /// As for [`Runs::resolve`], and when the token is only for looking.
    pub async fn resolve_token(
        &self,
        token: &str,
        resume_value: Value,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        let _place = self.admit()?;
        // Asked before the interrupt is looked at: the answer that is repeated is what ended it.
        if let Some(reply) = self.replay(keyed)? {
            return Ok(reply);
        }
        let (token, loaded) = self.token(token)?;
        if token.intent != Intent::Resolve {
            return Err(Refusal::new(
                ApiCode::Forbidden,
                "the token can only be used to inspect the interrupt; read the run with a key that has `approvals:respond`",
            ));
        }
        let gone = || {
            Refusal::new(
                ApiCode::InterruptAlreadyResolved,
                "the interrupt was resolved, or ended with its run",
            )
        };
        let asked = Asked {
            run_id: &token.run_id,
            node_id: &token.node_id,
            interrupt_id: Some(&token.interrupt_id),
            via: Via::Token,
        };
        let state = &loaded.state;
        let pending =
            state.interrupts.get(&token.node_id).is_some_and(|interrupt| interrupt.id == token.interrupt_id);
        if !pending {
            let again = self.delivered_again(&loaded, asked, &resume_value, keyed).await?;
            return again.ok_or_else(gone);
        }
        let tenant = &state.genesis.tenant;
        if let Some(holder) = &token.holder
            && !self.may_respond(tenant, holder)?
        {
            let message = "the key that this token was issued to was revoked, has expired, or may not respond any more; \
                           ask for a new token with a key that has `approvals:respond`";
            return Err(Refusal::new(ApiCode::Forbidden, message));
        }
        let caller = Caller {
            tenant: tenant.clone(),
            principal: token.holder.clone().unwrap_or_else(|| Principal::new(ANONYMOUS)),
            scopes: Vec::new(),
            test: state.genesis.test,
        };
        match self.answer(&caller, asked, resume_value, keyed).await {
            Err(refusal) if refusal.code == ApiCode::InterruptGone => Err(gone()),
            other => other,
        }
    }

    fn token(&self, text: &str) -> Result<(InterruptToken, Loaded), Refusal> {
        let token =
            InterruptToken::verify(text, &self.inner.options.token_secrets, self.now()).map_err(|error| {
                match error {
                    TokenError::Unknown => {
                        Refusal::new(ApiCode::InterruptNotFound, "the token is not one of this host")
                    }
                    TokenError::Expired => Refusal::new(
                        ApiCode::InterruptExpired,
                        "the token has expired; read the run for a new one",
                    ),
                }
            })?;
        let loaded = self.load(&token.run_id).map_err(|_| {
            Refusal::new(ApiCode::InterruptNotFound, "the run of the token is not there any more")
        })?;
        Ok((token, loaded))
    }

    /// A token for an interrupt, as text, issued to a principal. A principal that could not answer with it gets one that can only inspect.
    pub(super) fn sign(&self, loaded: &Loaded, interrupt: &Interrupt, to: &Recipient<'_>) -> Option<String> {
        let secret = self.inner.options.token_secrets.first()?;
        // Counted from the beginning of the period, so that a reader who comes again gets the same token for a while.
        let now = self.now().0;
        let latest = Timestamp(now - now % TOKEN_PERIOD_MS).plus(LIFETIME_MS);
        let expires_at = interrupt.deadline.map_or(latest, |deadline| deadline.min(latest)).0;
        let node = &loaded.definition.nodes[loaded.state.place(&interrupt.node_id)?];
        let answers = to.may_respond && answerable_by_token(node, interrupt, to.principal.as_str());
        let token = InterruptToken {
            run_id: loaded.state.genesis.run_id.clone(),
            node_id: interrupt.node_id.clone(),
            interrupt_id: interrupt.id.clone(),
            expires_at,
            intent: if answers { Intent::Resolve } else { Intent::Inspect },
            holder: Some(to.principal.to_owned()),
        };
        Some(token.sign(secret))
    }

    /// Ends a run.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn cancel(
        &self,
        caller: &Caller,
        run_id: &RunId,
        reason: Option<String>,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        let _place = self.admit()?;
        let row = self.visible(caller, run_id)?;
        if row.status.is_terminal() {
            return self.ended_already(run_id, row.status, keyed).await;
        }
        let input = Input::Cancel { reason, by: caller.principal.clone(), parent_run_id: None };
        let audit = self.audited(caller, "run.cancel", &json!({"runId": run_id}));
        let cancelled = self
            .advance(run_id, input, Ask { keyed, changes: vec![audit] }, |state, _| {
                Ok(Reply::new(200, &json!({"runId": run_id, "status": state.status})))
            })
            .await;
        match cancelled {
            // It came to its end while it was asked to: that is told as if it had been so before.
            Err(refusal) if refusal.code == ApiCode::Conflict => {
                let row = self.visible(caller, run_id)?;
                if row.status.is_terminal() {
                    self.ended_already(run_id, row.status, keyed).await
                } else {
                    Err(refusal)
                }
            }
            other => other,
        }
    }

    /// The answer to a wish to end what has ended.
    async fn ended_already(
        &self,
        run_id: &RunId,
        status: RunStatus,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        if let Some(reply) = self.replay(keyed)? {
            return Ok(reply);
        }
        self.unchanged(Reply::new(200, &json!({"runId": run_id, "status": status})), keyed).await
    }

    /// An answer that changes nothing, recorded for its key like any other.
    async fn unchanged(&self, reply: Reply, keyed: Option<&Keyed>) -> Result<Reply, Refusal> {
        if let Some(answer) = self.record(keyed, &reply) {
            match self.commit(vec![answer]).await {
                Ok(()) => {}
                Err(CommitError::KeyTaken) => return Ok(self.replay(keyed)?.unwrap_or(reply)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(reply)
    }

    /// Halts a run.
    ///
    /// # Errors
    /// When there is no such run, or it is at its end.
    pub async fn pause(
        &self,
        caller: &Caller,
        run_id: &RunId,
        reason: Option<String>,
        policy: DrainPolicy,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        let _place = self.admit()?;
        self.visible(caller, run_id)?;
        let audit = self.audited(caller, "run.pause", &json!({"runId": run_id}));
        let input = Input::Pause { reason, policy };
        self.advance(run_id, input, Ask { keyed, changes: vec![audit] }, |state, _| {
            let requested = state.draining.as_ref().map(|draining| draining.since);
            let paused_at = state.paused.map(|(at, _)| at).or(requested).map(Timestamp::to_rfc3339);
            let mut body = json!({"runId": run_id, "status": RunStatus::Paused, "pausedAt": paused_at});
            // The pause is accepted, and `run.paused` follows once the nodes that work have ended.
            if requested.is_some() {
                body["draining"] = true.into();
            }
            Ok(Reply::new(202, &body))
        })
        .await
    }

    /// Gives variables of a run other values, as conformance suites do.
    ///
    /// # Errors
    /// When there is no such run, it is at its end, or a name is that of a channel.
    pub async fn assign(
        &self,
        caller: &Caller,
        run_id: &RunId,
        variables: Map<String, Value>,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        let _place = self.admit()?;
        self.visible(caller, run_id)?;
        // Names only: what is sensitive of the values is told to nobody.
        let told = json!({"runId": run_id, "updated": variables.keys().collect::<Vec<_>>()});
        let ask = Ask { keyed, changes: vec![self.audited(caller, "run.assign", &told)] };
        self.advance(run_id, Input::Assign { variables }, ask, |_, _| Ok(Reply::new(200, &told))).await
    }

    /// Lets a run go on.
    ///
    /// # Errors
    /// When there is no such run, or it is not halted.
    pub async fn resume(
        &self,
        caller: &Caller,
        run_id: &RunId,
        reason: Option<String>,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        let _place = self.admit()?;
        self.visible(caller, run_id)?;
        let audit = self.audited(caller, "run.resume", &json!({"runId": run_id}));
        let resumed_at = self.now().to_rfc3339();
        self.advance(run_id, Input::Resume { reason }, Ask { keyed, changes: vec![audit] }, |_, _| {
            Ok(Reply::new(
                202,
                &json!({"runId": run_id, "status": RunStatus::Running, "resumedAt": resumed_at}),
            ))
        })
        .await
    }
}
