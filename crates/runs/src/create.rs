//! Creates runs.

use std::sync::Arc;

use ai::provider::mock::{MockId, StreamMock, StreamMockError};
use executors::Executors;
use executors::models::Models;
use flow::definition::Definition;
use flow::engine::Input;
use flow::id::{RunId, Shard, WorkflowId};
use flow::options::{OptionProblem, check_configurable, check_inputs, check_keys, check_labels, drop_unset};
use flow::run::{Genesis, RunStatus};
use flow::state::RunState;
use flow::trace::TraceParent;
use ports::runs::{Change, CommitError};
use serde_json::{Map, Value, json};

use super::advance::refused;
use super::compute_pool::are_large;
use super::definitions::no_workflow;
use super::{ApiCode, Caller, Keyed, Refusal, Respond, Runs, random_failed};

/// Options of a creation that are not part of its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Creation {
    /// Whether to refuse the run while another run of its scope is active.
    pub exclusive: bool,
    /// The engine version that the run must use.
    pub forced_engine_version: Option<u64>,
    /// The trace context of the caller. Kept only if this host traces.
    pub trace: Option<TraceParent>,
}

/// The engine versions that a caller can force. So far there is only one.
pub const ENGINE_VERSIONS: std::ops::RangeInclusive<u64> = 1..=1;

/// A run that a caller requests.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    pub workflow_id: WorkflowId,
    pub inputs: Map<String, Value>,
    pub configurable: Map<String, Value>,
    pub tags: Vec<String>,
    pub metadata: Map<String, Value>,
    /// At most one run of a scope is active if [`Creation::exclusive`] is set.
    pub scope_id: Option<String>,
    pub callback_url: Option<String>,
}

impl NewRun {
    /// A run of a workflow, with defaults for everything else.
    pub fn of(workflow_id: WorkflowId) -> Self {
        Self {
            workflow_id,
            inputs: Map::new(),
            configurable: Map::new(),
            tags: Vec::new(),
            metadata: Map::new(),
            scope_id: None,
            callback_url: None,
        }
    }

    /// Whether validation would take so long that it delays other requests.
    fn is_large(&self) -> bool {
        are_large(self.inputs.values().chain(self.configurable.values()).chain(self.metadata.values()))
    }

    fn check(&self, definition: &Definition, providers: &[&str]) -> Result<(), Refusal> {
        let mut problems = Vec::new();
        check_keys(definition, &self.configurable, &mut problems);
        check_configurable(definition, &self.configurable, providers, &mut problems);
        check_labels(&self.tags, &self.metadata, &mut problems);
        check_inputs(definition, &self.inputs, &mut problems);
        match problems.first() {
            None => Ok(()),
            Some(first) => Err(Refusal::new(ApiCode::ValidationError, first.to_string())
                .detail("fields", problem_values(&problems))),
        }
    }
}

/// A created run, advanced until it needs time, an effect or a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedRun {
    pub run_id: RunId,
    pub status: RunStatus,
}

impl Runs {
    /// Creates a run, and advances it until it needs time, an effect or a person.
    ///
    /// # Errors
    /// If the workflow does not accept this input, or the host cannot create the run now.
    pub async fn create<R: Respond<CreatedRun>>(
        &self,
        caller: &Caller,
        new: NewRun,
        creation: Creation,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.inner.records.admit()?;
        if let Some(response) = respond.replayed(&self.inner.records).await? {
            return Ok(response);
        }
        let shard = respond.keyed().map(Keyed::shard);
        let (definition, genesis) = self.genesis_beside(caller, new, creation, shard).await?;
        let run_id = genesis.run_id.clone();
        let audit = self.inner.records.audited(
            caller,
            "run.create",
            &json!({"runId": run_id, "workflowId": definition.id}),
        );
        let created = |status| CreatedRun { run_id, status };
        match self.begin(&definition, genesis, creation.exclusive, vec![audit], &respond, created).await {
            Ok(response) => Ok(response),
            Err(BeginError::Commit(error)) => self.inner.records.settle(error, &respond).await,
            Err(error) => Err(error.into()),
        }
    }

    /// [`Runs::genesis`], on a compute thread if there is much to validate.
    async fn genesis_beside(
        &self,
        caller: &Caller,
        new: NewRun,
        creation: Creation,
        shard: Option<Shard>,
    ) -> Result<(Arc<Definition>, Genesis), Refusal> {
        let definition = self.definition(&caller.tenant, &new.workflow_id).await?.ok_or_else(no_workflow)?;
        if !new.is_large() {
            return self.genesis(caller, definition, new, creation, shard);
        }
        let (runs, asking) = (self.clone(), caller.clone());
        self.inner
            .compute
            .beside(&caller.tenant, move || runs.genesis(&asking, definition, new, creation, shard))
            .await?
    }

