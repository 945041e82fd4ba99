//! External MCP servers that nodes can use.

use std::sync::Arc;

use canon::error::Envelope;
use executors::mcp::Servers;
use system::secrets::Secrets;

use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

pub(super) fn servers(settings: &Settings, secrets: Arc<dyn Secrets>) -> Result<Servers, Failure> {
    let mut servers = Servers::new(secrets);
    for (id, server) in &settings.mcp_servers.value {
        if let Some(secret) = &server.secret
            && !settings.secrets.value.contains_key(secret)
        {
            let message =
                format!("`mcp.servers.{id}.secret` names a secret that is not in the table `secrets`");
            return Err(Envelope::new(CommandErrorCode::ConfigInvalid, message)
                .suggest("Add it there as `env:NAME` or `file:/path`.")
                .into());
        }
        servers = servers.with(id, &server.url, server.secret.clone(), server.tenants.clone()).map_err(
            |error| {
                Envelope::new(CommandErrorCode::ConfigInvalid, format!("`mcp.servers.{id}.url`: {error}"))
                    .suggest("Use the URL of the server, such as `https://mcp.example/mcp`.")
            },
        )?;
    }
    Ok(servers)
}
