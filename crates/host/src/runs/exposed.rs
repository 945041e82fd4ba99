//! What the workflows of a tenant are to clients of MCP: tools, resources, prompts.
//!
//! It is read off the definitions, in the order of their ids, and remembered until a workflow is registered. Of two that want the same
//! name the first has it, so that which one it is does not depend on when they were registered.

mod clients;

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

pub use self::clients::MAX_NAME_BYTES;
use super::read::MAX_LISTED;
use super::{Refusal, Runs};

/// How many tenants are remembered.
const REMEMBERED_TENANTS: usize = 1000;
/// Of how many definitions it is remembered that they expose nothing.
const REMEMBERED_OTHERS: usize = 100_000;
/// How many registrations wait for whoever listens slowly. It is told that it missed some, and looks again.
const WAITING_CHANGES: usize = 64;

/// What is exposed under one name.
#[derive(Debug)]
pub struct Exposure {
    /// The workflow that a run is made of.
    pub workflow: Arc<Definition>,
    /// What its node says.
    pub config: Map<String, Value>,
    /// What checks the arguments, where they are checked.
    arguments: Option<Arguments>,
    /// What checks the outputs of a tool that has a schema for them.
    outputs: Option<Arguments>,
}

/// What a tenant exposes.
#[derive(Debug, Default)]
pub struct Exposed {
    pub tools: BTreeMap<String, Exposure>,
    /// The resources, by address.
    pub resources: BTreeMap<String, Exposure>,
    /// The families of resources, by template.
    pub templates: BTreeMap<String, (Template, Exposure)>,
    pub prompts: BTreeMap<String, Exposure>,
    /// Who asks people what clients want to know.
    pub elicitation: Option<Exposure>,
    /// Who answers requests for a model.
    pub sampling: Option<Exposure>,
}

/// What is remembered of all tenants.
pub(super) struct Exposures {
    version: AtomicU64,
    /// Tells whose workflows were registered.
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
    /// A workflow of a tenant was registered: what is remembered may be outdated.
    pub(super) fn outdate(&self, tenant: &Tenant) {
        self.version.fetch_add(1, Ordering::SeqCst);
        // Nobody has to listen.
        let _ = self.changed.send(tenant.clone());
    }
}

/// Whoever wants to know when what a tenant exposes may be another.
#[derive(Debug)]
pub struct Changes {
    tenant: Tenant,
    changed: broadcast::Receiver<Tenant>,
}

impl Changes {
    /// Forgets what happened until now: whoever looks afterwards sees all of it.
    pub fn forget(&mut self) {
        self.changed = self.changed.resubscribe();
    }

    /// Comes back when a workflow of the tenant was registered, or when some registrations were missed; never otherwise.
    pub async fn next(&mut self) {
        loop {
            match self.changed.recv().await {
                Ok(tenant) if tenant == self.tenant => return,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                // The host is gone, and registers nothing more.
                Err(broadcast::error::RecvError::Closed) => std::future::pending::<()>().await,
            }
        }
    }
}

impl Exposure {
    /// A text of what the node says.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.config.get(name).and_then(Value::as_str)
    }

    /// The schema of the arguments: any object where the author says nothing.
    pub fn input_schema(&self) -> Value {
        self.config.get("inputSchema").cloned().unwrap_or_else(|| json!({"type": "object"}))
    }

    /// What is wrong with arguments, each with its place. Nothing is there that the sender did not send or the author did not write.
    pub fn violations(&self, given: &Value) -> Vec<Value> {
        self.arguments.as_ref().map_or_else(Vec::new, |schema| schema.violations(given))
    }
}

impl Exposure {
    /// What is wrong with the outputs of a run, each with its place.
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
        // A schema that cannot be used was let through by an older version. A tool whose arguments nobody can check is none.
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

/// Who comes first has the name.
fn first<T>(known: &mut BTreeMap<String, T>, name: String, exposed: T) {
    known.entry(name).or_insert(exposed);
}

impl Runs {
    /// Tells when what a tenant exposes may be another, from now on.
    pub fn exposed_changes(&self, tenant: &Tenant) -> Changes {
        let changed = self.inner.definitions.exposures.changed.subscribe();
        Changes { tenant: tenant.to_owned(), changed }
    }

    /// What the workflows of a tenant are to clients of MCP.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn exposed(&self, tenant: &Tenant) -> Result<Arc<Exposed>, Refusal> {
        let exposures = &self.inner.definitions.exposures;
        // Before anything is read: what is registered meanwhile outdates it.
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
            let page = self.store().definitions(tenant, after.as_ref(), MAX_LISTED).await?;
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

    /// A workflow, where it exposes anything. Those that do not are read once.
    async fn exposing(
        &self,
        tenant: &Tenant,
        id: &WorkflowId,
        digest: Digest,
    ) -> Result<Option<Arc<Definition>>, Refusal> {
        let others = &self.inner.definitions.exposures.others;
        if others.lock().unwrap_or_else(PoisonError::into_inner).contains(&digest) {
            return Ok(None);
        }
        let workflow = match self.remembered(digest) {
            Some(workflow) => workflow,
            None => match self.store().definition(tenant, id).await? {
                // One that an older version let through is not served, and the others are.
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
