//! The environment of an agent: variables, secrets, and everything else that is resolved at start.
//!
//! * [`variables`]: the layers of the environment, lowest first: base manifest, manifest,
//!   invocation, platform.
//! * [`secret`]: values that are never stored, and the port that provides them.
//! * [`local`]: that port for one machine. [`scrub`]: removes secrets from log text.
//! * [`resolved`]: the agent's identity and permissions, as pure functions of all layers.
//! * [`drift`]: the changes between two resolved environments.
//!
//! Only fetching in [`secret`] and [`local`] has side effects; the rest is pure.
//!
//! # Invariants
//! * A secret is in a [`Secret`], which cannot be serialised and prints only its name.
//! * Names reserved for the platform are refused on every path: in manifests when they are
//!   compiled, in overlays here.

pub mod drift;
pub mod local;
pub mod names;
pub mod resolved;
pub mod scrub;
pub mod secret;
pub mod variables;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::resolved::ResolvedEnvironment;
pub use self::scrub::Scrubber;
pub use self::secret::{Missing, Reason, Secret, SecretSource};
pub use self::variables::{Layer, Platform, Scope};

use self::secret::Fetched;
use self::variables::{Declared, Part};
use crate::manifest::{Bound, Credential};
use crate::{Code, Error};

pub const SECRET_TIMEOUT: Duration = Duration::from_secs(10);

/// A variable in a form that can be shown and stored: a secret is shown by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EnvVariable {
    pub name: String,
    /// Its value, unless it is secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The credentials in its value, which make the whole value secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<Vec<String>>,
    pub layer: Layer,
    /// Identifies the value without revealing it. Secrets have none, so rotating one is not drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// An environment with fetched secrets.
#[derive(Debug)]
#[non_exhaustive]
pub struct ResolvedVariables {
    /// All variables, sorted by name, for reports.
    pub env: Vec<EnvVariable>,
    /// Missing optional credentials, sorted by name.
    pub missing: Vec<Missing>,
    /// Variables that were skipped because of them.
    pub warnings: Vec<String>,
    values: Vec<(String, Secret)>,
    credentials: Vec<Secret>,
}

impl ResolvedVariables {
    /// Names and values for the agent's process, sorted by name. All are treated as secrets here:
    /// only a worker's control channel may carry them.
    pub fn values(&self) -> &[(String, Secret)] {
        &self.values
    }

    /// Credentials for tools that need them outside of variables.
    pub fn credentials(&self) -> &[Secret] {
        &self.credentials
    }

    /// A scrubber for these secrets.
    pub fn scrubber(&self) -> Scrubber {
        Scrubber::new(&self.credentials)
    }
}

/// Resolves the environment of a bound manifest: layers the variables, fetches each credential
/// once, and inserts them. `overlay` is the invocation's; `digest_key` is the organisation's.
///
/// # Errors
/// `ENV_RESERVED_NAME`, `ENV_VALUE_TOO_LARGE`, `VALIDATION_ERROR` for an invalid name and, after
/// all fetches, `ENV_REQUIRED_CREDENTIAL_MISSING` with every missing required credential.
pub fn resolve(
    bound: &Bound,
    overlay: &[(String, String)],
    platform: &Platform,
    digest_key: &[u8],
    source: &Arc<dyn SecretSource>,
) -> Result<ResolvedVariables, Error> {
    let declared = variables::layered(&bound.manifest.env, overlay, platform)?;
    let fetched = secret::fetch_all(source, &bound.credentials, SECRET_TIMEOUT);
    fill(&declared, &bound.credentials, fetched, digest_key)
}

/// The pure part of [`resolve`].
fn fill(
    declared: &[Declared],
    credentials: &[Credential],
    fetched: Fetched,
    digest_key: &[u8],
) -> Result<ResolvedVariables, Error> {
    let Fetched { secrets, missing } = fetched;
    let required: Vec<&Missing> = missing.iter().filter(|missing| missing.required).collect();
    if !required.is_empty() {
        return Err(required_missing(&required));
    }
    let mut outcome = ResolvedVariables {
        env: Vec::new(),
        missing,
        warnings: Vec::new(),
        values: Vec::new(),
        credentials: Vec::new(),
    };
    let mut total = 0;
    for variable in declared {
        let names = variable.credentials();
        let absent = names.iter().find(|name| !secrets.contains_key(**name));
        if let Some(absent) = absent {
            let message = format!("{} is not set, because the credential {absent} is missing", variable.name);
            outcome.warnings.push(message);
            continue;
        }
        let value = variable.parts.iter().map(|part| match part {
            Part::Text(text) => text.as_str(),
            Part::Credential(name) => secrets.get(name).map_or("", |secret| secret.expose()),
        });
        let value = Secret::joined(&names, &variable.name, value);
        total += variables::check_size(&variable.name, value.expose().len(), total)?;
        let is_secret = !names.is_empty();
        outcome.env.push(EnvVariable {
            name: variable.name.clone(),
            value: (!is_secret).then(|| value.expose().to_owned()),
            secret_ref: is_secret.then(|| names.iter().map(|name| (*name).to_owned()).collect()),
            layer: variable.layer,
            digest: (!is_secret).then(|| variables::digest(digest_key, value.expose())),
        });
        outcome.values.push((variable.name.clone(), value));
    }
    let mut secrets = secrets;
    outcome.credentials =
        credentials.iter().filter_map(|credential| secrets.remove(&credential.name)).collect();
    Ok(outcome)
}

fn required_missing(required: &[&Missing]) -> Error {
    let named: Vec<String> = required
        .iter()
        .map(|missing| format!("{} ({}, {})", missing.name, missing.kind, missing.reason))
        .collect();
    let message = format!("required credentials are missing: {}", named.join(", "));
    let details: Vec<serde_json::Value> = required.iter().map(|missing| missing.details()).collect();
    Error::new(Code::EnvRequiredCredentialMissing, message).detail("missing", details)
}
