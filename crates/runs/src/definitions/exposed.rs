//! What the workflows of a tenant expose to MCP clients: tools, resources and prompts.
//!
//! This is derived from the definitions, ordered by id, and cached until a workflow is registered. If two workflows use the same
//! name, the first one gets it, so the result does not depend on the order of registration.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use canon::digest::Digest;
use flow::definition::exposed::Arguments;
use flow::definition::exposed::address::Template;
use flow::definition::{Definition, ExposedType, Node, NodeType};
use flow::id::{Tenant, WorkflowId};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

use super::Definitions;
use crate::Refusal;
use crate::records::MAX_LISTED;

/// How many tenants are cached.
const REMEMBERED_TENANTS: usize = 1000;
/// How many definitions that expose nothing are cached.
const REMEMBERED_OTHERS: usize = 100_000;
/// How many registrations are buffered for a slow receiver. A receiver that missed some is notified and reads again.
const WAITING_CHANGES: usize = 64;

/// A workflow that is exposed under one name.
#[derive(Debug)]
pub struct Exposure {
    /// The workflow to run.
    pub workflow: Arc<Definition>,
    /// The configuration of the exposing node.
    pub config: Map<String, Value>,
    /// Validates the arguments, if there is a schema for them.
    arguments: Option<Arguments>,
    /// Validates the outputs of a tool, if there is a schema for them.
    outputs: Option<Arguments>,
}

/// Everything that a tenant exposes.
#[derive(Debug, Default)]
pub struct Exposed {
    pub tools: BTreeMap<String, Exposure>,
    /// The resources, by URI.
    pub resources: BTreeMap<String, Exposure>,
    /// The resource templates, by template text.
    pub templates: BTreeMap<String, (Template, Exposure)>,
    pub prompts: BTreeMap<String, Exposure>,
    /// The workflow that handles elicitation requests of clients.
    pub elicitation: Option<Exposure>,
    /// The workflow that handles sampling requests of clients.
    pub sampling: Option<Exposure>,
}

/// The cache for all tenants.
pub(super) struct Exposures {
    version: AtomicU64,
    /// Sends the tenant of each registered workflow.
    changed: broadcast::Sender<Tenant>,
    known: Mutex<HashMap<Tenant, (u64, Arc<Exposed>)>>,
    others: Mutex<HashSet<Digest>>,
}

impl Default for Exposures {
    fn default() -> Self {
        Self {
            version: AtomicU64::default(),
            changed: broadcast::Sender::new(WAITING_CHANGES),
            known: Mutex::default(),
            others: Mutex::default(),
        }
    }
}

impl Exposures {
    /// Invalidates the cache of a tenant after the registration of a workflow.
    pub(super) fn outdate(&self, tenant: &Tenant) {
        self.version.fetch_add(1, Ordering::SeqCst);
        // A channel without receivers is not an error.
        let _ = self.changed.send(tenant.clone());
    }
}

/// Notifies when what a tenant exposes may have changed.
#[derive(Debug)]
pub struct Changes {
    tenant: Tenant,
    changed: broadcast::Receiver<Tenant>,
}

impl Changes {
    /// Discards the changes so far, because a subsequent read includes them.
    pub fn forget(&mut self) {
        self.changed = self.changed.resubscribe();
    }

    /// Waits until a workflow of the tenant was registered, or registrations were missed.
    pub async fn next(&mut self) {
        loop {
            match self.changed.recv().await {
                Ok(tenant) if tenant == self.tenant => return,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                // The host is gone, so no further registrations happen.
                Err(broadcast::error::RecvError::Closed) => std::future::pending::<()>().await,
            }
        }
    }
}

impl Exposure {
    /// A string of the node's configuration.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.config.get(name).and_then(Value::as_str)
    }

    /// The schema of the arguments. Without one, any object is accepted.
    pub fn input_schema(&self) -> Value {
        self.config.get("inputSchema").cloned().unwrap_or_else(|| json!({"type": "object"}))
    }

    /// The violations of the arguments, each with its location. They contain only data from the sender or the author.
    pub fn violations(&self, given: &Value) -> Vec<Value> {
        self.arguments.as_ref().map_or_else(Vec::new, |schema| schema.violations(given))
    }
}

impl Exposure {
    /// The violations of the outputs of a run, each with its location.
    pub fn output_violations(&self, given: &Value) -> Vec<Value> {
        self.outputs.as_ref().map_or_else(Vec::new, |schema| schema.violations(given))
    }
}

