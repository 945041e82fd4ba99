//! A run that begins where another was.
//!
//! A *replay* repeats the source from what was recorded of it and makes no effect. A *branch* takes the beginning of the source
//! as its own and goes its own way from there. Either way the source is only read.

use std::sync::Arc;

use flow::definition::Definition;
use flow::engine::replay::{Source, replay};
use flow::engine::{Decision, Input, decide};
use flow::event::Event;
use flow::id::{RunId, Shard};
use flow::options::{check_configurable, check_labels, drop_unset};
use flow::run::{Fork, ForkMode, Genesis, RunStatus};
use flow::state::RunState;
use flow::store::{Cause, CommitError, RunRow};
use serde_json::{Map, Value, json};

use super::create::{BeginError, created, told};
use super::live::{genesis_in, is_long};
use super::{ApiCode, Caller, Keyed, Refusal, Reply, Runs, new_run_id, no_entropy, whole};

/// What a caller asks for.
struct Request {
    mode: ForkMode,
    from: u64,
    overlay: Overlay,
}

#[derive(Default)]
struct Overlay {
    configurable: Option<Map<String, Value>>,
    tags: Option<Vec<Value>>,
    metadata: Option<Map<String, Value>>,
}

impl Runs {
    /// Forks a run.
    ///
    /// # Errors
    /// When there is no such run, the request is not as it has to be, or the place is not in the log.
    pub async fn fork(
        &self,
        caller: &Caller,
        run_id: &RunId,
        body: &Value,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        let _place = self.admit()?;
        let request = Request::read(body)?;
        loop {
            if let Some(reply) = self.replay(keyed)? {
                return Ok(reply);
            }
            let row = self.visible(caller, run_id)?;
            // The log may grow meanwhile: what was there at the first look is what is forked.
            request.fits(&row)?;
            let (definition, genesis) = self.forked(&row, &request, keyed.map(Keyed::shard))?;
            match self.begin_fork(caller, &definition, genesis, &row, &request, keyed).await {
                Err(BeginError::Commit(CommitError::KeyTaken)) => {}
                Err(error) => return Err(error.into()),
                Ok(reply) => return Ok(reply),
            }
        }
    }

    /// The facts of the new run: those of the source, but for what the overlay says.
    fn forked(
        &self,
        row: &RunRow,
        request: &Request,
        shard: Option<Shard>,
    ) -> Result<(Arc<Definition>, Genesis), Refusal> {
        let source = genesis_in(row)?;
        let definition = self.pinned_by(&source)?;
        let now = self.now();
        let run_id = new_run_id(now.0, shard, &*self.inner.options.entropy).map_err(no_entropy)?;
        let mut genesis = Genesis {
            run_id,
            // A fork stands in nobody's way, and calls nobody about what was recorded.
            scope_id: None,
            callback_url: source.callback_url.clone().filter(|_| request.mode == ForkMode::Branch),
            fork: Some(Fork {
                source_run_id: source.run_id.clone(),
                from_sequence: request.from,
                mode: request.mode,
            }),
            created_at: now,
            // A trace of its own, with a link to that of the source.
            trace: None,
            ..source
        };
        if let Some(given) = &request.overlay.configurable {
            self.refuse_credential(given)?;
        }
        request.overlay.lay_over(&definition, &self.providers(), &mut genesis)?;
        Ok((definition, genesis))
    }