    fn genesis(
        &self,
        caller: &Caller,
        definition: Arc<Definition>,
        mut new: NewRun,
        creation: Creation,
        shard: Option<Shard>,
    ) -> Result<(Arc<Definition>, Genesis), Refusal> {
        drop_unset(&mut new.configurable);
        self.refuse_credential(&new.configurable)?;
        new.check(&definition, &self.inner.features.providers())?;
        if let Some(url) = &new.callback_url {
            self.inner.outbound.check(url).map_err(|error| {
                Refusal::new(ApiCode::WebhookUrlRejected, error.to_string()).detail("field", "callbackUrl")
            })?;
        }
        self.check_mock_provider(caller, new.configurable.get("mockProvider"))?;
        self.check_forced(caller, creation.forced_engine_version)?;
        let genesis = Genesis {
            run_id: new_run_id(self.inner.records.now().0, shard, self.inner.records.entropy())
                .map_err(random_failed)?,
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
            workflow_id: definition.id.clone(),
            definition: definition.digest,
            scope_id: new.scope_id,
            inputs: new.inputs,
            configurable: new.configurable,
            tags: new.tags,
            metadata: new.metadata,
            callback_url: new.callback_url,
            parent: None,
            fork: None,
            created_at: self.inner.records.now(),
            forced_engine_version: creation.forced_engine_version,
            test: caller.test,
            trace: creation.trace.filter(|_| self.is_traced()),
            trigger: None,
        };
        Ok((definition, genesis))
    }

    /// Checks that a run may use the mock provider: only if this host serves tests, and with a test key.
    fn check_mock_provider(&self, caller: &Caller, mock: Option<&Value>) -> Result<(), Refusal> {
        let Some(mock) = mock else { return Ok(()) };
        let served =
            self.inner.features.executors().and_then(Executors::models).is_some_and(Models::is_mocked);
        let (id, config) = match mock {
            Value::String(id) => (id.as_str(), &Value::Null),
            other => (
                other.get("id").and_then(Value::as_str).unwrap_or_default(),
                other.get("config").unwrap_or(&Value::Null),
            ),
        };
        let refusal = if !caller.test {
            let message = "`configurable.mockProvider` is only for test keys; remove it";
            Refusal::new(ApiCode::MockProviderForbidden, message)
        } else if served {
            match StreamMock::read(id, config) {
                Ok(_) => return Ok(()),
                Err(StreamMockError::Unknown) => {
                    Refusal::new(ApiCode::UnsupportedMockProvider, StreamMockError::Unknown.to_string())
                }
                Err(error @ StreamMockError::Config { .. }) => {
                    let refusal = Refusal::new(ApiCode::ValidationError, error.to_string());
                    return Err(refusal.detail("field", "configurable.mockProvider"));
                }
            }
        } else {
            let message = "this host has no mock providers; remove `configurable.mockProvider`";
            Refusal::new(ApiCode::UnsupportedMockProvider, message)
        };
        let supported: Vec<&str> =
            MockId::ALL.iter().filter(|_| served).map(|known| known.as_str()).collect();
        let requested: String = id.chars().take(64).collect();
        Err(refusal.detail("requestedProvider", requested).detail("supportedProviders", supported))
    }

    fn check_forced(&self, caller: &Caller, version: Option<u64>) -> Result<(), Refusal> {
        let Some(version) = version else { return Ok(()) };
        if !caller.test {
            let message = "X-Force-Engine-Version is only for test keys; create one with `interlock key \
                           new-api-key --test`";
            return Err(Refusal::new(ApiCode::ForceEngineVersionForbidden, message));
        }
        if !ENGINE_VERSIONS.contains(&version) {
            let (min, max) = (ENGINE_VERSIONS.start(), ENGINE_VERSIONS.end());
            let message = format!("X-Force-Engine-Version must be from {min} to {max}");
            let refusal = Refusal::new(ApiCode::UnsupportedForceEngineVersion, message);
            return Err(refusal.detail("supported", json!({"min": min, "max": max})));
        }
        Ok(())
    }

