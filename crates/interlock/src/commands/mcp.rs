//! `interlock mcp`.

mod clients;
mod configure;
mod edit;
mod entry;

use std::sync::Arc;

use server::GuideService;

use crate::arguments::{Globals, Mcp, McpCommand};
use crate::failure::{Answer, Failure};
use crate::service;
use crate::settings::Settings;

/// Serves one client until it disconnects, or changes the configuration of one.
pub(crate) fn run(arguments: &Mcp, globals: &Globals) -> Result<Answer, Failure> {
    match &arguments.command {
        Some(McpCommand::Install(install)) => configure::install(install, globals),
        Some(McpCommand::Uninstall(uninstall)) => configure::uninstall(uninstall),
        None => serve(arguments, globals),
    }
}

fn serve(arguments: &Mcp, globals: &Globals) -> Result<Answer, Failure> {
    let settings = Settings::load(globals)?.with_workflow_dirs(&arguments.workflows);
    let guided: Arc<dyn GuideService> = Arc::new(service::open_guided(&settings)?);
    server::run_stdio(guided).map_err(|error| Failure::Unwritable {
        name: "to the client".to_owned(),
        cause: std::io::Error::other(error),
    })?;
    Ok(Answer::Yes)
}
