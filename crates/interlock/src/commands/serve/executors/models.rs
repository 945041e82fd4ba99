//! The model providers in the settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use ai::prompt::library::Library;
use ai::provider::http::BaseUrl;
use ai::provider::{anthropic, openai};
use canon::error::Envelope;
use executors::models::{MOCK, Models, Options, Provider, Wire};
use system::secrets::Secrets;

use super::envelopes;
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

/// The models in the settings, and the prompts that workflows can use. With `mock`, a mock model is
/// added.
pub(super) fn open(
    settings: &Settings,
    secrets: Arc<dyn Secrets>,
    library: Library,
    mock: bool,
) -> Result<Models, Failure> {
    let mut providers = BTreeMap::new();
    let mut default = None;
    for (name, members) in &settings.models.value {
        let member = |member: &str| members.get(member).map(String::as_str);
        let wrong = |message: &str, help: &str| -> Failure {
            let message = format!("`models.{name}`: {message}");
            Envelope::new(CommandErrorCode::ConfigInvalid, message).suggest(help).into()
        };
        if name == MOCK {
            return Err(wrong("the name `mock` is reserved", "Choose another name."));
        }
        let (wire, base) = match member("kind") {
            Some("openai") => (Wire::OpenAi, openai::DEFAULT_BASE),
            Some("anthropic") => (Wire::Anthropic, anthropic::DEFAULT_BASE),
            _ => {
                return Err(wrong(
                    "`kind` must be `openai` or `anthropic`",
                    "Set `kind` to the API of the server.",
                ));
            }
        };
        let base = BaseUrl::parse(member("base_url").unwrap_or(base)).map_err(|error| {
            wrong(&format!("`base_url`: {error}"), "Use a URL such as `http://127.0.0.1:8080/v1`.")
        })?;
        let secret = member("secret").map(str::to_owned);
        if let Some(secret) = &secret
            && !settings.secrets.value.contains_key(secret)
        {
            let message = format!("unknown secret `{secret}`");
            return Err(wrong(&message, "Add it to the table `secrets` as `env:NAME` or `file:/path`."));
        }
        if member("default") == Some("true") && default.replace(name.clone()).is_some() {
            return Err(wrong(
                "another provider is already the default",
                "Set `default = true` for only one of them.",
            ));
        }
        providers
            .insert(name.clone(), Provider { wire, base, secret, model: member("model").map(str::to_owned) });
    }
    // A single provider is the default.
    if default.is_none() && providers.len() == 1 {
        default = providers.keys().next().cloned();
    }
    let kinds = envelopes::kinds(settings)?;
    let outbound = outbound::Client::new(outbound::Reach::Anywhere);
    Ok(Models::new(Options { providers, default, library, secrets, outbound, kinds, mock }))
}
