//! The shape of the details, one per code.

use std::borrow::Cow;

use serde::Serialize;

use super::Code;
use crate::grammar::{ClaimFault, PathFault};
use crate::vocabulary::{ContributionKind, Key, RendererKind, wire_names};

/// The facts of a diagnostic.
///
/// The fields of each shape stand in the order of canonical JSON and hold only strings,
/// lists of strings and small counts, so that serialising gives canonical bytes directly.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Details<'i> {
    /// A field does not have the shape it should have.
    Structure {
        /// What should have been there.
        expected: Expected,
        /// Which field, without array indexes.
        field: Cow<'i, str>,
        /// The rule.
        reason: StructureReason,
        /// The value where the rule is about values, else the name of its type.
        received: Cow<'i, str>,
    },
    /// A version is not supported.
    Version {
        /// Which version field.
        field: VersionField,
        /// The version given, or the name of a type.
        received: Cow<'i, str>,
        /// The versions that would do.
        supported: &'static [&'static str],
    },
    /// An instance id breaks the pattern.
    #[expect(missing_docs, reason = "the names say it")]
    InvalidInstanceId { instance_id: &'i str, pattern: &'static str },
    /// A built-in owner id breaks the pattern.
    #[expect(missing_docs, reason = "the names say it")]
    InvalidOwnerId { owner_id: &'i str, pattern: &'static str },
    /// A module uses the reserved prefix.
    #[expect(missing_docs, reason = "the names say it")]
    ReservedOwnerId { instance_id: &'i str, prefix: &'static str },
    /// A local id breaks the pattern.
    #[expect(missing_docs, reason = "the names say it")]
    InvalidLocalId { contribution_kind: ContributionKind, local_id: &'i str, pattern: &'static str },
    /// Several modules share an instance id.
    #[expect(missing_docs, reason = "the names say it")]
    DuplicateInstanceId { count: usize, instance_id: &'i str },
    /// Sets of one built-in owner differ in these fields.
    #[expect(missing_docs, reason = "the names say it")]
    OwnerConflict { fields: Vec<&'static str>, owner_id: &'i str },
    /// Several declarations share a key.
    #[expect(missing_docs, reason = "the names say it")]
    DuplicateCanonicalKey { count: usize, key: Key<'i> },
    /// A path breaks the grammar.
    InvalidPath {
        /// The path as written.
        path: &'i str,
        /// The operation, when it comes from a `pathAlias`.
        #[serde(skip_serializing_if = "Option::is_none")]
        policy_id: Option<&'i str>,
        /// The first fault found.
        reason: PathFault,
    },
    /// Several routes answer the same addresses.
    DuplicatePath {
        /// The routes.
        keys: Vec<Key<'i>>,
        /// The smallest of their effective paths.
        path: &'i str,
        /// The aliases among them.
        policy_ids: Vec<&'i str>,
        /// What they have in common.
        shape: Cow<'i, str>,
    },
    /// A claim breaks the grammar.
    #[expect(missing_docs, reason = "the names say it")]
    InvalidClaim { claim: &'i str, reason: ClaimFault },
    /// A module claims ordinary text.
    #[expect(missing_docs, reason = "the names say it")]
    DefaultProtected { claim: &'i str },
    /// Several renderers claim the same thing.
    #[expect(missing_docs, reason = "the names say it")]
    DuplicateClaim { claim: &'i str, keys: Vec<Key<'i>>, renderer_kind: RendererKind },
    /// A reference leads nowhere.
    Reference {
        /// Always `routeKey` in this version.
        field: &'static str,
        /// The item that refers, when it has a key.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<Key<'i>>,
        /// Why it leads nowhere.
        reason: ReferenceReason,
        /// The reference as written.
        reference: &'i str,
    },
    /// A policy operation cannot be carried out.
    Policy(PolicyFault<'i>),
}

/// The facts about a policy operation that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyFault<'i> {
    /// `anchor` or `replacement`, when the fault lies there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<&'static str>,
    /// The surviving contribution that would be left pointing at nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Key<'i>>,
    /// The operation that is blamed.
    pub policy_id: &'i str,
    /// The rule it breaks.
    pub reason: PolicyReason,
    /// All operations involved, where there can be several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related_policy_ids: Option<Vec<&'i str>>,
    /// The key, claim or `operation:<id>` that the rule is about.
    pub target: Cow<'i, str>,
    /// The renderer that an override selects, when the fault lies there.
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    pub used: Option<&'i str>,
}

impl<'i> PolicyFault<'i> {
    /// A fault of the operation `policy_id` itself, with none of the optional facts.
    pub(crate) fn new(policy_id: &'i str, reason: PolicyReason, target: impl Into<Cow<'i, str>>) -> Self {
        let target = target.into();
        Self { field: None, from: None, policy_id, reason, related_policy_ids: None, target, used: None }
    }
}

/// What a field should have held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Expected {
    /// A type or constraint.
    Token(&'static str),
    /// One of these values.
    OneOf(&'static [&'static str]),
}

/// The rules of shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StructureReason {
    /// The input is no object.
    InvalidInputShape,
    /// A collection is no array.
    InvalidCollection,
    /// A required field is absent.
    MissingRequiredField,
    /// A module has no runtime.
    MissingRuntime,
    /// The runtime status is none of the six.
    InvalidRuntimeStatus,
    /// A field is of the wrong type.
    InvalidFieldType,
    /// A field is of the right type with a wrong value.
    InvalidFieldValue,
    /// A field that may not be there.
    UnsupportedField,
}

wire_names!(StructureReason {
    InvalidInputShape => "invalid-input-shape",
    InvalidCollection => "invalid-collection",
    MissingRequiredField => "missing-required-field",
    MissingRuntime => "missing-runtime",
    InvalidRuntimeStatus => "invalid-runtime-status",
    InvalidFieldType => "invalid-field-type",
    InvalidFieldValue => "invalid-field-value",
    UnsupportedField => "unsupported-field",
});

/// The four version fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionField {
    /// Of the input.
    CompositionSchema,
    /// Of the policy.
    PolicySchema,
    /// Of a module.
    ModuleApi,
    /// Of a render handle.
    RenderHandle,
}

