//! The providers of models that the settings name.

use std::collections::BTreeMap;
use std::sync::Arc;

use ai::prompt::library::Library;
use ai::provider::http::BaseUrl;
use ai::provider::{anthropic, openai};
use canon::error::Envelope;
use host::hands::models::{MOCK, Models, Options, Provider, Wire};
use host::runs::secrets::Secrets;

use super::envelopes;
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

/// The models of the settings, and the prompts that workflows may refer to. With `mock`, one that pretends may be asked too.
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
            return Err(wrong("the name `mock` is taken", "Choose another name."));
        }
        let (wire, base) = match member("kind") {
            Some("openai") => (Wire::OpenAi, openai::DEFAULT_BASE),
            Some("anthropic") => (Wire::Anthropic, anthropic::DEFAULT_BASE),
            _ => return Err(wrong("`kind` is `openai` or `anthropic`", "Write what the server speaks.")),
        };
        let base = BaseUrl::parse(member("base_url").unwrap_or(base)).map_err(|error| {
            wrong(&format!("`base_url`: {error}"), "Write an address such as `http://127.0.0.1:8080/v1`.")
        })?;
        let secret = member("secret").map(str::to_owned);
        if let Some(secret) = &secret
            && !settings.secrets.value.contains_key(secret)
        {
            let message = format!("there is no secret `{secret}`");
            return Err(wrong(&message, "Add it to the table `secrets`, as `env:NAME` or `file:/path`."));
        }
        if member("default") == Some("true") && default.replace(name.clone()).is_some() {
            return Err(wrong(
                "another provider is the default already",
                "Keep `default = true` at one of them.",
            ));
        }
        providers
            .insert(name.clone(), Provider { wire, base, secret, model: member("model").map(str::to_owned) });
    }
    // Where there is only one, it is meant.
    if default.is_none() && providers.len() == 1 {
        default = providers.keys().next().cloned();
    }
    let kinds = envelopes::kinds(settings)?;
    let outbound = outbound::Client::new(outbound::Reach::Anywhere);
    Ok(Models::new(Options { providers, default, library, secrets, outbound, kinds, mock }))
}
