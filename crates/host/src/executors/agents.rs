//! The agents that installed packs bring, ready to be handed something.

mod inputs;
pub(super) mod run;
pub(super) mod tools;
pub(super) mod toolset;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use packs::PackError;
use packs::agents::HandoffSchemas;
use packs::manifest::AgentManifest;
use serde_json::Value;

/// An agent of an installed pack.
#[derive(Debug)]
pub struct Agent {
    /// The pack, as `name@version`.
    pub pack: String,
    /// What its pack says of it.
    pub manifest: AgentManifest,
    /// Its system prompt, from the manifest or from the file that the manifest names. Nobody but a model is ever shown it.
    pub system_prompt: Option<String>,
    /// What it is handed and what it gives back.
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
    /// These agents. Of two with one id the first counts.
    pub fn new(agents: impl IntoIterator<Item = Agent>) -> Self {
        let mut by_id = BTreeMap::new();
        for agent in agents {
            by_id.entry(agent.manifest.agent_id.clone()).or_insert(agent);
        }
        Self { by_id: Arc::new(by_id) }
    }

    /// The agent of that id.
    pub fn get(&self, agent_id: &str) -> Option<&Agent> {
        self.by_id.get(agent_id)
    }

    /// How sure an agent has to be, where its pack says so.
    pub fn threshold(&self, agent_id: &str) -> Option<f64> {
        self.get(agent_id)?.manifest.confidence.default_threshold
    }

    /// Holds what an agent is handed to its schema. One that is not installed takes anything.
    ///
    /// # Errors
    /// Where it is not as it has to be, without the value.
    pub fn check_task(&self, agent_id: &str, task: &Value) -> Result<(), String> {
        told(self.get(agent_id).map(|agent| agent.schemas.check_task(task)))
    }

    /// Holds what an agent gives back to its schema.
    ///
    /// # Errors
    /// Where it is not as it has to be, without the value.
    pub fn check_return(&self, agent_id: &str, returned: &Value) -> Result<(), String> {
        told(self.get(agent_id).map(|agent| agent.schemas.check_return(returned)))
    }
}

fn told(checked: Option<Result<(), PackError>>) -> Result<(), String> {
    checked.unwrap_or(Ok(())).map_err(|error| error.to_string())
}