wire_names!(VersionField {
    CompositionSchema => "compositionSchemaVersion",
    PolicySchema => "policySchemaVersion",
    ModuleApi => "moduleApiVersion",
    RenderHandle => "renderHandleVersion",
});

/// Why a reference leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceReason {
    /// It is no canonical key.
    MalformedKey,
    /// It names something other than a route.
    WrongKind,
    /// Nobody declares it.
    MissingTarget,
    /// It is declared, and not shown.
    InactiveTarget,
}

wire_names!(ReferenceReason {
    MalformedKey => "malformed-key",
    WrongKind => "wrong-kind",
    MissingTarget => "missing-target",
    InactiveTarget => "inactive-target",
});

/// The rules that a policy operation can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyReason {
    /// Operations share an id.
    DuplicateOperationId,
    /// Several hides of one contribution.
    DuplicateHideTarget,
    /// Several reorders of one contribution.
    DuplicateReorderTarget,
    /// Several replaces of one contribution.
    DuplicateReplaceTarget,
    /// Several aliases of one route.
    DuplicatePathAliasTarget,
    /// Several overrides of one claim.
    DuplicateRendererOverrideClaim,
    /// One contribution is both hidden and replaced.
    HideReplaceSameTarget,
    /// Replacements lead back to where they started.
    ReplaceCycle,
    /// The order contradicts itself.
    ReorderCycle,
    /// Nobody declares the target.
    MissingTarget,
    /// The target is declared, and not active.
    InactiveTarget,
    /// Nobody declares the renderer to use.
    MissingUse,
    /// The renderer to use is declared, and not active.
    InactiveUse,
    /// The renderer to use does not serve the claim.
    InvalidUseKind,
    /// The selected contribution has no render handle.
    MissingRenderHandle,
    /// The operation does not apply to that kind.
    InvalidKind,
    /// The policy itself would break a reference.
    PolicyCreatedDanglingReference,
    /// Ordinary text cannot be overridden.
    DefaultRendererProtected,
}