    /// Begins a run from its genesis, in one commit with further changes and the response.
    pub(super) async fn begin<T, R: Respond<T>>(
        &self,
        definition: &Arc<Definition>,
        genesis: Genesis,
        exclusive: bool,
        further: Vec<Change>,
        respond: &R,
        result: impl FnOnce(RunStatus) -> T,
    ) -> Result<R::Response, BeginError> {
        let mut changes = vec![created(&genesis, exclusive)];
        let state = RunState::new(definition, Arc::new(genesis));
        let (state, decision, place) = self.decide_new(definition, state, Input::Create).await?;
        let (response, recorded) = respond.respond(&self.inner.records, result(state.status));
        changes.extend(further);
        changes.extend(recorded);
        let (state, changes, outcome) =
            self.conclude_new(definition, state, decision, changes, place.as_ref()).await?;
        self.make_new(definition, state, changes, outcome).await?;
        Ok(response)
    }
}

/// Why a run did not begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum BeginError {
    /// The engine refused the run. A retry would be refused again.
    #[error("the run was refused")]
    Refused(#[source] flow::engine::Refusal),
    /// The host could not decide, or could not read what it needs.
    #[error(transparent)]
    Host(#[from] Refusal),
    /// The decision could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl From<BeginError> for Refusal {
    fn from(error: BeginError) -> Self {
        match error {
            BeginError::Refused(refusal) => refused(refusal),
            BeginError::Host(refusal) => refusal,
            BeginError::Commit(error) => error.into(),
        }
    }
}

/// The change that records the genesis of a run.
pub(super) fn created(genesis: &Genesis, exclusive: bool) -> Change {
    let record = serde_json::to_vec(genesis).expect("names are strings, so this cannot fail");
    Change::CreateRun {
        run_id: genesis.run_id.clone(),
        tenant: genesis.tenant.clone(),
        workflow_id: genesis.workflow_id.clone(),
        genesis: record.into(),
        scope_id: genesis.scope_id.clone(),
        exclusive,
        // A fork of a child is not a child: its parent does not wait for it.
        parent_run_id: genesis
            .parent
            .as_ref()
            .filter(|_| genesis.fork.is_none())
            .map(|parent| parent.run_id.clone()),
        tags: genesis.tags.clone(),
        created_at: genesis.created_at,
    }
}

pub(super) fn problem_values(problems: &[OptionProblem]) -> Vec<Value> {
    problems
        .iter()
        .take(100)
        .map(|problem| json!({"path": problem.path, "message": problem.message}))
        .collect()
}

/// A run id: 48 bits of time, so that later ids sort later, 12 bits of the shard, and 68 random bits. A run that is created with
/// an idempotency key is in the shard of that key, next to the recorded reply. Any other run is in a random shard.
///
/// # Errors
/// If the system provides no random numbers.
pub fn new_run_id(
    now_ms: u64,
    shard: Option<Shard>,
    entropy: &dyn system::Entropy,
) -> std::io::Result<RunId> {
    let mut random = [0_u8; 10];
    entropy.fill(&mut random)?;
    let random = random.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    let of_chance = || Shard::new(u16::try_from(random >> 68).unwrap_or_default());
    Ok(RunId::generate(now_ms, shard.unwrap_or_else(of_chance), random))
}

#[cfg(test)]
mod tests {
    use flow::engine::Refusal as Core;
    use ports::Cause;

    use super::*;

    /// Regression: a refused decision was reported as a failure of the store, which background work retries forever.
    #[test]
    fn a_refused_decision_is_permanent_and_a_failed_store_is_not() {
        let refused = [
            Core::NoInterrupt,
            Core::AlreadyResolved,
            Core::InterruptGone,
            Core::Conflict { status: RunStatus::Completed },
            Core::Forbidden { message: "no".into() },
            Core::Guided { session_id: "sess_1".into() },
            Core::BadAnswer { message: "no".into(), details: json!({}), semantic: true },
        ];
        for refusal in refused {
            let expected = super::super::advance::refused(refusal.clone());
            let refusal_of = Refusal::from(BeginError::Refused(refusal));
            assert_eq!(refusal_of, expected);
            assert!(!refusal_of.is_host_failure() && refusal_of.retry_after.is_none(), "{refusal_of}");
        }
        let failed = Refusal::from(BeginError::from(CommitError::Store(Cause::new("disk I/O error"))));
        assert_eq!(failed.code, ApiCode::InternalError);
        assert!(system::causes(&failed).ends_with("the store failed: disk I/O error"), "{failed}");
    }
}
