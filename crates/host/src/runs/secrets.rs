//! Secrets by reference: workflows name them, the configuration says where they are, and their values are never shown.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use canon::digest::Digest;
use flow::id::Tenant;
use flow::options::{named_provider, names_credential};
use flow::state::RunError;
use serde_json::{Map, Value, json};

use super::{ApiCode, Refusal, Runs};
use crate::executors::failure::ExecutorErrorCode;

/// The maximum size of a secret, in bytes. A private key with its certificates fits.
const MAX_SECRET_BYTES: u64 = 64 << 10;
/// The minimum size of a secret that is redacted from text, in bytes. Shorter ones occur in ordinary words.
const MIN_REDACTED_BYTES: usize = 4;

/// The value of a secret. It cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(String);

impl SecretValue {
    pub const fn new(value: String) -> Self {
        Self(value)
    }

    /// The value itself, for code that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretValue([REDACTED])")
    }
}

/// Why a secret has no value. Messages never contain a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The reference is malformed.
    #[error("a reference to a secret is `env:NAME` or `file:PATH`")]
    Reference,
    /// The tenant has no secret with that id.
    #[error("there is no secret of this id; add it to the table `secrets` of the configuration")]
    Unknown,
    /// The referenced value is missing, not UTF-8, or too large.
    #[error("the secret cannot be read where the configuration says that it is")]
    Unreadable,
}

/// The source of secrets.
pub trait Secrets: Send + Sync {
    /// The value of a tenant's secret.
    ///
    /// # Errors
    /// If there is no such secret, or it cannot be read.
    fn resolve(&self, tenant: &Tenant, secret_id: &str) -> Result<SecretValue, SecretError>;

    /// All secrets, as tenant and id.
    fn known(&self) -> Vec<(Tenant, String)>;
}

/// A host without secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

impl Secrets for NoSecrets {
    fn resolve(&self, _: &Tenant, _: &str) -> Result<SecretValue, SecretError> {
        Err(SecretError::Unknown)
    }

    fn known(&self) -> Vec<(Tenant, String)> {
        Vec::new()
    }
}

/// The location of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretReference {
    /// An environment variable.
    Environment(String),
    File(PathBuf),
}

impl SecretReference {
    /// Parses `env:NAME` or `file:PATH`.
    ///
    /// # Errors
    /// [`SecretError::Reference`] if the reference is malformed.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() && !name.contains(['=', '\0']) => {
                Ok(Self::Environment(name.to_owned()))
            }
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err(SecretError::Reference),
        }
    }

    /// Reads the current value.
    ///
    /// # Errors
    /// [`SecretError::Unreadable`] if the value cannot be read.
    pub fn read(&self) -> Result<SecretValue, SecretError> {
        let text = match self {
            Self::Environment(name) => std::env::var(name).map_err(|_| SecretError::Unreadable)?,
            Self::File(path) => {
                let file = std::fs::File::open(path).map_err(|_| SecretError::Unreadable)?;
                // The read is limited, because a device could be read forever. Reading a folder fails here.
                let mut text = String::new();
                let mut limited = file.take(MAX_SECRET_BYTES + 1);
                limited.read_to_string(&mut text).map_err(|_| SecretError::Unreadable)?;
                // Editors end files with a newline, which is not part of the secret.
                let end = text.trim_end_matches(['\r', '\n']).len();
                text.truncate(end);
                text
            }
        };
        let fits = !text.is_empty() && text.len() as u64 <= MAX_SECRET_BYTES;
        fits.then_some(SecretValue(text)).ok_or(SecretError::Unreadable)
    }
}

/// The secrets of a configuration. Values are read whenever they are needed, so a rotated file takes effect immediately.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredSecrets(BTreeMap<(Tenant, String), SecretReference>);

impl ConfiguredSecrets {
    /// Creates the secrets from tenant, id and reference.
    pub fn new(secrets: impl IntoIterator<Item = (Tenant, String, SecretReference)>) -> Self {
        Self(secrets.into_iter().map(|(tenant, id, reference)| ((tenant, id), reference)).collect())
    }
}

impl Secrets for ConfiguredSecrets {
    fn resolve(&self, tenant: &Tenant, secret_id: &str) -> Result<SecretValue, SecretError> {
        let reference = self.0.get(&(tenant.to_owned(), secret_id.to_owned()));
        reference.ok_or(SecretError::Unknown)?.read()
    }

    fn known(&self) -> Vec<(Tenant, String)> {
        self.0.keys().cloned().collect()
    }
}

/// The values to redact, by tenant. They are separate because the redaction must not reveal secrets of another tenant.
#[derive(Default)]
pub(super) struct Resolved(RwLock<BTreeMap<Tenant, Vec<(String, String)>>>);

impl Resolved {
    pub(super) fn learn(&self, tenant: &Tenant, secret_id: &str, value: &SecretValue) {
        if value.0.len() < MIN_REDACTED_BYTES {
            return;
        }
        let mut tenants = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let known = tenants.entry(tenant.to_owned()).or_default();
        if known.iter().all(|(known, _)| *known != value.0) {
            known.push((value.0.clone(), secret_id.to_owned()));
            // Longest first, so that a secret that contains another is replaced as a whole.
            known.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        }
    }

    pub(super) fn is_known(&self, tenant: &Tenant) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains_key(tenant)
    }

    pub(super) fn redact(&self, tenant: &Tenant, value: &mut Value) {
        let tenants = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = tenants.get(tenant) {
            replace(value, known);
        }
    }
}

