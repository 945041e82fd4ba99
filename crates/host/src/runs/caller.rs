//! Who asks, and what they may ask for.

use std::fmt;

use flow::id::{Principal, Tenant};
use serde::{Deserialize, Serialize};

macro_rules! scopes {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)+) => {
        /// A right that a key may have. None implies another.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Scope {
            $($(#[$doc])* #[serde(rename = $text)] $name,)+
        }

        impl Scope {
            /// Every right.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The spelling.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

scopes! {
    /// Reading workflows.
    ManifestRead => "manifest:read",
    /// Registering workflows.
    ManifestWrite => "manifest:write",
    /// Creating runs.
    RunsCreate => "runs:create",
    /// Reading runs.
    RunsRead => "runs:read",
    /// Adding notes to runs.
    RunsAnnotate => "runs:annotate",
    /// Ending, halting and continuing runs.
    RunsCancel => "runs:cancel",
    /// Reading artifacts.
    ArtifactsRead => "artifacts:read",
    /// Subscribing.
    WebhooksManage => "webhooks:manage",
    /// Answering interrupts.
    ApprovalsRespond => "approvals:respond",
    /// Reading guided sessions, and the workflows that guide.
    SessionsRead => "sessions:read",
    /// Beginning guided sessions, and going on with them.
    SessionsDrive => "sessions:drive",
    /// Publishing packs, and taking them back.
    PacksPublish => "packs:publish",
    /// Withdrawing versions of packs from ranges.
    PacksYank => "packs:yank",
    /// Putting versions back that were withdrawn.
    PacksYankRevert => "packs:yank-revert",
    /// Reading the audit log.
    AuditRead => "audit:read",
    /// Everything that concerns the host itself.
    Admin => "host:admin",
}

impl Scope {
    /// What a key may do that was made without naming scopes: everything with the data of its tenant, nothing with the host itself.
    pub fn of_a_tenant() -> Vec<Self> {
        Self::ALL.iter().copied().filter(|scope| *scope != Self::Admin).collect()
    }

    /// The right of that spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.as_str() == text)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Whose data they work with.
    pub tenant: Tenant,
    /// An opaque name of the key, never the key.
    pub principal: Principal,
    /// What they may do.
    pub scopes: Vec<Scope>,
    /// Whether the key is for tests.
    pub test: bool,
}

impl Caller {
    /// Whether they may.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }
}
