//! Why a pack is not read, resolved, trusted, installed or expanded.

use canon::error::Envelope;
use serde_json::{Map, Value};

canon::error_codes! {
    /// What can be wrong with a pack, from its manifest to its use. The codes of publishing are
    /// [their own](crate::publish::PublishErrorCode).
    pub enum PackErrorCode {
        /// There is no such pack.
        NotFound => "pack_not_found",
        /// The pack has no such version, or none in the range.
        VersionNotFound => "pack_version_not_found",
        /// The manifest breaks a rule.
        ManifestInvalid => "pack_manifest_invalid",
        /// The pack mixes kinds, is of an unknown kind, or has a runtime that its kind may not have.
        KindInvalid => "pack_kind_invalid",
        /// The archive cannot be unpacked safely.
        ArchiveInvalid => "pack_archive_invalid",
        /// An action or trigger of a connector is no node of the pack.
        ConnectorActionUnresolved => "connector_action_unresolved",
        /// A template of prompts breaks a rule.
        PromptTemplateInvalid => "prompt_template_invalid",
        /// A prompt pack depends on a pack that cannot be had.
        PromptPackDependencyUnresolvable => "prompt_pack_dependency_unresolvable",
        /// The bytes are not those that were announced.
        IntegrityFailure => "pack_integrity_failure",
        /// The bytes are not those of the lockfile.
        IntegrityMismatch => "pack_integrity_mismatch",
        /// The signature does not fit, or there is none where one is asked for.
        SignatureInvalid => "pack_signature_invalid",
        /// The signature cannot be looked at: key or signature is unusable.
        SignatureUnverifiable => "pack_signature_unverifiable",
        /// The key may not sign for this namespace, or the namespace is not allowed here.
        NamespaceUnauthorized => "pack_namespace_unauthorized",
        /// The runtime wants what this host does not give.
        RuntimeRequirementUnmet => "pack_runtime_requirement_unmet",
        /// The host does not run this language.
        UnsupportedRuntime => "unsupported_pack_runtime",
        /// A capability that the pack needs of its host is missing.
        PeerDependencyMissing => "pack_peer_dependency_missing",
        /// An installed pack is not what was installed.
        LoadFailure => "pack_load_failure",
        /// A dependency of a locked pack is not locked.
        LockfileIncomplete => "pack_lockfile_incomplete",
        /// The lockfile itself breaks a rule.
        LockfileInvalid => "pack_lockfile_invalid",
        /// No version satisfies everybody.
        DependencyConflict => "pack_dependency_conflict",
        /// Packs need each other in a circle.
        DependencyCycle => "pack_dependency_cycle",
        /// No registry answers.
        RegistryUnreachable => "pack_registry_unreachable",
        /// The pack has no such chain.
        ChainNotFound => "chain_not_found",
        /// A chain has a node of a type that this host does not know.
        ChainUnresolvableTypeId => "chain_unresolvable_typeid",
        /// A parameter of a chain is not what the chain declares.
        ChainParameterInvalid => "chain_parameter_invalid",
        /// What an agent is handed is not what its pack declares.
        HandoffTaskSchemaViolation => "handoff_task_schema_violation",
        /// What an agent returns is not what its pack declares.
        HandoffReturnSchemaViolation => "handoff_return_schema_violation",
        /// The disk refused.
        StorageFailure => "pack_storage_failure",
    }
}

impl PackErrorCode {
    /// The status of HTTP that goes with it.
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

    /// What to do about it, in a sentence.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::NotFound => "Check the name, or the registry that is asked.",
            Self::VersionNotFound => "Ask for a version that the registry lists.",
            Self::ManifestInvalid => {
                "Correct pack.json at that place; `interlock pack check` shows everything that is wrong."
            }
            Self::KindInvalid => {
                "Give the pack one kind of content, and a runtime only when its kind is node."
            }
            Self::ArchiveInvalid => {
                "Make the archive again with `interlock pack publish` or `tar -czf` from plain files."
            }
            Self::ConnectorActionUnresolved => "Name nodes of the same manifest in the connector.",
            Self::PromptTemplateInvalid => "Correct the template at that place.",
            Self::PromptPackDependencyUnresolvable => "Install the packs that it depends on first.",
            Self::IntegrityFailure => "Fetch the archive again; if it differs again, ask its publisher.",
            Self::IntegrityMismatch => "Find out who changed the archive before you change the lockfile.",
            Self::SignatureInvalid => "Get the pack from its publisher, or the right key.",
            Self::SignatureUnverifiable => {
                "Give an Ed25519 key as PEM (SubjectPublicKeyInfo) and a raw signature of 64 bytes."
            }
            Self::NamespaceUnauthorized => "Allow the key for this namespace, or sign with one that is.",
            Self::RuntimeRequirementUnmet => "Run it on a host that gives what it wants.",
            Self::UnsupportedRuntime => "Run it on a host that runs its language.",
            Self::PeerDependencyMissing => {
                "Give the host the capability, or make it optional in peerDependenciesMeta."
            }
            Self::LoadFailure => "Remove the pack and install it again.",
            Self::LockfileIncomplete => "Resolve again, so that everything is locked.",
            Self::LockfileInvalid => "Correct the lockfile at that place, or resolve again.",
            Self::DependencyConflict => "Change one of the ranges, or override the version.",
            Self::DependencyCycle => "Break the circle at one of its packs.",
            Self::RegistryUnreachable => "Try again later, or name another registry.",
            Self::ChainNotFound => "Name a chain that the pack has.",
            Self::ChainUnresolvableTypeId => "Install the pack that brings this type of node.",
            Self::ChainParameterInvalid => "Correct the parameter at that place.",
            Self::HandoffTaskSchemaViolation => "Hand over what the agent's taskSchemaRef describes.",
            Self::HandoffReturnSchemaViolation => "Return what the agent's returnSchemaRef describes.",
            Self::StorageFailure => "Check that there is room on the disk and that you may write there.",
        }
    }
}

/// A pack was refused: a code of the closed list, what happened, and a few details.
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

    /// The disk refused; the message says what was tried.
    pub(crate) fn storage(what: &str, cause: &std::io::Error) -> Self {
        Self::new(PackErrorCode::StorageFailure, format!("{what}: {cause}"))
    }

    #[must_use]
    pub(crate) fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// The code.
    pub fn code(&self) -> PackErrorCode {
        self.code
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What a program may want to know beside the code.
    pub fn details(&self) -> &Map<String, Value> {
        &self.details
    }

    /// The status of HTTP that goes with it.
    pub fn http_status(&self) -> u16 {
        self.code.http_status()
    }

    /// The same in the one envelope of errors.
    pub fn envelope(&self) -> Envelope {
        let envelope = Envelope::new(self.code, &self.message).suggest(self.code.advice());
        self.details.iter().fold(envelope, |envelope, (key, value)| envelope.detail(key, value.clone()))
    }
}
