//! `interlock mcp`.

mod clients;
mod configure;
mod edit;
mod entry;

use std::sync::Arc;

use guided::Workspaces;
use server::GuideService;

use crate::arguments::{Globals, Mcp, McpCommand};
use crate::failure::{ExitStatus, Failure};
use crate::service;
use crate::settings::Settings;

/// Serves one client until it disconnects, or changes the configuration of one.
pub(crate) fn run(arguments: &Mcp, globals: &Globals) -> Result<ExitStatus, Failure> {
    match &arguments.command {
        Some(McpCommand::Install(install)) => configure::install(install, globals),
        Some(McpCommand::Uninstall(uninstall)) => configure::uninstall(uninstall),
        None => serve(arguments, globals),
    }
}

fn serve(arguments: &Mcp, globals: &Globals) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(globals)?.with_workflow_dirs(&arguments.workflows);
    // The user who starts this process can run commands anyway, in any folder.
    let verifier = Arc::new(service::verifier(&settings, Workspaces::Any));
    let guided: Arc<dyn GuideService> = Arc::new(service::open_guided(&settings, Arc::clone(&verifier))?);
    let served = server::run_stdio(guided);
    verifier.stop();
    served.map_err(|error| Failure::Unwritable {
        name: "to the client".to_owned(),
        cause: std::io::Error::other(error),
    })?;
    Ok(ExitStatus::Success)
}
