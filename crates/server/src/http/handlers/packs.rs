//! Installed packs and their agents.

use std::collections::BTreeSet;

use executors::Executors;
use executors::installed::{LoadErrorCode, Unserved, host_facts};
use packs::PackError;
use packs::agents::{CatalogueEntry, catalogue};
use packs::install::{HostFacts, InstalledPacks};
use packs::manifest::Manifest;
use runs::{ApiCode, Refusal};
use serde_json::{Map, Value, json};

use super::super::exchange::CheckedRequest;
use super::super::route::HandlerResult;
use super::super::{discovery, response};
use super::errors::{self, on_a_thread};

/// `GET /v1/packs`
pub(in super::super) async fn list(call: CheckedRequest) -> HandlerResult {
    let facts = facts(&call);
    // The problems found when the nodes were loaded, and those found now.
    let modules = call.state.runs.features().executors().and_then(Executors::modules);
    let mut unserved: Vec<Unserved> = modules.map(|modules| modules.unserved().to_vec()).unwrap_or_default();
    let listed = installed(&call, move |installed| {
        let (manifests, damaged) = installed.look()?;
        unserved.extend(damaged.iter().map(Unserved::damaged));
        let mut packs = Vec::new();
        for manifest in &manifests {
            let common = &manifest.common;
            let (agents, degraded) = match facts.judge(manifest) {
                Ok(degraded) => (catalogue(manifest, |capability| !facts.gives(capability)), degraded),
                // The pack is installed but not served.
                Err(error) => {
                    let (pack, code) = (manifest.id(), LoadErrorCode::Pack(error.code()));
                    unserved.push(Unserved { pack, code, message: error.to_string() });
                    (Vec::new(), Vec::new())
                }
            };
            packs.push(json!({
                "name": common.name, "version": common.version, "kind": manifest.kind(), "agents": agents,
                "degraded": degraded,
            }));
        }
        let mut once = BTreeSet::new();
        unserved.retain(|pack| once.insert(pack.pack.clone()));
        Ok((packs, unserved.iter().map(unserved_pack).collect::<Vec<Value>>()))
    });
    match listed.await? {
        Ok((packs, unserved)) => Ok(response::json(200, &json!({"packs": packs, "unserved": unserved}))),
        Err(error) => Ok(errors::pack(&error)),
    }
}

/// A pack that is installed but not served.
fn unserved_pack(pack: &Unserved) -> Value {
    json!({"pack": pack.pack, "code": pack.code.as_str(), "message": pack.message})
}

/// `GET /v1/packs/export`
pub(in super::super) async fn export(call: CheckedRequest) -> HandlerResult {
    let documents = |installed: &InstalledPacks| {
        let document = |manifest: &Manifest| Value::Object(manifest.document().clone());
        Ok(installed.manifests()?.iter().map(document).collect::<Vec<Value>>())
    };
    match installed(&call, documents).await? {
        Ok(manifests) => Ok(response::json(200, &json!({"manifests": manifests}))),
        Err(error) => Ok(errors::pack(&error)),
    }
}

/// `GET /v1/agents`
pub(in super::super) async fn agents(call: CheckedRequest) -> HandlerResult {
    check_served(&call)?;
    match entries(&call).await? {
        Ok(agents) => Ok(response::json(200, &json!({"total": agents.len(), "agents": agents}))),
        Err(error) => Ok(errors::pack(&error)),
    }
}

/// `GET /v1/agents/{agentId}`
pub(in super::super) async fn agent(call: CheckedRequest) -> HandlerResult {
    check_served(&call)?;
    let id = call.param("agentId");
    match entries(&call).await? {
        Ok(agents) => match agents.iter().find(|agent| agent.agent_id == id) {
            Some(agent) => Ok(response::json(200, &json!(agent))),
            None => {
                let message = "no installed pack has this agent; GET /v1/agents lists all agents";
                Ok(errors::flat(404, "agent_not_found", message, Map::new()))
            }
        },
        Err(error) => Ok(errors::pack(&error)),
    }
}

/// Refuses reads of agents on a host without any. Such a host does not advertise `agents.manifestRuntime`, and the protocol requires
/// 404 then.
fn check_served(call: &CheckedRequest) -> Result<(), Refusal> {
    if discovery::serves_agents(&call.state) {
        return Ok(());
    }
    let message = "this host has no agents; install a pack that has one, and restart the server";
    Err(Refusal::new(ApiCode::NotFound, message))
}

/// What this host provides to packs, as advertised.
fn facts(call: &CheckedRequest) -> HostFacts {
    let capabilities = Some(discovery::given(&call.state));
    HostFacts { capabilities, ..host_facts(call.state.settings.ui_plugins) }
}

async fn entries(call: &CheckedRequest) -> Result<Result<Vec<CatalogueEntry>, PackError>, Refusal> {
    let facts = facts(call);
    installed(call, move |installed| installed.agents(&facts)).await
}

/// Reads the directory of installed packs on a blocking thread. A host without one has no packs.
async fn installed<T: Default + Send + 'static>(
    call: &CheckedRequest,
    read: impl FnOnce(&InstalledPacks) -> Result<T, PackError> + Send + 'static,
) -> Result<Result<T, PackError>, Refusal> {
    match call.state.pack_registries.installed().cloned() {
        None => Ok(Ok(T::default())),
        Some(installed) => on_a_thread(move || read(&installed)).await,
    }
}