wire_names!(PolicyReason {
    DuplicateOperationId => "duplicate-operation-id",
    DuplicateHideTarget => "duplicate-hide-target",
    DuplicateReorderTarget => "duplicate-reorder-target",
    DuplicateReplaceTarget => "duplicate-replace-target",
    DuplicatePathAliasTarget => "duplicate-path-alias-target",
    DuplicateRendererOverrideClaim => "duplicate-renderer-override-claim",
    HideReplaceSameTarget => "hide-replace-same-target",
    ReplaceCycle => "replace-cycle",
    ReorderCycle => "reorder-cycle",
    MissingTarget => "missing-target",
    InactiveTarget => "inactive-target",
    MissingUse => "missing-use",
    InactiveUse => "inactive-use",
    InvalidUseKind => "invalid-use-kind",
    MissingRenderHandle => "missing-render-handle",
    InvalidKind => "invalid-kind",
    PolicyCreatedDanglingReference => "policy-created-dangling-reference",
    DefaultRendererProtected => "default-renderer-protected",
});

impl Details<'_> {
    pub(super) const fn code(&self) -> Code {
        match self {
            Self::Structure { .. } => Code::StructureInvalid,
            Self::Version { field, .. } => match field {
                VersionField::CompositionSchema => Code::VersionUnsupportedCompositionSchema,
                VersionField::PolicySchema => Code::VersionUnsupportedPolicySchema,
                VersionField::ModuleApi => Code::VersionUnsupportedModuleApi,
                VersionField::RenderHandle => Code::VersionUnsupportedRenderHandle,
            },
            Self::InvalidInstanceId { .. } => Code::NamespaceInvalidInstanceId,
            Self::InvalidOwnerId { .. } => Code::NamespaceInvalidOwnerId,
            Self::ReservedOwnerId { .. } => Code::NamespaceReservedOwnerId,
            Self::InvalidLocalId { .. } => Code::NamespaceInvalidLocalId,
            Self::DuplicateInstanceId { .. } => Code::NamespaceDuplicateInstanceId,
            Self::OwnerConflict { .. } => Code::NamespaceOwnerConflict,
            Self::DuplicateCanonicalKey { .. } => Code::NamespaceDuplicateCanonicalKey,
            Self::InvalidPath { .. } => Code::RouteInvalidPath,
            Self::DuplicatePath { .. } => Code::RouteDuplicatePath,
            Self::InvalidClaim { .. } => Code::RendererInvalidClaim,
            Self::DefaultProtected { .. } => Code::RendererDefaultProtected,
            Self::DuplicateClaim { .. } => Code::RendererDuplicateClaim,
            Self::Reference { .. } => Code::ReferenceUnresolved,
            Self::Policy(_) => Code::PolicyInvalid,
        }
    }

    pub(super) const fn decision_ids(&self) -> &'static [&'static str] {
        match self {
            Self::Structure { .. } => &["WCP-ADR-015"],
            Self::Version { field, .. } => match field {
                VersionField::CompositionSchema => &["WCP-ADR-015"],
                VersionField::PolicySchema => &["WCP-ADR-010", "WCP-ADR-015"],
                VersionField::ModuleApi => &["WCP-ADR-006", "WCP-ADR-015"],
                VersionField::RenderHandle => &["WCP-ADR-003", "WCP-ADR-015"],
            },
            Self::InvalidInstanceId { .. }
            | Self::InvalidOwnerId { .. }
            | Self::ReservedOwnerId { .. }
            | Self::InvalidLocalId { .. }
            | Self::DuplicateInstanceId { .. }
            | Self::OwnerConflict { .. }
            | Self::DuplicateCanonicalKey { .. }
            | Self::InvalidPath { policy_id: None, .. }
            | Self::InvalidClaim { .. } => &["WCP-ADR-006"],
            Self::InvalidPath { policy_id: Some(_), .. }
            | Self::DuplicatePath { .. }
            | Self::DuplicateClaim { .. } => &["WCP-ADR-006", "WCP-ADR-010"],
            Self::DefaultProtected { .. } => &["WCP-ADR-012"],
            Self::Reference { .. } => &["WCP-ADR-006", "WCP-ADR-015"],
            Self::Policy(PolicyFault { reason: PolicyReason::DefaultRendererProtected, .. }) => {
                &["WCP-ADR-010", "WCP-ADR-012"]
            }
            Self::Policy(_) => &["WCP-ADR-010"],
        }
    }
}
