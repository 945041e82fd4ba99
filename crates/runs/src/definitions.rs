//! Workflow definitions: registers, validates and caches them.

pub mod exposed;
pub mod listeners;
mod view;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use canon::digest::Digest;
use canon::json;
use flow::definition::{Definition, Problem, RefusedReason};
use flow::id::{NodeId, Tenant, WorkflowId};
use ports::Cause;
use ports::runs::{Bytes, Change};
use serde_json::{Value, json};

use self::exposed::Exposures;
use self::listeners::{Listeners, check_listening};
pub use self::view::WorkflowLook;
use super::compute_pool::{ComputePool, is_large};
use super::records::{MAX_LISTED, Records};
use super::{ApiCode, Caller, Features, Refusal, Respond};

/// How many validated definitions are cached.
const REMEMBERED: usize = 1000;

/// A registered workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredWorkflow {
    pub workflow_id: WorkflowId,
    pub digest: Digest,
    /// Whether this registration changed anything.
    pub is_new: bool,
}

/// The workflow definitions of all tenants.
pub struct Definitions {
    records: Arc<Records>,
    features: Arc<Features>,
    compute: Arc<ComputePool>,
    listeners: Arc<Listeners>,
    /// The validated definitions, by digest.
    checked: Mutex<HashMap<Digest, Arc<Definition>>>,
    newest: Mutex<Newest>,
    /// What workflows expose to MCP clients.
    exposures: Exposures,
}

/// The newest definition of each workflow. Only this process registers definitions, so cached entries are never outdated.
#[derive(Default)]
struct Newest {
    by_tenant: HashMap<Tenant, HashMap<WorkflowId, Arc<Definition>>>,
    /// Changes with every registration, so that a definition that was read before a registration is not cached after it.
    version: u64,
}

/// The JSON limits of a workflow document.
fn limits() -> json::Limits {
    json::Limits { max_bytes: 8 << 20, ..json::Limits::default() }
}

impl Definitions {
    pub(crate) fn new(
        records: Arc<Records>,
        features: Arc<Features>,
        compute: Arc<ComputePool>,
        listeners: Arc<Listeners>,
    ) -> Self {
        Self {
            records,
            features,
            compute,
            listeners,
            checked: Mutex::default(),
            newest: Mutex::default(),
            exposures: Exposures::default(),
        }
    }

    /// Registers a workflow. Registering the same document again changes nothing. Another document with the same id replaces the
    /// workflow; runs stay pinned to the old one.
    ///
    /// # Errors
    /// If the document is not a workflow that this host can run.
    pub async fn register(&self, caller: &Caller, document: &Value) -> Result<Arc<Definition>, Refusal> {
        let definition = self.checked_beside(caller, document).await?;
        check_listening(caller, &definition)?;
        let definition = Arc::new(definition);
        let known = self.records.store().definition(&caller.tenant, &definition.id).await?;
        // Files are loaded at every start and rarely change. Nothing is written for unchanged ones.
        if known.is_none_or(|(digest, _)| digest != definition.digest) {
            let change = Change::PutDefinition {
                tenant: caller.tenant.clone(),
                workflow_id: definition.id.clone(),
                digest: definition.digest,
                document: document.to_string().into_bytes().into(),
                at: self.records.now(),
            };
            let committed = self.listeners.commit_definition(&caller.tenant, &definition, vec![change]).await;
            self.forget_newest(&caller.tenant, &definition.id);
            committed?;
        }
        self.listeners.notify_registered(&caller.tenant, &definition.id);
        self.remember(&definition);
        Ok(definition)
    }

    /// Registers a workflow for a caller: idempotent for a key, and with an audit entry.
    ///
    /// # Errors
    /// Like [`Definitions::register`].
    pub async fn register_for<R: Respond<RegisteredWorkflow>>(
        &self,
        caller: &Caller,
        document: &Value,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.records.admit()?;
        if let Some(response) = respond.replayed(&self.records).await? {
            return Ok(response);
        }
        let definition = self.checked_beside(caller, document).await?;
        check_listening(caller, &definition)?;
        let definition = Arc::new(definition);
        let known = self.records.store().definition(&caller.tenant, &definition.id).await?;
        let is_known = known.is_some_and(|(digest, _)| digest == definition.digest);
        let registered = RegisteredWorkflow {
            workflow_id: definition.id.clone(),
            digest: definition.digest,
            is_new: !is_known,
        };
        let (response, recorded) = respond.respond(&self.records, registered);
        let mut changes = Vec::new();
        if !is_known {
            changes.push(Change::PutDefinition {
                tenant: caller.tenant.clone(),
                workflow_id: definition.id.clone(),
                digest: definition.digest,
                document: document.to_string().into_bytes().into(),
                at: self.records.now(),
            });
            let about = json!({"workflowId": definition.id, "digest": definition.digest.to_hex()});
            changes.push(self.records.audited(caller, "workflow.register", &about));
        }
        changes.extend(recorded);
        let committed = match is_known {
            true => self.records.commit(changes).await,
            false => self.listeners.commit_definition(&caller.tenant, &definition, changes).await,
        };
        self.forget_newest(&caller.tenant, &definition.id);
        // Also after a failure: the commit may have taken effect, and checking the triggers once more is harmless.
        self.listeners.notify_registered(&caller.tenant, &definition.id);
        match committed {
            Ok(()) => {
                self.remember(&definition);
                Ok(response)
            }
            Err(error) => self.records.settle(error, &respond).await,
        }
    }

