//! Errors of reading, resolving, verifying, installing and expanding packs.

use canon::error::Envelope;
use serde_json::{Map, Value};

canon::error_codes! {
    /// Pack error codes. Publishing has [its own](crate::publish::PublishErrorCode).
    pub enum PackErrorCode {
        NotFound => "pack_not_found",
        /// The pack has no such version, or none in the range.
        VersionNotFound => "pack_version_not_found",
        ManifestInvalid => "pack_manifest_invalid",
        /// The pack mixes kinds, has an unknown kind, or a runtime that its kind does not allow.
        KindInvalid => "pack_kind_invalid",
        /// The archive cannot be unpacked safely.
        ArchiveInvalid => "pack_archive_invalid",
        /// A connector action or trigger is not a node of the pack.
        ConnectorActionUnresolved => "connector_action_unresolved",
        PromptTemplateInvalid => "prompt_template_invalid",
        /// A dependency of a prompt pack is not available.
        PromptPackDependencyUnresolvable => "prompt_pack_dependency_unresolvable",
        /// The archive does not match the announced digest.
        IntegrityFailure => "pack_integrity_failure",
        /// The archive does not match the lockfile.
        IntegrityMismatch => "pack_integrity_mismatch",
        /// The signature is invalid, or a required one is missing.
        SignatureInvalid => "pack_signature_invalid",
        /// The key or signature cannot be read.
        SignatureUnverifiable => "pack_signature_unverifiable",
        /// The key must not sign for this namespace, or the namespace is not allowed here.
        NamespaceUnauthorized => "pack_namespace_unauthorized",
        /// The runtime requires something that this host does not provide.
        RuntimeRequirementUnmet => "pack_runtime_requirement_unmet",
        /// The host does not run this language.
        UnsupportedRuntime => "unsupported_pack_runtime",
        /// The host lacks a required capability.
        PeerDependencyMissing => "pack_peer_dependency_missing",
        /// The files of an installed pack were changed.
        LoadFailure => "pack_load_failure",
        /// A dependency of a locked pack is not locked.
        LockfileIncomplete => "pack_lockfile_incomplete",
        LockfileInvalid => "pack_lockfile_invalid",
        /// No version satisfies all ranges.
        DependencyConflict => "pack_dependency_conflict",
        /// Packs depend on each other in a cycle.
        DependencyCycle => "pack_dependency_cycle",
        RegistryUnreachable => "pack_registry_unreachable",
        ChainNotFound => "chain_not_found",
        ChainUnresolvableTypeId => "chain_unresolvable_typeid",
        /// A chain parameter does not match the chain's schema.
        ChainParameterInvalid => "chain_parameter_invalid",
        /// A task does not match the agent's schema.
        HandoffTaskSchemaViolation => "handoff_task_schema_violation",
        /// A result does not match the agent's schema.
        HandoffReturnSchemaViolation => "handoff_return_schema_violation",
        /// A file operation failed.
        StorageFailure => "pack_storage_failure",
    }
}

impl PackErrorCode {
    pub const fn http_status(self) -> u16 {
        match self {
            Self::NotFound | Self::VersionNotFound | Self::ChainNotFound => 404,
            Self::KindInvalid
            | Self::ManifestInvalid
            | Self::SignatureInvalid
            | Self::ChainUnresolvableTypeId
            | Self::ChainParameterInvalid => 422,
            Self::NamespaceUnauthorized => 403,
            Self::SignatureUnverifiable | Self::StorageFailure => 500,
            Self::RegistryUnreachable => 502,
            Self::ArchiveInvalid
            | Self::ConnectorActionUnresolved
            | Self::PromptTemplateInvalid
            | Self::PromptPackDependencyUnresolvable
            | Self::IntegrityFailure
            | Self::IntegrityMismatch
            | Self::RuntimeRequirementUnmet
            | Self::UnsupportedRuntime
            | Self::PeerDependencyMissing
            | Self::LoadFailure
            | Self::LockfileIncomplete
            | Self::LockfileInvalid
            | Self::DependencyConflict
            | Self::DependencyCycle
            | Self::HandoffTaskSchemaViolation
            | Self::HandoffReturnSchemaViolation => 400,
        }
    }

    /// What to do, in a sentence.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::NotFound => "Check the name and the registry.",
            Self::VersionNotFound => "Choose a version that the registry lists.",
            Self::ManifestInvalid => {
                "Fix pack.json at this position; `interlock pack check` lists all problems."
            }
            Self::KindInvalid => "Use one kind of content per pack, and a runtime only for kind node.",
            Self::ArchiveInvalid => {
                "Create the archive with `interlock pack publish`, or with `tar -czf` from plain files."
            }
            Self::ConnectorActionUnresolved => "Use nodes of the same manifest in the connector.",
            Self::PromptTemplateInvalid => "Fix the template at this position.",
            Self::PromptPackDependencyUnresolvable => "Install its dependencies first.",
            Self::IntegrityFailure => {
                "Download the archive again; if it differs again, contact its \
                publisher."
            }
            Self::IntegrityMismatch => "Find out who changed the archive before you change the lockfile.",
            Self::SignatureInvalid => "Get the pack or the correct key from its publisher.",
            Self::SignatureUnverifiable => {
                "Use an Ed25519 key in PEM (SubjectPublicKeyInfo) and a raw signature of 64 bytes."
            }
            Self::NamespaceUnauthorized => "Allow the key for this namespace, or sign with an allowed key.",
            Self::RuntimeRequirementUnmet => "Use a host that provides the requirements.",
            Self::UnsupportedRuntime => "Use a host that runs this language.",
            Self::PeerDependencyMissing => {
                "Enable the capability on the host, or make it optional in peerDependenciesMeta."
            }
            Self::LoadFailure => "Remove the pack and install it again.",
            Self::LockfileIncomplete => "Resolve again to lock all dependencies.",
            Self::LockfileInvalid => "Fix the lockfile at this position, or resolve again.",
            Self::DependencyConflict => "Change one of the ranges, or override the version.",
            Self::DependencyCycle => "Remove one dependency of the cycle.",
            Self::RegistryUnreachable => "Retry later, or use another registry.",
            Self::ChainNotFound => "Use a chain of this pack.",
            Self::ChainUnresolvableTypeId => "Install the pack that provides this node type.",
            Self::ChainParameterInvalid => "Fix the parameter at this position.",
            Self::HandoffTaskSchemaViolation => "Send a task that matches the agent's taskSchemaRef.",
            Self::HandoffReturnSchemaViolation => {
                "Return a result that matches the agent's \
                returnSchemaRef."
            }
            Self::StorageFailure => "Check the free disk space and the write permission.",
        }
    }
}

/// A pack error: a code, a message and details.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct PackError {
    code: PackErrorCode,
    message: String,
    details: Map<String, Value>,
}

impl PackError {
    pub(crate) fn new(code: PackErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Map::new() }
    }

    /// A file operation failed; `what` names it.
    pub(crate) fn storage(what: &str, cause: &std::io::Error) -> Self {
        Self::new(PackErrorCode::StorageFailure, format!("{what}: {cause}"))
    }

    #[must_use]
    pub(crate) fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    pub fn code(&self) -> PackErrorCode {
        self.code
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn details(&self) -> &Map<String, Value> {
        &self.details
    }

    pub fn http_status(&self) -> u16 {
        self.code.http_status()
    }

    /// The common error envelope.
    pub fn envelope(&self) -> Envelope {
        let envelope = Envelope::new(self.code, &self.message).suggest(self.code.advice());
        self.details.iter().fold(envelope, |envelope, (key, value)| envelope.detail(key, value.clone()))
    }
}
