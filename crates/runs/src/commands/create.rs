//! Creates runs.

use std::sync::Arc;

use ai::provider::mock::{MockId, StreamMock, StreamMockError};
use executors::Executors;
use executors::models::Models;
use flow::definition::Definition;
use flow::id::{RunId, Shard, WorkflowId};
use flow::options::{OptionProblem, check_configurable, check_inputs, check_keys, check_labels, drop_unset};
use flow::run::{Genesis, RunStatus};
use flow::trace::TraceParent;
use serde_json::{Map, Value, json};

use super::Commands;
use crate::compute_pool::are_large;
use crate::definitions::no_workflow;
use crate::engine::BeginError;
use crate::records::random_failed;
use crate::{ApiCode, Caller, Keyed, Refusal, Respond};

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

impl Commands {
    /// Creates a run, and advances it until it needs time, an effect or a person.
    ///
    /// # Errors
    /// If the workflow does not accept this input, or the host cannot create the run now.
    pub async fn create<R: Respond<CreatedRun>>(
        self: &Arc<Self>,
        caller: &Caller,
        new: NewRun,
        creation: Creation,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.uses.records.admit()?;
        if let Some(response) = respond.replayed(&self.uses.records).await? {
            return Ok(response);
        }
        let shard = respond.keyed().map(Keyed::shard);
        let (definition, genesis) = self.genesis_beside(caller, new, creation, shard).await?;
        let run_id = genesis.run_id.clone();
        let audit = self.uses.records.audited(
            caller,
            "run.create",
            &json!({"runId": run_id, "workflowId": definition.id}),
        );
        let created = |status| CreatedRun { run_id, status };
        match self
            .engine
            .begin(&definition, genesis, creation.exclusive, vec![audit], &respond, created)
            .await
        {
            Ok(response) => Ok(response),
            Err(BeginError::Commit(error)) => self.uses.records.settle(error, &respond).await,
            Err(error) => Err(error.into()),
        }
    }

    /// [`Commands::genesis`], on a compute thread if there is much to validate.
    async fn genesis_beside(
        self: &Arc<Self>,
        caller: &Caller,
        new: NewRun,
        creation: Creation,
        shard: Option<Shard>,
    ) -> Result<(Arc<Definition>, Genesis), Refusal> {
        let definition = self
            .uses
            .definitions
            .newest_of(&caller.tenant, &new.workflow_id)
            .await?
            .ok_or_else(no_workflow)?;
        if !new.is_large() {
            return self.genesis(caller, definition, new, creation, shard);
        }
        let (commands, asking) = (Arc::clone(self), caller.clone());
        self.uses
            .compute
            .beside(&caller.tenant, move || commands.genesis(&asking, definition, new, creation, shard))
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
        new.check(&definition, &self.uses.features.providers())?;
        if let Some(url) = &new.callback_url {
            self.outbound.check(url).map_err(|error| {
                Refusal::new(ApiCode::WebhookUrlRejected, error.to_string()).detail("field", "callbackUrl")
            })?;
        }
        self.check_mock_provider(caller, new.configurable.get("mockProvider"))?;
        self.check_forced(caller, creation.forced_engine_version)?;
        let genesis = Genesis {
            run_id: new_run_id(self.uses.records.now().0, shard, self.uses.records.entropy())
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
            created_at: self.uses.records.now(),
            forced_engine_version: creation.forced_engine_version,
            test: caller.test,
            trace: creation.trace.filter(|_| self.uses.traces.are_enabled()),
            trigger: None,
        };
        Ok((definition, genesis))
    }

    /// Checks that a run may use the mock provider: only if this host serves tests, and with a test key.
    fn check_mock_provider(&self, caller: &Caller, mock: Option<&Value>) -> Result<(), Refusal> {
        let Some(mock) = mock else { return Ok(()) };
        let served =
            self.uses.features.executors().and_then(Executors::models).is_some_and(Models::is_mocked);
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
                           new --test`";
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
