//! A call of a surface.

use canon::time::Timestamp;
use serde_json::{Map, Value};

use crate::error::{Code, SurfaceError};

/// The maximum length of a tenant name, in bytes.
pub const MAX_TENANT_BYTES: usize = 128;

/// A tenant name that is valid in keys and folder names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(String);

impl Tenant {
    /// Parses a tenant name.
    ///
    /// # Errors
    /// `invalid_argument`: it is empty, too long, starts with a dot, or has characters other than letters, digits, `-`,
    /// `_`, `.` and `:`.
    pub fn new(name: &str) -> Result<Self, SurfaceError> {
        let fit = !name.is_empty()
            && name.len() <= MAX_TENANT_BYTES
            && !name.starts_with('.')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
        if fit {
            return Ok(Self(name.to_owned()));
        }
        let message = format!(
            "`tenantId` must be 1 to {MAX_TENANT_BYTES} letters, digits, `-`, `_`, `.` or `:`, and must \
                not start with a dot"
        );
        Err(SurfaceError::new(Code::InvalidArgument, message))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Surface {
    Fs,
    Kv,
    Table,
    Cache,
    Blob,
    Queue,
    Sql,
    Vector,
    Search,
}

impl Surface {
    pub const ALL: [Self; 9] = [
        Self::Fs,
        Self::Kv,
        Self::Table,
        Self::Cache,
        Self::Blob,
        Self::Queue,
        Self::Sql,
        Self::Vector,
        Self::Search,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fs => "fs",
            Self::Kv => "kv",
            Self::Table => "table",
            Self::Cache => "cache",
            Self::Blob => "blob",
            Self::Queue => "queueBus",
            Self::Sql => "sql",
            Self::Vector => "vector",
            Self::Search => "search",
        }
    }

    /// Parses a wire name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|surface| surface.as_str() == text)
    }
}

#[derive(Clone, Debug)]
pub struct SurfaceCall {
    pub tenant: Tenant,
    pub surface: Surface,
    pub op: String,
    pub args: Map<String, Value>,
    /// The effect id. A change is applied at most once per id; a repeated call returns the first result.
    pub effect: Option<String>,
    pub now: Timestamp,
}

impl SurfaceCall {
    /// The context of the call.
    pub fn scope(&self) -> Scope {
        Scope { tenant: self.tenant.clone(), effect: self.effect.clone(), now: self.now }
    }
}

/// The context of every port call: tenant, time and effect id.
#[derive(Clone, Debug)]
pub struct Scope {
    pub tenant: Tenant,
    /// The effect id; a change is applied at most once per id.
    pub effect: Option<String>,
    pub now: Timestamp,
}

impl Scope {
    /// A scope without an effect id.
    pub const fn new(tenant: Tenant, now: Timestamp) -> Self {
        Self { tenant, effect: None, now }
    }

    /// Sets the effect id.
    #[must_use]
    pub fn with_effect(mut self, effect: impl Into<String>) -> Self {
        self.effect = Some(effect.into());
        self
    }

    /// The time as a database integer.
    pub fn at(&self) -> i64 {
        i64::try_from(self.now.0).unwrap_or(i64::MAX)
    }

    /// The expiry after that many milliseconds, as a database integer.
    pub fn expiry(&self, ttl_ms: Option<u64>) -> Option<i64> {
        ttl_ms.map(|ttl| self.at().saturating_add(i64::try_from(ttl).unwrap_or(i64::MAX)))
    }
}