impl Exposed {
    fn add(&mut self, workflow: &Arc<Definition>, node: &Node, kind: ExposedType) {
        let config = node.raw_config.clone();
        let named =
            kind.named_by().and_then(|member| config.get(member)).and_then(Value::as_str).map(str::to_owned);
        let schema = config.get("inputSchema").filter(|_| kind == ExposedType::Tool);
        // An older version accepted this invalid schema. A tool whose arguments cannot be validated is not exposed.
        let arguments = match schema.map(Arguments::read) {
            None => None,
            Some(Ok(schema)) => Some(schema),
            Some(Err(_)) => return,
        };
        let outputs = config.get("outputSchema").filter(|_| kind == ExposedType::Tool);
        let outputs = outputs.and_then(|schema| Arguments::read(schema).ok());
        let exposure = Exposure { workflow: Arc::clone(workflow), config, arguments, outputs };
        match (kind, named) {
            (ExposedType::Tool, Some(name)) => first(&mut self.tools, name, exposure),
            (ExposedType::Prompt, Some(name)) => first(&mut self.prompts, name, exposure),
            (ExposedType::Resource, Some(uri)) => first(&mut self.resources, uri, exposure),
            (ExposedType::ResourceTemplate, Some(text)) => {
                if let Ok(template) = Template::parse(&text) {
                    first(&mut self.templates, text, (template, exposure));
                }
            }
            (ExposedType::Elicitation, _) if self.elicitation.is_none() => self.elicitation = Some(exposure),
            (ExposedType::Sampling, _) if self.sampling.is_none() => self.sampling = Some(exposure),
            _ => {}
        }
    }
}

/// Keeps the first entry for a name.
fn first<T>(known: &mut BTreeMap<String, T>, name: String, exposed: T) {
    known.entry(name).or_insert(exposed);
}

impl Definitions {
    /// Notifies when what a tenant exposes may have changed, from now on.
    pub fn exposed_changes(&self, tenant: &Tenant) -> Changes {
        let changed = self.exposures.changed.subscribe();
        Changes { tenant: tenant.to_owned(), changed }
    }

    /// What the workflows of a tenant expose to MCP clients.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn exposed(&self, tenant: &Tenant) -> Result<Arc<Exposed>, Refusal> {
        let exposures = &self.exposures;
        // Read the version first, so that a registration in between invalidates the result.
        let version = exposures.version.load(Ordering::SeqCst);
        let known = exposures.known.lock().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned();
        if let Some((of, exposed)) = known
            && of == version
        {
            return Ok(exposed);
        }
        let exposed = Arc::new(self.read_exposed(tenant).await?);
        let mut known = exposures.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_TENANTS {
            known.clear();
        }
        known.insert(tenant.to_owned(), (version, Arc::clone(&exposed)));
        Ok(exposed)
    }

    async fn read_exposed(&self, tenant: &Tenant) -> Result<Exposed, Refusal> {
        let mut exposed = Exposed::default();
        let mut after: Option<WorkflowId> = None;
        loop {
            let page = self.records.store().definitions(tenant, after.as_ref(), MAX_LISTED).await?;
            for (id, digest) in &page {
                if let Some(workflow) = self.exposing(tenant, id, *digest).await? {
                    for node in workflow.nodes.iter().filter(|node| !node.disabled) {
                        if let NodeType::Exposed(kind) = node.kind {
                            exposed.add(&workflow, node, kind);
                        }
                    }
                }
            }
            match page.into_iter().next_back() {
                Some((last, _)) => after = Some(last),
                None => return Ok(exposed),
            }
        }
    }

    /// A workflow, if it exposes anything. Workflows that expose nothing are read once.
    async fn exposing(
        &self,
        tenant: &Tenant,
        id: &WorkflowId,
        digest: Digest,
    ) -> Result<Option<Arc<Definition>>, Refusal> {
        let others = &self.exposures.others;
        if others.lock().unwrap_or_else(PoisonError::into_inner).contains(&digest) {
            return Ok(None);
        }
        let workflow = match self.remembered(digest) {
            Some(workflow) => workflow,
            None => match self.records.store().definition(tenant, id).await? {
                // A definition that only an older version accepted is skipped.
                Some((digest, document)) => match self.read_definition(digest, &document) {
                    Ok(workflow) => workflow,
                    Err(_) => return Ok(None),
                },
                None => return Ok(None),
            },
        };
        if workflow.nodes.iter().any(|node| matches!(node.kind, NodeType::Exposed(_))) {
            return Ok(Some(workflow));
        }
        let mut others = others.lock().unwrap_or_else(PoisonError::into_inner);
        if others.len() >= REMEMBERED_OTHERS {
            others.clear();
        }
        others.insert(workflow.digest);
        Ok(None)
    }
}
