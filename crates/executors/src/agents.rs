//! The agents of installed packs.

mod inputs;
pub(super) mod run;
pub(super) mod tools;
pub(super) mod toolset;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use packs::agents::HandoffSchemas;
use packs::manifest::AgentManifest;
use serde_json::Value;

/// Why nothing is handed to an agent that is not there: its schemas are unknown, so nothing could be validated.
pub const NOT_INSTALLED: &str = "the agent is not installed";

/// An agent of an installed pack.
#[derive(Debug)]
pub struct Agent {
    /// The pack, as `name@version`.
    pub pack: String,
    pub manifest: AgentManifest,
    /// Its system prompt, from the manifest or from the file that the manifest names. It is only shown to models.
    pub system_prompt: Option<String>,
    /// The schemas of its inputs and outputs.
    pub schemas: HandoffSchemas,
}

/// The agents of a host, by their ids. Cheap to clone.
#[derive(Clone, Default)]
pub struct Agents {
    by_id: Arc<BTreeMap<String, Agent>>,
}

impl fmt::Debug for Agents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.by_id.keys()).finish()
    }
}

impl Agents {
    /// The agents of a host. If two have the same id, the first is used.
    pub fn new(agents: impl IntoIterator<Item = Agent>) -> Self {
        let mut by_id = BTreeMap::new();
        for agent in agents {
            by_id.entry(agent.manifest.agent_id.clone()).or_insert(agent);
        }
        Self { by_id: Arc::new(by_id) }
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub fn get(&self, agent_id: &str) -> Option<&Agent> {
        self.by_id.get(agent_id)
    }

    /// Whether an agent of that pack is installed.
    pub fn has_pack(&self, name: &str) -> bool {
        self.by_id.values().any(|agent| agent.pack.split_once('@').is_some_and(|(pack, _)| pack == name))
    }

    /// The minimum confidence of an agent's decisions, if its pack defines one.
    pub fn threshold(&self, agent_id: &str) -> Option<f64> {
        self.get(agent_id)?.manifest.confidence.default_threshold
    }

    /// Validates a task with the schema of its agent.
    ///
    /// # Errors
    /// The task does not match, or no such agent is installed. The message never contains the task.
    pub fn check_task(&self, agent_id: &str, task: &Value) -> Result<(), String> {
        let agent = self.get(agent_id).ok_or(NOT_INSTALLED)?;
        agent.schemas.check_task(task).map_err(|error| error.to_string())
    }

    /// Validates what an agent returns with its schema.
    ///
    /// # Errors
    /// The result does not match, or no such agent is installed. The message never contains the result.
    pub fn check_return(&self, agent_id: &str, returned: &Value) -> Result<(), String> {
        let agent = self.get(agent_id).ok_or(NOT_INSTALLED)?;
        agent.schemas.check_return(returned).map_err(|error| error.to_string())
    }
}
