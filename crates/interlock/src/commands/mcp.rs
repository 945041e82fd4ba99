//! `interlock mcp`.

use std::sync::Arc;

use server::GuideService;

use crate::arguments::{Globals, Mcp};
use crate::failure::{Answer, Failure};
use crate::service;
use crate::settings::Settings;

/// Serves one client until it hangs up.
pub(crate) fn run(arguments: &Mcp, globals: &Globals) -> Result<Answer, Failure> {
    let settings = Settings::load(globals)?.with_workflow_dirs(&arguments.workflows);
    let guided: Arc<dyn GuideService> = Arc::new(service::open_guided(&settings)?);
    server::run_stdio(guided).map_err(|error| Failure::Unwritable {
        name: "to the client".to_owned(),
        cause: std::io::Error::other(error),
    })?;
    Ok(Answer::Yes)
}
