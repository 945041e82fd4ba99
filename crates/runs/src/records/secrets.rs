//! The secrets of the host: keeps their values out of records, and shows nodes what they may see of them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use canon::digest::Digest;
use executors::failure::ExecutorErrorCode;
use flow::id::Tenant;
use flow::state::RunError;
use serde_json::{Map, Value, json};
use system::secrets::{SecretValue, Secrets};

/// The minimum size of a secret that is redacted from text, in bytes. Shorter ones occur in ordinary words.
const MIN_REDACTED_BYTES: usize = 4;

/// The values to redact, by tenant. They are separate because the redaction must not reveal secrets of another tenant.
#[derive(Default)]
struct Resolved(RwLock<BTreeMap<Tenant, Vec<(String, String)>>>);

impl Resolved {
    fn learn(&self, tenant: &Tenant, secret_id: &str, value: &SecretValue) {
        if value.expose().len() < MIN_REDACTED_BYTES {
            return;
        }
        let mut tenants = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let known = tenants.entry(tenant.to_owned()).or_default();
        if known.iter().all(|(known, _)| known != value.expose()) {
            known.push((value.expose().to_owned(), secret_id.to_owned()));
            // Longest first, so that a secret that contains another is replaced as a whole.
            known.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        }
    }

    fn is_known(&self, tenant: &Tenant) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains_key(tenant)
    }

    fn redact(&self, tenant: &Tenant, value: &mut Value) {
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

/// The secrets of the host, and the values that are redacted because of them.
pub(crate) struct KnownSecrets {
    secrets: Arc<dyn Secrets>,
    resolved: Resolved,
}

impl KnownSecrets {
    /// Reads all secrets, so that they are redacted from records even before a node uses them.
    pub(super) fn read(secrets: Arc<dyn Secrets>) -> Self {
        let resolved = Resolved::default();
        for (tenant, id) in secrets.known() {
            if let Ok(value) = secrets.resolve(&tenant, &id) {
                resolved.learn(&tenant, &id, &value);
            }
        }
        Self { secrets, resolved }
    }

    /// Whether any secrets are configured.
    pub(crate) fn are_served(&self) -> bool {
        !self.secrets.known().is_empty()
    }

    /// Whether values of the tenant are redacted.
    pub(crate) fn are_known_of(&self, tenant: &Tenant) -> bool {
        self.resolved.is_known(tenant)
    }

    /// Removes what looks like a credential, and known secrets of the tenant.
    pub(crate) fn redact(&self, tenant: &Tenant, value: &mut Value) {
        self.resolved.redact(tenant, value);
        flow::redact::value(value);
    }

    /// Removes known secrets of the tenant.
    pub(crate) fn redact_known(&self, tenant: &Tenant, value: &mut Value) {
        self.resolved.redact(tenant, value);
    }

    /// What a node may see of a secret: its digest and its length.
    pub(crate) fn fingerprint(&self, tenant: &Tenant, secret_id: &str) -> Result<Value, RunError> {
        match self.secrets.resolve(tenant, secret_id) {
            Ok(value) => {
                self.resolved.learn(tenant, secret_id, &value);
                let digest = Digest::of_bytes(value.expose().as_bytes()).to_hex();
                Ok(json!({"secretSha256": digest, "secretLength": value.expose().chars().count()}))
            }
            Err(_) if !self.are_served() => {
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
}