fn replaced(text: &str, known: &[(String, String)]) -> Option<String> {
    let mut changed: Option<String> = None;
    for (value, id) in known {
        let now = changed.as_deref().unwrap_or(text);
        if now.contains(value) {
            changed = Some(now.replace(value, &format!("[REDACTED:{id}]")));
        }
    }
    changed
}

fn replace(value: &mut Value, known: &[(String, String)]) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => {
                if let Some(clean) = replaced(text, known) {
                    *text = clean;
                }
            }
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                if members.keys().any(|name| replaced(name, known).is_some()) {
                    let renamed: Map<_, _> = std::mem::take(members)
                        .into_iter()
                        .map(|(name, value)| (replaced(&name, known).unwrap_or(name), value))
                        .collect();
                    *members = renamed;
                }
                open.extend(members.values_mut());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

impl Runs {
    /// Whether any secrets are configured.
    pub fn serves_secrets(&self) -> bool {
        !self.inner.options.secrets.known().is_empty()
    }

    /// Refuses a caller who chooses the credential of a provider.
    pub(super) fn refuse_credential(&self, configurable: &Map<String, Value>) -> Result<(), Refusal> {
        if !names_credential(configurable) {
            return Ok(());
        }
        if !self.serves_secrets() {
            let message =
                "this host has no secrets, so there is no credential to choose; leave `ai.credentialRef` out";
            return Err(Refusal::new(ApiCode::CredentialUnavailable, message).detail("capability", "secrets"));
        }
        let message = "callers choose no credential here, the settings have one for each provider; leave \
                       `ai.credentialRef` out";
        let refusal = Refusal::new(ApiCode::CredentialForbidden, message);
        // Only a provider name that the host knows is repeated, because anything else might be a secret.
        let providers = self.providers();
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

    /// Reads all secrets, so that they are redacted from records even before a node uses them.
    pub(super) fn learn_secrets(&self) {
        let secrets = &self.inner.options.secrets;
        for (tenant, id) in secrets.known() {
            if let Ok(value) = secrets.resolve(&tenant, &id) {
                self.inner.resolved.learn(&tenant, &id, &value);
            }
        }
    }

    /// Removes what looks like a credential, and known secrets of the tenant.
    pub(super) fn redact(&self, tenant: &Tenant, value: &mut Value) {
        self.inner.resolved.redact(tenant, value);
        flow::redact::value(value);
    }

    /// Removes known secrets of the tenant.
    pub(super) fn redact_known(&self, tenant: &Tenant, value: &mut Value) {
        self.inner.resolved.redact(tenant, value);
    }

    /// What a node may see of a secret: its digest and its length.
    pub(super) fn fingerprint(&self, tenant: &Tenant, secret_id: &str) -> Result<Value, RunError> {
        match self.inner.options.secrets.resolve(tenant, secret_id) {
            Ok(value) => {
                self.inner.resolved.learn(tenant, secret_id, &value);
                let digest = Digest::of_bytes(value.0.as_bytes()).to_hex();
                Ok(json!({"secretSha256": digest, "secretLength": value.0.chars().count()}))
            }
            Err(_) if !self.serves_secrets() => {
                let error =
                    RunError::of(ExecutorErrorCode::CredentialUnavailable, "this host has no secrets");
                Err(error.with(json!({"capability": "secrets"})))
            }
            Err(error) => {
                let error = RunError::of(ExecutorErrorCode::CredentialRequired, error.to_string());
                Err(error.with(json!({"requirement": secret_id})))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_what_they_come_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "hunter2-hunter2\n").unwrap();
        let reference = SecretReference::parse(&format!("file:{}", path.display())).unwrap();
        let secrets = ConfiguredSecrets::new([(Tenant::new("acme"), "s".into(), reference)]);
        assert_eq!(secrets.resolve(&Tenant::new("acme"), "s").unwrap().expose(), "hunter2-hunter2");
        assert_eq!(secrets.resolve(&Tenant::new("other"), "s"), Err(SecretError::Unknown));
        std::fs::write(&path, "rotated-value").unwrap();
        assert_eq!(secrets.resolve(&Tenant::new("acme"), "s").unwrap().expose(), "rotated-value");
        for unreadable in [String::new(), "x".repeat(65 << 10)] {
            std::fs::write(&path, unreadable).unwrap();
            assert_eq!(secrets.resolve(&Tenant::new("acme"), "s"), Err(SecretError::Unreadable));
        }
        for text in ["", "env:", "file:", "plain", "env:A=B", "http:x"] {
            assert_eq!(SecretReference::parse(text), Err(SecretError::Reference), "{text}");
        }
    }

    #[test]
    fn a_known_value_is_replaced_wherever_it_stands_and_only_for_its_tenant() {
        let resolved = Resolved::default();
        resolved.learn(&Tenant::new("acme"), "inner", &SecretValue::new("hunter".into()));
        resolved.learn(&Tenant::new("acme"), "outer", &SecretValue::new("hunter-two".into()));
        resolved.learn(&Tenant::new("acme"), "short", &SecretValue::new("abc".into()));
        let document = || json!({"hunter": ["x hunter-two y", {"z": "abc hunter"}], "n": 1});
        let mut mine = document();
        resolved.redact(&Tenant::new("acme"), &mut mine);
        assert_eq!(
            mine,
            json!({"[REDACTED:inner]": ["x [REDACTED:outer] y", {"z": "abc [REDACTED:inner]"}], "n": 1})
        );
        let mut theirs = document();
        resolved.redact(&Tenant::new("other"), &mut theirs);
        assert_eq!(theirs, document());
    }

    #[test]
    fn no_secret_is_printed() {
        assert_eq!(format!("{:?}", SecretValue::new("x".into())), "SecretValue([REDACTED])");
    }
}
