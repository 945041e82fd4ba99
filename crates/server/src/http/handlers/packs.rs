//! The packs that are installed, and the agents in them.

use packs::PackError;
use packs::agents::{CatalogueEntry, catalogue};
use packs::install::{HostFacts, InstalledPacks};
use packs::manifest::Manifest;
use serde_json::{Map, Value, json};

use super::super::exchange::Call;
use super::super::route::Answered;
use super::super::{answer, discovery};
use super::trouble::{self, on_a_thread};

/// `GET /v1/packs`
pub(in super::super) async fn list(call: Call) -> Answered {
    let facts = facts(&call);
    let listed = installed(&call, move |installed| {
        let shown = |manifest: &Manifest| {
            let common = &manifest.common;
            let agents = catalogue(manifest, |capability| !facts.gives(capability));
            json!({"name": common.name, "version": common.version, "kind": manifest.kind(), "agents": agents})
        };
        Ok(installed.manifests()?.iter().map(shown).collect::<Vec<Value>>())
    });
    match listed.await? {
        Ok(packs) => Ok(answer::json(200, &json!({"packs": packs}))),
        Err(error) => Ok(trouble::pack(&error)),
    }
}

/// `GET /v1/packs/export`
pub(in super::super) async fn export(call: Call) -> Answered {
    let documents = |installed: &InstalledPacks| {
        let document = |manifest: &Manifest| Value::Object(manifest.document().clone());
        Ok(installed.manifests()?.iter().map(document).collect::<Vec<Value>>())
    };
    match installed(&call, documents).await? {
        Ok(manifests) => Ok(answer::json(200, &json!({"manifests": manifests}))),
        Err(error) => Ok(trouble::pack(&error)),
    }
}

/// `GET /v1/agents`
pub(in super::super) async fn agents(call: Call) -> Answered {
    match entries(&call).await? {
        Ok(agents) => Ok(answer::json(200, &json!({"total": agents.len(), "agents": agents}))),
        Err(error) => Ok(trouble::pack(&error)),
    }
}

/// `GET /v1/agents/{agentId}`
pub(in super::super) async fn agent(call: Call) -> Answered {
    let id = call.param("agentId");
    match entries(&call).await? {
        Ok(agents) => match agents.iter().find(|agent| agent.agent_id == id) {
            Some(agent) => Ok(answer::json(200, &json!(agent))),
            None => {
                let message = "no installed pack brings such an agent; see GET /v1/agents";
                Ok(trouble::flat(404, "agent_not_found", message, Map::new()))
            }
        },
        Err(error) => Ok(trouble::pack(&error)),
    }
}

/// What this host gives to agents: what it says that it does. A family may be there to say that it is not served.
fn facts(call: &Call) -> HostFacts {
    let is_served = |family: &Value| family.get("supported").unwrap_or(family) != &Value::Bool(false);
    let families = discovery::families(&call.state).into_iter().filter(|(_, family)| is_served(family));
    HostFacts::everything(families.map(|(name, _)| name))
}

async fn entries(call: &Call) -> Result<Result<Vec<CatalogueEntry>, PackError>, host::runs::Refusal> {
    let facts = facts(call);
    installed(call, move |installed| installed.agents(&facts)).await
}

/// Reads the folder of installed packs, on a thread. On a host without one, none is installed.
async fn installed<T: Default + Send + 'static>(
    call: &Call,
    read: impl FnOnce(&InstalledPacks) -> Result<T, PackError> + Send + 'static,
) -> Result<Result<T, PackError>, host::runs::Refusal> {
    match call.state.shelves.installed().cloned() {
        None => Ok(Ok(T::default())),
        Some(installed) => on_a_thread(move || read(&installed)).await,
    }
}
