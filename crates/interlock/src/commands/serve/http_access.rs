//! What nodes may request over HTTP.

use std::sync::Arc;

use canon::error::Envelope;
use executors::http_request::{Credential, HttpAccess};
use system::secrets::Secrets;

use crate::failure::{CommandErrorCode, Failure};
use crate::settings::{EgressUse, Settings};

pub(super) fn open(settings: &Settings, secrets: Arc<dyn Secrets>) -> Result<HttpAccess, Failure> {
    let client = outbound::Client::new(settings.private_networks.value.reach(EgressUse::Http));
    let mut access = HttpAccess::new(client, settings.http_hosts.value.clone(), secrets);
    for (name, credential) in &settings.http_credentials.value {
        if !settings.secrets.value.contains_key(&credential.secret) {
            let message =
                format!("`http.credentials.{name}.secret` names a secret that is not in the table `secrets`");
            return Err(Envelope::new(CommandErrorCode::ConfigInvalid, message)
                .suggest("Add it there as `env:NAME` or `file:/path`.")
                .into());
        }
        let header = credential.header.as_deref().unwrap_or("authorization").to_ascii_lowercase();
        if http::HeaderName::from_bytes(header.as_bytes()).is_err() || header == "host" || header == "cookie"
        {
            let message =
                format!("`http.credentials.{name}.header` is not the name of a header for a credential");
            return Err(Envelope::new(CommandErrorCode::ConfigInvalid, message)
                .suggest("Use `authorization`, or the header that the server documents, such as `x-api-key`.")
                .into());
        }
        let default = if header == "authorization" { "Bearer " } else { "" };
        let prefix = credential.prefix.clone().unwrap_or_else(|| default.to_owned());
        let (secret, audience) = (credential.secret.clone(), credential.audience.clone());
        access = access
            .with(name, Credential { secret, audience, header, prefix, tenants: credential.tenants.clone() });
    }
    Ok(access)
}