    /// [`checked`], on a compute thread if the document is large.
    async fn checked_beside(&self, caller: &Caller, document: &Value) -> Result<Definition, Refusal> {
        if !is_large(document) {
            return checked(&self.features, document);
        }
        let (features, document) = (Arc::clone(&self.features), document.clone());
        self.compute.beside(&caller.tenant, move || checked(&features, &document)).await?
    }

    fn remember(&self, definition: &Arc<Definition>) {
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if checked.len() >= REMEMBERED {
            // Evicted definitions are read again when they are needed.
            checked.clear();
        }
        checked.insert(definition.digest, Arc::clone(definition));
    }

    fn remembered(&self, digest: Digest) -> Option<Arc<Definition>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned()
    }

    fn read_definition(&self, digest: Digest, document: &Bytes) -> Result<Arc<Definition>, Refusal> {
        if let Some(definition) = self.remembered(digest) {
            return Ok(definition);
        }
        let document = json::read(document, &limits());
        let document = document.map_err(|error| {
            let cause = format!("{} at byte {} of definition {digest}", error.code(), error.position.offset);
            Refusal::damaged("the workflow cannot be read").because(Cause::new(cause))
        })?;
        // The definition was validated at its registration. If this host no longer serves a feature, the run fails there.
        let definition = Definition::load(&document, self.features.limits().max_pattern_bytes)
            .map_err(|problems| refusal(&problems))?;
        if let Some(limit) = definition.patterns.over {
            let (bytes, workflow) = (definition.patterns.bytes, &definition.id);
            tracing::warn!(
                workflow = workflow.as_str(),
                bytes,
                limit,
                "the patterns of a workflow exceed `limits.pattern_bytes`; its runs fail until it is \
                 registered with simpler patterns"
            );
        }
        let definition = Arc::new(definition);
        self.remember(&definition);
        Ok(definition)
    }

    /// The newest definition of a tenant's workflow.
    pub(crate) async fn newest_of(
        &self,
        tenant: &Tenant,
        workflow_id: &WorkflowId,
    ) -> Result<Option<Arc<Definition>>, Refusal> {
        let version = {
            let newest = self.newest();
            if let Some(definition) = newest.by_tenant.get(tenant).and_then(|known| known.get(workflow_id)) {
                return Ok(Some(Arc::clone(definition)));
            }
            newest.version
        };
        let Some((digest, document)) = self.records.store().definition(tenant, workflow_id).await? else {
            return Ok(None);
        };
        let definition = self.read_definition(digest, &document)?;
        let mut newest = self.newest();
        if newest.version == version {
            if newest.by_tenant.values().map(HashMap::len).sum::<usize>() >= REMEMBERED {
                newest.by_tenant.clear();
            }
            let known = newest.by_tenant.entry(tenant.to_owned()).or_default();
            known.insert(definition.id.clone(), Arc::clone(&definition));
        }
        Ok(Some(definition))
    }

    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the cached newest definition of a workflow.
    fn forget_newest(&self, tenant: &Tenant, workflow_id: &WorkflowId) {
        self.exposures.outdate(tenant);
        let mut newest = self.newest();
        newest.version += 1;
        if let Some(known) = newest.by_tenant.get_mut(tenant) {
            known.remove(workflow_id);
        }
    }

    /// The definition that a run is pinned to.
    pub(crate) async fn by_digest(&self, digest: Digest) -> Result<Option<Arc<Definition>>, Refusal> {
        if let Some(definition) = self.remembered(digest) {
            return Ok(Some(definition));
        }
        match self.records.store().definition_by_digest(digest).await? {
            Some(document) => self.read_definition(digest, &document).map(Some),
            None => Ok(None),
        }
    }

    /// The document of a workflow, as it was registered.
    ///
    /// # Errors
    /// If the tenant has no workflow with that id.
    pub async fn workflow(&self, caller: &Caller, workflow_id: &WorkflowId) -> Result<Bytes, Refusal> {
        let found = self.records.store().definition(&caller.tenant, workflow_id).await?;
        found.map(|(_, document)| document).ok_or_else(no_workflow)
    }

    /// All workflows of a tenant: ids and digests.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn workflows(&self, caller: &Caller) -> Result<Vec<(WorkflowId, Digest)>, Refusal> {
        let mut workflows: Vec<(WorkflowId, Digest)> = Vec::new();
        loop {
            let after = workflows.last().map(|(id, _)| id.clone());
            let page = self.workflow_page(caller, after.as_ref(), MAX_LISTED).await?;
            let is_last = page.len() < MAX_LISTED;
            workflows.extend(page);
            if is_last {
                return Ok(workflows);
            }
        }
    }

    /// A page of the workflows of a tenant, ordered by id, after the given one: at most [`MAX_LISTED`].
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn workflow_page(
        &self,
        caller: &Caller,
        after: Option<&WorkflowId>,
        limit: usize,
    ) -> Result<Vec<(WorkflowId, Digest)>, Refusal> {
        Ok(self.records.store().definitions(&caller.tenant, after, limit.clamp(1, MAX_LISTED)).await?)
    }
}

