//! What nodes may use of this host.

mod envelopes;
mod models;
mod stores;

use std::sync::Arc;

use ai::prompt::library::Library;
use canon::error::Envelope;
use host::hands::agents::Agents;
use host::hands::installed::{self, Unserved};
use host::hands::modules::Modules;
use host::hands::{Hands, Options};
use host::runs::Runs;
use host::runs::secrets::Secrets;
use packs::install::{HostFacts, InstalledPacks};

use super::mcp;
use crate::failure::Failure;
use crate::settings::Settings;

/// Opens what the data directory has for nodes, and what the settings name.
pub(super) fn open(
    settings: &Settings,
    runs: &Runs,
    secrets: Arc<dyn Secrets>,
    seams: bool,
) -> Result<Hands, Failure> {
    let surfaces = stores::open(settings, runs.public_url(), &*secrets)?;
    let installed = InstalledPacks::open(&settings.data_dir.value.join("packs"));
    let installed = installed.map_err(|error| error.envelope())?;
    let library = load_prompts(&installed)?;
    let bare = Hands::new(Options {
        surfaces: Some(Arc::new(surfaces)),
        modules: Some(installed::none().map_err(failed)?),
        agents: Some(Agents::default()),
        models: Some(models::open(settings, Arc::clone(&secrets), library, seams)?),
        mcp: Some(mcp::servers(settings, secrets)?),
    });
    // Packs may ask for whatever is advertised, so that is known before they are loaded.
    let ui_plugins = settings.plugins_listen.value.is_some();
    let served = server::http::Settings { test_seams: seams, ui_plugins, ..Default::default() };
    let is_traced = settings.otlp_endpoint.value.is_some();
    let names = server::http::capability_names(runs, &bare, &served, is_traced);
    let host = HostFacts { capabilities: Some(names), ..installed::host_facts(ui_plugins) };
    let (modules, agents) = load_packs(&installed, &host, settings.pack_fuel.value, seams)?;
    Ok(bare.with_packs(modules, agents))
}

fn failed(error: installed::LoadError) -> Failure {
    match error {
        installed::LoadError::Pack(error) => error.envelope().into(),
        installed::LoadError::Module(fault) => {
            let message = format!("the sandbox of packs cannot be made: {fault}");
            Envelope::new(storage::StoreErrorCode::StoreIo, message)
                .suggest("Check that the system lets this program make executable memory and threads.")
                .into()
        }
    }
}

/// The types of nodes and the agents that installed packs bring. A pack that cannot be served is told of, and the rest is served.
fn load_packs(
    installed: &InstalledPacks,
    host: &HostFacts,
    fuel: u64,
    seams: bool,
) -> Result<(Modules, Agents), Failure> {
    let (mut modules, unserved) = installed::load(installed, host, fuel).map_err(failed)?;
    if seams {
        modules = modules.with_examples().map_err(|fault| failed(fault.into()))?;
    }
    for Unserved { pack, code, message } in unserved {
        tracing::warn!(pack, code, message, "the nodes of a pack are not served");
    }
    let (agents, unserved) = installed::load_agents(installed, host).map_err(failed)?;
    for Unserved { pack, code, message } in unserved {
        tracing::warn!(pack, code, message, "the agents of a pack are not served");
    }
    Ok((modules, agents))
}

/// The templates of prompts that installed packs bring.
fn load_prompts(installed: &InstalledPacks) -> Result<Library, Failure> {
    let (templates, unserved) = installed::prompts(installed).map_err(|error| error.envelope())?;
    for Unserved { pack, code, message } in unserved {
        tracing::warn!(pack, code, message, "a prompt of a pack is not served");
    }
    let mut library = Library::new("host");
    templates.into_iter().for_each(|template| library.add(template));
    Ok(library)
}
