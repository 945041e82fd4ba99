//! The caller of an operation, and its scopes.

use std::fmt;

use flow::id::{Principal, Tenant};
use serde::{Deserialize, Serialize};

macro_rules! scopes {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)+) => {
        /// A scope of an API key. No scope implies another.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Scope {
            $($(#[$doc])* #[serde(rename = $text)] $name,)+
        }

        impl Scope {
            /// All scopes.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The name of the scope in the protocol.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

scopes! {
    /// Read workflows.
    ManifestRead => "manifest:read",
    /// Register workflows.
    ManifestWrite => "manifest:write",
    /// Create runs.
    RunsCreate => "runs:create",
    /// Read runs.
    RunsRead => "runs:read",
    /// Annotate runs.
    RunsAnnotate => "runs:annotate",
    /// Cancel, pause and resume runs.
    RunsCancel => "runs:cancel",
    /// Read artifacts.
    ArtifactsRead => "artifacts:read",
    /// Manage webhook subscriptions.
    WebhooksManage => "webhooks:manage",
    /// Reply to interrupts.
    ApprovalsRespond => "approvals:respond",
    /// Read guided sessions and guided workflows.
    SessionsRead => "sessions:read",
    /// Begin and advance guided sessions.
    SessionsDrive => "sessions:drive",
    /// Publish and unpublish packs.
    PacksPublish => "packs:publish",
    /// Yank versions of packs.
    PacksYank => "packs:yank",
    /// Restore yanked versions of packs.
    PacksYankRevert => "packs:yank-revert",
    /// Read the audit log.
    AuditRead => "audit:read",
    /// Administer the host.
    Admin => "host:admin",
}

impl Scope {
    /// The scopes of a key that was created without naming scopes: everything in its tenant, nothing of the host itself.
    pub fn of_a_tenant() -> Vec<Self> {
        Self::ALL.iter().copied().filter(|scope| *scope != Self::Admin).collect()
    }

    /// Parses the name of a scope.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.as_str() == text)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The tenant whose data the caller uses.
    pub tenant: Tenant,
    /// An opaque id of the key, never the key itself.
    pub principal: Principal,
    pub scopes: Vec<Scope>,
    /// Whether the key is a test key.
    pub test: bool,
}

impl Caller {
    /// Whether the caller has a scope.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }
}
