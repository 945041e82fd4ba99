//! The sources of contributions.

use serde::Serialize;
use serde_json::{Value, json};

use super::Contributions;
use crate::VERSION;
use crate::composition::ActionKind;
use crate::vocabulary::RuntimeStatus;

/// Contributions of the product.
#[derive(Clone, Debug, Serialize)]
pub struct Builtin {
    owner: BuiltinOwner,
    contributions: Contributions,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BuiltinOwner {
    owner_kind: &'static str,
    owner_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    package_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    package_version: Option<String>,
}

impl Builtin {
    /// Contributions of the owner `builtin-…`.
    pub fn new(owner_id: impl Into<String>, contributions: Contributions) -> Self {
        let owner = BuiltinOwner {
            owner_kind: "builtin",
            owner_id: owner_id.into(),
            package_id: None,
            package_version: None,
        };
        Self { owner, contributions }
    }

    #[must_use]
    pub fn package(mut self, id: impl Into<String>, version: impl Into<String>) -> Self {
        self.owner.package_id = Some(id.into());
        self.owner.package_version = Some(version.into());
        self
    }
}

/// One instance of an installed module.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Module {
    package_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    package_version: Option<String>,
    module_api_version: &'static str,
    instance_id: String,
    runtime: Runtime,
    contributions: Contributions,
}

impl Module {
    /// The instance `instance_id` of a package, as resolved by the host.
    pub fn new(
        instance_id: impl Into<String>,
        package_id: impl Into<String>,
        runtime: Runtime,
        contributions: Contributions,
    ) -> Self {
        let instance_id = instance_id.into();
        Self {
            package_id: package_id.into(),
            package_version: None,
            module_api_version: VERSION,
            runtime: Runtime { instance_id: instance_id.clone(), ..runtime },
            instance_id,
            contributions,
        }
    }

    #[must_use]
    pub fn package_version(mut self, version: impl Into<String>) -> Self {
        self.package_version = Some(version.into());
        self
    }
}

/// The runtime of a module, as resolved by the host. Redact before declaring: the kernel copies it unchanged.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    instance_id: String,
    status: RuntimeStatus,
    grants: Vec<String>,
    missing: Vec<String>,
    actions: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

impl Runtime {
    #[must_use]
    pub const fn new(status: RuntimeStatus) -> Self {
        Self {
            instance_id: String::new(),
            status,
            grants: Vec::new(),
            missing: Vec::new(),
            actions: Vec::new(),
            message: None,
            data: None,
        }
    }

    /// A module that is ready.
    #[must_use]
    pub const fn ready() -> Self {
        Self::new(RuntimeStatus::Ready)
    }

    /// Adds a grant that the module has.
    #[must_use]
    pub fn grant(mut self, name: impl Into<String>) -> Self {
        self.grants.push(name.into());
        self
    }

    /// Adds a grant that the module lacks.
    #[must_use]
    pub fn missing(mut self, name: impl Into<String>) -> Self {
        self.missing.push(name.into());
        self
    }

    /// Adds an action for the user.
    #[must_use]
    pub fn action(mut self, id: &str, label: &str, kind: ActionKind) -> Self {
        self.actions.push(json!({"id": id, "label": label, "kind": kind}));
        self
    }

    /// Sets the message for the user.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Attaches an object.
    #[must_use]
    pub fn data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}
