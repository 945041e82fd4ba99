//! Secrets by reference: workflows name them, the configuration says where they are, and their values are never shown.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::PathBuf;

use flow::id::Tenant;

/// The maximum size of a secret, in bytes. A private key with its certificates fits.
const MAX_SECRET_BYTES: u64 = 64 << 10;

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
    #[error("a reference to a secret must be `env:NAME` or `file:PATH`")]
    Reference,
    /// The tenant has no secret with that id.
    #[error("no secret has this id; add it to the table `secrets` of the configuration")]
    Unknown,
    /// The referenced value is missing, not UTF-8, or too large.
    #[error("the secret cannot be read from the location in the configuration")]
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
    fn no_secret_is_printed() {
        assert_eq!(format!("{:?}", SecretValue::new("x".into())), "SecretValue([REDACTED])");
    }
}