    async fn begin_fork(
        &self,
        caller: &Caller,
        definition: &Arc<Definition>,
        genesis: Genesis,
        row: &RunRow,
        request: &Request,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, BeginError> {
        let run_id = genesis.run_id.clone();
        let source_run_id = row.run_id.clone();
        let mut changes = vec![created(&genesis, false)];
        let (runs, definition_of, source) = (self.clone(), Arc::clone(definition), source_run_id.clone());
        let (mode, from, end) = (request.mode, request.from, row.next_sequence);
        let work = move || {
            // The log may grow meanwhile: what was there at the first look is what is forked.
            let mut events = runs.events(&source, 0)?;
            events.retain(|event| event.sequence < end);
            runs.decide_fork(&definition_of, genesis, &source, &events, mode, from)
        };
        let decided = match is_long(row) {
            true => self.beside(&caller.tenant, work).await?,
            false => work(),
        };
        let (copied, state, decision) = decided?;
        if request.mode == ForkMode::Branch {
            changes.extend(self.inherit(definition, &state, &source_run_id)?);
        }
        changes.push(self.audited(
            caller,
            "run.fork",
            &json!({"runId": run_id, "sourceRunId": source_run_id, "fromSeq": request.from, "mode": request.mode}),
        ));
        let status = if state.status.is_terminal() { RunStatus::Running } else { state.status };
        let reply = Reply::new(
            201,
            &json!({
                "runId": run_id,
                "sourceRunId": source_run_id,
                "fromSeq": request.from,
                "mode": request.mode,
                "status": status,
                "eventsUrl": format!("{}/v1/runs/{run_id}/events", self.public_url()),
            }),
        );
        changes.extend(self.record(keyed, &reply));
        self.copy(definition, &state, &copied, &mut changes);
        let outcome = self.outcome(definition, &state, decision, &mut changes);
        self.make_new(definition, state, changes, outcome).await?;
        Ok(reply)
    }

    /// What the fork has of the source, the state that it comes to, and what it adds.
    fn decide_fork(
        &self,
        definition: &Arc<Definition>,
        genesis: Genesis,
        source_run_id: &RunId,
        events: &[Event],
        mode: ForkMode,
        from: u64,
    ) -> Result<(Vec<Event>, RunState, Decision), BeginError> {
        let run_id = genesis.run_id.clone();
        let source = Source { run_id: source_run_id, events };
        let copied = source.copied(&run_id, from);
        let now = self.now();
        match mode {
            ForkMode::Replay => {
                let exists = self.children_of_tenant(&genesis.tenant);
                let genesis = Arc::new(genesis);
                let (state, decision) =
                    replay(definition, genesis, source, from, now, self.limits(), &exists);
                Ok((copied, state, decision))
            }
            ForkMode::Branch => {
                let mut state = RunState::fold(definition, Arc::new(genesis), &copied)
                    .map_err(|error| CommitError::Store(Cause::new(error)))?;
                let exists = self.children_of(&state);
                let decision = decide(definition, &mut state, Input::Fork, now, self.limits(), &exists)
                    .map_err(BeginError::Refused)?;
                Ok((copied, state, decision))
            }
        }
    }
}

impl Request {
    fn read(body: &Value) -> Result<Self, Refusal> {
        let wrong = |field: &str, message: &str| {
            Refusal::new(ApiCode::ValidationError, format!("`{field}` {message}")).detail("field", field)
        };
        let known = ["mode", "fromSeq", "runOptionsOverlay"];
        let Some(body) = body.as_object().filter(|body| body.keys().all(|name| known.contains(&&**name)))
        else {
            return Err(wrong("body", "has to be an object with `mode` and no unknown members")
                .detail("known", known.to_vec()));
        };
        let mode = match body.get("mode").and_then(Value::as_str) {
            Some("replay") => ForkMode::Replay,
            Some("branch") => ForkMode::Branch,
            _ => {
                return Err(
                    wrong("mode", "is replay or branch").detail("supported", json!(["replay", "branch"]))
                );
            }
        };
        let from = match (body.get("fromSeq"), mode) {
            (None | Some(Value::Null), ForkMode::Replay) => 0,
            (None | Some(Value::Null), ForkMode::Branch) => {
                return Err(wrong("fromSeq", "is required for a branch: the first event that is done again"));
            }
            (Some(from), _) => {
                whole(from).ok_or_else(|| wrong("fromSeq", "has to be a whole number from 0 on"))?
            }
        };
        let overlay = Overlay::read(body.get("runOptionsOverlay"))?;
        if mode == ForkMode::Replay && !overlay.is_empty() {
            return Err(wrong(
                "runOptionsOverlay",
                "is for a branch; a replay has the options of its source",
            ));
        }
        Ok(Self { mode, from, overlay })
    }

    /// Whether the place is one of the source. A run that goes on can be forked at its end, where nothing is done again.
    fn fits(&self, row: &RunRow) -> Result<(), Refusal> {
        let end =
            if row.status.is_terminal() { row.next_sequence.saturating_sub(1) } else { row.next_sequence };
        if self.from <= end {
            return Ok(());
        }
        let message = format!("`fromSeq` is beyond the log of the run, which can be forked up to {end}");
        Err(Refusal::new(ApiCode::Unprocessable, message)
            .detail("sourceRunId", row.run_id.as_str())
            .detail("fromSeq", self.from))
    }
}

impl Overlay {
    fn read(value: Option<&Value>) -> Result<Self, Refusal> {
        let wrong = || {
            let message = "`runOptionsOverlay` is an object with `configurable` (object), `tags` (list of texts) and `metadata` (object)";
            Refusal::new(ApiCode::ValidationError, message).detail("field", "runOptionsOverlay")
        };
        let mut overlay = Self::default();
        let members = match value {
            None | Some(Value::Null) => return Ok(overlay),
            Some(Value::Object(members)) => members,
            Some(_) => return Err(wrong()),
        };
        for (name, value) in members {
            match (name.as_str(), value) {
                ("configurable" | "tags" | "metadata", Value::Null) => {}
                ("configurable", Value::Object(given)) => {
                    let mut given = given.clone();
                    drop_unset(&mut given);
                    overlay.configurable = Some(given);
                }
                ("metadata", Value::Object(given)) => overlay.metadata = Some(given.clone()),
                ("tags", Value::Array(given)) => overlay.tags = Some(given.clone()),
                _ => return Err(wrong()),
            }
        }
        Ok(overlay)
    }

    fn is_empty(&self) -> bool {
        self.configurable.as_ref().is_none_or(Map::is_empty)
            && self.tags.as_ref().is_none_or(Vec::is_empty)
            && self.metadata.as_ref().is_none_or(Map::is_empty)
    }

    /// Members of the overlay win over those of the source; a list of tags takes the place of the other.
    fn lay_over(
        &self,
        definition: &Definition,
        providers: &[&str],
        genesis: &mut Genesis,
    ) -> Result<(), Refusal> {
        genesis.configurable.extend(self.configurable.iter().flatten().map(owned));
        genesis.metadata.extend(self.metadata.iter().flatten().map(owned));
        let tags = self.tags.clone();
        let tags = tags.unwrap_or_else(|| genesis.tags.iter().map(|tag| tag.as_str().into()).collect());
        let mut problems = Vec::new();
        check_configurable(definition, &genesis.configurable, providers, &mut problems);
        check_labels(&tags, &genesis.metadata, &mut problems);
        if let Some(first) = problems.first() {
            let refusal = Refusal::new(ApiCode::ValidationError, first.to_string());
            return Err(refusal.detail("fields", told(&problems)));
        }
        genesis.tags = tags.iter().filter_map(|tag| tag.as_str().map(str::to_owned)).collect();
        Ok(())
    }
}

fn owned((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}
