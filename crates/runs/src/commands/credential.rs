//! Callers do not choose the credential of a model provider.

use flow::options::{named_provider, names_credential};
use serde_json::{Map, Value};

use super::Commands;
use crate::{ApiCode, Refusal};

impl Commands {
    /// Refuses a caller who chooses the credential of a provider.
    pub(super) fn refuse_credential(&self, configurable: &Map<String, Value>) -> Result<(), Refusal> {
        if !names_credential(configurable) {
            return Ok(());
        }
        if !self.uses.records.secrets().are_served() {
            let message =
                "this host has no secrets, so there is no credential to choose; remove `ai.credentialRef`";
            return Err(Refusal::new(ApiCode::CredentialUnavailable, message).detail("capability", "secrets"));
        }
        let message = "callers cannot choose a credential, because the settings define one for each provider; remove \
                       `ai.credentialRef`";
        let refusal = Refusal::new(ApiCode::CredentialForbidden, message);
        // Only a provider name that the host knows is repeated, because anything else might be a secret.
        let providers = self.uses.features.providers();
        let named = named_provider(configurable);
        let provider = match (named, providers.as_slice()) {
            (Some(named), _) => providers.iter().find(|provider| **provider == named),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        Err(match provider {
            Some(provider) => refusal.detail("provider", *provider),
            None => refusal,
        })
    }
}
