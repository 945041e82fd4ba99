//! The resources that nodes can use on this host.

mod envelopes;
mod models;
mod stores;

use std::sync::Arc;

use ai::prompt::library::Library;
use canon::error::Envelope;
use executors::agents::Agents;
use executors::installed::{self, Unserved};
use executors::modules::Modules;
use executors::{Executors, Options};
use packs::install::{HostFacts, InstalledPacks};
use server::http::RunFacts;
use system::secrets::Secrets;

use super::{http_access, mcp};
use crate::failure::Failure;
use crate::settings::Settings;

/// Opens the stores of the data directory and the services in the settings.
pub(super) fn open(
    settings: &Settings,
    planned: &runs::Options,
    secrets: Arc<dyn Secrets>,
    seams: bool,
) -> Result<Executors, Failure> {
    let surfaces = stores::open(settings, &planned.public_url, &*secrets)?;
    let installed = InstalledPacks::open(&settings.data_dir.value.join("packs"));
    let installed = installed.map_err(|error| error.envelope())?;
    let library = load_prompts(&installed)?;
    let bare = Executors::new(Options {
        surfaces: Some(Arc::new(surfaces)),
        modules: Some(installed::none().map_err(failed)?),
        agents: Some(Agents::default()),
        models: Some(models::open(settings, Arc::clone(&secrets), library, seams)?),
        http: Some(http_access::open(settings, Arc::clone(&secrets))?),
        mcp: Some(mcp::servers(settings, secrets)?),
    });
    // Packs may require any advertised capability, so these are determined before packs are loaded.
    let ui_plugins = settings.plugins_listen.value.is_some();
    let served = server::http::Settings { test_seams: seams, ui_plugins, ..Default::default() };
    let is_traced = settings.otlp_endpoint.value.is_some();
    let names = server::http::capability_names(RunFacts::planned(planned), &bare, &served, is_traced);
    let host = HostFacts { capabilities: Some(names), ..installed::host_facts(ui_plugins) };
    let (modules, agents) = load_packs(&installed, &host, settings.pack_fuel.value, seams)?;
    Ok(bare.with_packs(modules, agents))
}

fn failed(error: installed::LoadError) -> Failure {
    match error {
        installed::LoadError::Pack(error) => error.envelope().into(),
        installed::LoadError::Module(fault) => {
            let message = format!("cannot create the sandbox for packs: {fault}");
            Envelope::new(storage::StoreErrorCode::StoreIo, message)
                .suggest("Check that the system allows this program to create executable memory and threads.")
                .into()
        }
    }
}

/// The node types and agents of installed packs. A pack that cannot be served is logged and
/// skipped.
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
        tracing::warn!(pack, code = code.as_str(), message, "pack nodes not loaded");
    }
    let (agents, unserved) = installed::load_agents(installed, host).map_err(failed)?;
    for Unserved { pack, code, message } in unserved {
        tracing::warn!(pack, code = code.as_str(), message, "pack agents not loaded");
    }
    Ok((modules, agents))
}

/// The prompt templates of installed packs.
fn load_prompts(installed: &InstalledPacks) -> Result<Library, Failure> {
    let (templates, unserved) = installed::prompts(installed).map_err(|error| error.envelope())?;
    for Unserved { pack, code, message } in unserved {
        tracing::warn!(pack, code = code.as_str(), message, "pack prompt not loaded");
    }
    let mut library = Library::new("host");
    templates.into_iter().for_each(|template| library.add(template));
    Ok(library)
}
