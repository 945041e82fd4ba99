//! One call of a surface.

use canon::time::Timestamp;
use serde_json::{Map, Value};

use crate::error::{Code, SurfaceError};

/// How many bytes a tenant's name may have.
pub const MAX_TENANT_BYTES: usize = 128;

/// A tenant, by a name that is fit to be a key and a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(String);

impl Tenant {
    /// The tenant of that name.
    ///
    /// # Errors
    /// `invalid_argument`: it is blank, too long, or has characters other than letters, digits, `-`, `_`, `.` and `:`, or begins with a dot.
    pub fn new(name: &str) -> Result<Self, SurfaceError> {
        let fit = !name.is_empty()
            && name.len() <= MAX_TENANT_BYTES
            && !name.starts_with('.')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
        if fit {
            return Ok(Self(name.to_owned()));
        }
        let message = format!(
            "`tenantId` names a tenant: 1 to {MAX_TENANT_BYTES} letters, digits, `-`, `_`, `.` or `:`, and no dot first"
        );
        Err(SurfaceError::new(Code::InvalidArgument, message))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Surface {
    /// Files.
    Fs,
    /// Keys and values.
    Kv,
    /// Tables of rows.
    Table,
    /// Values that may be forgotten.
    Cache,
    /// Objects of bytes.
    Blob,
    /// Messages and streams.
    Queue,
    /// Databases that speak SQL.
    Sql,
    /// Vectors.
    Vector,
    /// Texts.
    Search,
}

impl Surface {
    /// Every surface.
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

    /// The spelling in a call.
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

    /// The surface of that spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|surface| surface.as_str() == text)
    }
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// For whom.
    pub tenant: Tenant,
    /// Of what.
    pub surface: Surface,
    /// Which operation.
    pub op: String,
    /// With what.
    pub args: Map<String, Value>,
    /// The identity under which a change is made at most once; the second call gets the answer of the first.
    pub effect: Option<String>,
    /// When.
    pub now: Timestamp,
}

impl Call {
    /// What the call brings beside its operation.
    pub fn scope(&self) -> Scope {
        Scope { tenant: self.tenant.clone(), effect: self.effect.clone(), now: self.now }
    }
}

/// What every port is told beside the arguments: for whom, when, and under which identity.
#[derive(Clone, Debug)]
pub struct Scope {
    /// For whom.
    pub tenant: Tenant,
    /// The identity under which a change is made at most once.
    pub effect: Option<String>,
    /// When.
    pub now: Timestamp,
}

impl Scope {
    /// A scope without an effect's identity.
    pub const fn new(tenant: Tenant, now: Timestamp) -> Self {
        Self { tenant, effect: None, now }
    }

    /// The same scope under that identity.
    #[must_use]
    pub fn with_effect(mut self, effect: impl Into<String>) -> Self {
        self.effect = Some(effect.into());
        self
    }

    /// The moment, as databases keep it.
    pub fn at(&self) -> i64 {
        i64::try_from(self.now.0).unwrap_or(i64::MAX)
    }

    /// The moment so many milliseconds later, as databases keep it.
    pub fn expiry(&self, ttl_ms: Option<u64>) -> Option<i64> {
        ttl_ms.map(|ttl| self.at().saturating_add(i64::try_from(ttl).unwrap_or(i64::MAX)))
    }
}