/// Validates a workflow against what this host can run.
fn checked(features: &Features, document: &Value) -> Result<Definition, Refusal> {
    let limit = features.limits().max_pattern_bytes;
    let definition = Definition::check_within(document, &features.capabilities(), limit);
    let definition = definition.map_err(|problems| refusal(&problems))?;
    match features.executors().map(|executors| executors.problems(&definition)) {
        Some(problems) if !problems.is_empty() => Err(refusal(&problems)),
        _ => Ok(definition),
    }
}

/// The refusal for an unknown workflow. It does not repeat the requested id, which might be a secret pasted by mistake.
pub(crate) fn no_workflow() -> Refusal {
    let message = "workflow not found; GET /v1/workflows lists all workflows";
    Refusal::new(ApiCode::WorkflowNotFound, message)
}

/// Problems of the pack of a type are reported first, because the author of a workflow cannot fix them.
fn refused_by_pack(problems: &[Problem]) -> Option<Refusal> {
    let (problem, why) = problems.iter().find_map(|problem| Some((problem, problem.refused.as_ref()?)))?;
    let code = match why.reason {
        RefusedReason::Unusable => ApiCode::PackLoadFailure,
        RefusedReason::CapabilityMissing => ApiCode::PackPeerDependencyMissing,
        RefusedReason::SecretsMissing => ApiCode::CredentialUnavailable,
    };
    let refusal = Refusal::new(code, format!("the workflow is not valid: {problem}"))
        .detail("manifest", why.pack.clone())
        .detail("cause", why.code)
        .detail("offendingTypeId", problem.offending_type_id.clone())
        .detail("nodeId", problem.node_id.as_ref().map(NodeId::as_str));
    Some(match why.reason {
        RefusedReason::SecretsMissing => refusal.detail("capability", "secrets"),
        RefusedReason::Unusable | RefusedReason::CapabilityMissing => refusal,
    })
}

fn refusal(problems: &[Problem]) -> Refusal {
    let fields: Vec<_> =
        problems.iter().map(|problem| json!({"path": problem.path, "message": problem.message})).collect();
    if let Some(refusal) = refused_by_pack(problems) {
        return refusal.detail("fields", fields);
    }
    let gated = problems.iter().find(|problem| problem.required_capability.is_some());
    let first = gated.or(problems.first());
    let message = first.map_or_else(String::new, ToString::to_string);
    // A gated type has its own code. A gated field is an invalid field.
    let is_type = gated.is_some_and(|problem| problem.path.ends_with("/typeId"));
    let of_mount = |capability: &str| capability.starts_with("mcp.serverMount.");
    let code = match gated.and_then(|problem| problem.required_capability).filter(|_| is_type) {
        // For the protocol, these types belong to a pack that depends on the mount.
        Some(capability) if of_mount(capability) => ApiCode::PackPeerDependencyMissing,
        Some(_) => ApiCode::CapabilityRequired,
        None => ApiCode::ValidationError,
    };
    let mut refusal = Refusal::new(code, format!("the workflow is not valid: {message}"));
    if let Some(problem) = gated {
        refusal = refusal.detail("requiredCapability", problem.required_capability);
        refusal = refusal.detail("offendingTypeId", problem.offending_type_id.clone());
        refusal = refusal.detail("nodeId", problem.node_id.as_ref().map(NodeId::as_str));
    }
    refusal.detail("fields", fields)
}
