//! How a run begins.

use std::sync::Arc;

use ai::provider::mock::{MockId, StreamMock, StreamMockError};
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
use super::{ApiCode, Caller, Keyed, Refusal, Respond, Runs, no_entropy};
use crate::executors::Executors;
use crate::executors::models::Models;

/// How a run is created besides its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Creation {
    /// Whether it is refused while another run of its scope is under way.
    pub exclusive: bool,
    /// The version of the engine that it has to run under.
    pub forced_engine_version: Option<u64>,
    /// Where the caller stands in a trace. Kept only where this host traces.
    pub trace: Option<TraceParent>,
}

/// The versions of the engine that a run can be made to run under. All of them are this one: there has been no other yet.
pub const ENGINE_VERSIONS: std::ops::RangeInclusive<u64> = 1..=1;

/// A run that a caller asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    pub workflow_id: WorkflowId,
    pub inputs: Map<String, Value>,
    pub configurable: Map<String, Value>,
    pub tags: Vec<String>,
    pub metadata: Map<String, Value>,
    /// At most one run of a scope is under way where [`Creation::exclusive`] says so.
    pub scope_id: Option<String>,
    pub callback_url: Option<String>,
}

impl NewRun {
    /// A run of a workflow, with nothing else said about it.
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

    /// Whether there is so much to check that it would hold up other requests.
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
            Some(first) => {
                Err(Refusal::new(ApiCode::ValidationError, first.to_string())
                    .detail("fields", told(&problems)))
            }
        }
    }
}

/// A run that exists, as far as it went at once: without time, an effect or a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedRun {
    pub run_id: RunId,
    pub status: RunStatus,
}

impl Runs {
    /// Creates a run, and takes it as far as it goes without time, an effect or a person.
    ///
    /// # Errors
    /// When the workflow does not take this, or the host cannot take it now.
    pub async fn create<R: Respond<CreatedRun>>(
        &self,
        caller: &Caller,
        new: NewRun,
        creation: Creation,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.admit()?;
        if let Some(response) = respond.replayed(self).await? {
            return Ok(response);
        }
        let shard = respond.keyed().map(Keyed::shard);
        let (definition, genesis) = self.genesis_beside(caller, new, creation, shard).await?;
        let run_id = genesis.run_id.clone();
        let audit =
            self.audited(caller, "run.create", &json!({"runId": run_id, "workflowId": definition.id}));
        let created = |status| CreatedRun { run_id, status };
        match self.begin(&definition, genesis, creation.exclusive, vec![audit], &respond, created).await {
            Ok(response) => Ok(response),
            Err(BeginError::Commit(error)) => self.settle(error, &respond).await,
            Err(error) => Err(error.into()),
        }
    }

    /// [`Runs::genesis`], beside the requests where there is much to hold to schemas.
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
        self.beside(&caller.tenant, move || runs.genesis(&asking, definition, new, creation, shard)).await?
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
        new.check(&definition, &self.providers())?;
        if let Some(url) = &new.callback_url {
            self.inner.options.outbound.check(url).map_err(|error| {
                Refusal::new(ApiCode::WebhookUrlRejected, error.to_string()).detail("field", "callbackUrl")
            })?;
        }
        self.check_mock_provider(caller, new.configurable.get("mockProvider"))?;
        self.check_forced(caller, creation.forced_engine_version)?;
        let genesis = Genesis {
            run_id: new_run_id(self.now().0, shard, &*self.inner.options.entropy).map_err(no_entropy)?,
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
            created_at: self.now(),
            forced_engine_version: creation.forced_engine_version,
            test: caller.test,
            trace: creation.trace.filter(|_| self.is_traced()),
            trigger: None,
        };
        Ok((definition, genesis))
    }

    /// Whether a run may be answered by a provider that pretends: where tests are served, for keys of tests.
    fn check_mock_provider(&self, caller: &Caller, mock: Option<&Value>) -> Result<(), Refusal> {
        let Some(mock) = mock else { return Ok(()) };
        let served = self.executors().and_then(Executors::models).is_some_and(Models::is_mocked);
        let (id, config) = match mock {
            Value::String(id) => (id.as_str(), &Value::Null),
            other => (
                other.get("id").and_then(Value::as_str).unwrap_or_default(),
                other.get("config").unwrap_or(&Value::Null),
            ),
        };
        let refusal = if !caller.test {
            let message = "`configurable.mockProvider` is for keys of tests; leave it out";
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
            let message = "this host has no mock of a provider; leave `configurable.mockProvider` out";
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
            let message = "X-Force-Engine-Version is for keys of tests; make one with `interlock key new-api-key --test`";
            return Err(Refusal::new(ApiCode::ForceEngineVersionForbidden, message));
        }
        if !ENGINE_VERSIONS.contains(&version) {
            let (min, max) = (ENGINE_VERSIONS.start(), ENGINE_VERSIONS.end());
            let message = format!("X-Force-Engine-Version is from {min} to {max}");
            let refusal = Refusal::new(ApiCode::UnsupportedForceEngineVersion, message);
            return Err(refusal.detail("supported", json!({"min": min, "max": max})));
        }
        Ok(())
    }

    /// Begins a run whose facts are known, in one commit with further changes and the response.
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
        let (response, recorded) = respond.respond(self, result(state.status));
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
    /// The engine refused it. Asking again would be refused again.
    #[error("the run was refused")]
    Refused(#[source] flow::engine::Refusal),
    /// The host could not decide now, or cannot read what it has to.
    #[error(transparent)]
    Host(#[from] Refusal),
    /// What was decided could not be recorded.
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

/// The change that records what a run is created with.
pub(super) fn created(genesis: &Genesis, exclusive: bool) -> Change {
    let record = serde_json::to_vec(genesis).expect("names are texts, so nothing can be refused");
    Change::CreateRun {
        run_id: genesis.run_id.clone(),
        tenant: genesis.tenant.clone(),
        workflow_id: genesis.workflow_id.clone(),
        genesis: record.into(),
        scope_id: genesis.scope_id.clone(),
        exclusive,
        // A fork of a child is no child: nobody waits for it.
        parent_run_id: genesis
            .parent
            .as_ref()
            .filter(|_| genesis.fork.is_none())
            .map(|parent| parent.run_id.clone()),
        tags: genesis.tags.clone(),
        created_at: genesis.created_at,
    }
}

pub(super) fn told(problems: &[OptionProblem]) -> Vec<Value> {
    problems
        .iter()
        .take(100)
        .map(|problem| json!({"path": problem.path, "message": problem.message}))
        .collect()
}

/// An id of a run: 48 bits of time, so that later ones sort later, 12 bits of its shard, and 68 bits that nobody can guess. A run that is
/// created under an idempotency key has the shard of that key, so that it stands beside the recorded reply; any other has a random one.
///
/// # Errors
/// When the system has no entropy to give.
pub fn new_run_id(
    now_ms: u64,
    shard: Option<Shard>,
    entropy: &dyn crate::system::Entropy,
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

    /// A decision that is refused was reported as a failure of the store, which background work retries forever.
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
            let told = Refusal::from(BeginError::Refused(refusal));
            assert_eq!(told, expected);
            assert!(!told.is_host_failure() && told.retry_after.is_none(), "{told}");
        }
        let failed = Refusal::from(BeginError::from(CommitError::Store(Cause::new("disk I/O error"))));
        assert_eq!(failed.code, ApiCode::InternalError);
        assert!(crate::causes(&failed).ends_with("the store failed: disk I/O error"), "{failed}");
    }
}
