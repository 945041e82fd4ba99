//! The details, one shape per code.

use std::borrow::Cow;

use serde::Serialize;

use super::Code;
use crate::grammar::{ClaimFault, PathFault};
use crate::vocabulary::{ContributionKind, Key, RendererKind, wire_names};

/// The facts of a diagnostic.
///
/// The fields are in canonical JSON order and hold only strings, lists of strings and small counts, so serializing
/// gives canonical bytes directly.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Details<'i> {
    /// A field has an invalid structure.
    Structure {
        /// What is required.
        expected: Expected,
        /// The field path, without array indexes.
        field: Cow<'i, str>,
        /// The violated rule.
        reason: StructureReason,
        /// The value if the rule is about values, otherwise the name of its type.
        received: Cow<'i, str>,
    },
    /// A version is not supported.
    Version {
        field: VersionField,
        /// The given version, or the name of a type.
        received: Cow<'i, str>,
        /// The supported versions.
        supported: &'static [&'static str],
    },
    /// An instance id does not match the pattern.
    InvalidInstanceId { instance_id: &'i str, pattern: &'static str },
    /// A built-in owner id does not match the pattern.
    InvalidOwnerId { owner_id: &'i str, pattern: &'static str },
    /// A module uses the reserved prefix.
    ReservedOwnerId { instance_id: &'i str, prefix: &'static str },
    /// A local id does not match the pattern.
    InvalidLocalId { contribution_kind: ContributionKind, local_id: &'i str, pattern: &'static str },
    /// Several modules share an instance id.
    DuplicateInstanceId { count: usize, instance_id: &'i str },
    /// Sets of one built-in owner differ in these fields.
    OwnerConflict { fields: Vec<&'static str>, owner_id: &'i str },
    /// Several declarations have the same key.
    DuplicateCanonicalKey { count: usize, key: Key<'i> },
    /// A path is invalid.
    InvalidPath {
        /// The path as written.
        path: &'i str,
        /// The operation, if the path comes from a `pathAlias`.
        #[serde(skip_serializing_if = "Option::is_none")]
        policy_id: Option<&'i str>,
        /// The first fault found.
        reason: PathFault,
    },
    /// Several routes match the same paths.
    DuplicatePath {
        /// The routes.
        keys: Vec<Key<'i>>,
        /// The smallest of their effective paths.
        path: &'i str,
        /// The aliases among them.
        policy_ids: Vec<&'i str>,
        /// The common path shape.
        shape: Cow<'i, str>,
    },
    /// A claim is invalid.
    InvalidClaim { claim: &'i str, reason: ClaimFault },
    /// A module claims ordinary text.
    DefaultProtected { claim: &'i str },
    /// Several renderers have the same claim.
    DuplicateClaim { claim: &'i str, keys: Vec<Key<'i>>, renderer_kind: RendererKind },
    /// A reference is invalid.
    Reference {
        /// Always `routeKey` in this version.
        field: &'static str,
        /// The referring item, if it has a key.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<Key<'i>>,
        /// Why it is invalid.
        reason: ReferenceReason,
        /// The reference as written.
        reference: &'i str,
    },
    /// A policy operation cannot be applied.
    Policy(PolicyFault<'i>),
}

/// The facts about a policy operation that cannot be applied.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyFault<'i> {
    /// `anchor` or `replacement`, if the fault is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<&'static str>,
    /// The remaining contribution whose reference would break.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Key<'i>>,
    /// The reported operation.
    pub policy_id: &'i str,
    /// The violated rule.
    pub reason: PolicyReason,
    /// All operations involved, if there can be several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related_policy_ids: Option<Vec<&'i str>>,
    /// The key, claim or `operation:<id>` of the rule.
    pub target: Cow<'i, str>,
    /// The renderer selected by an override, if the fault is there.
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    pub used: Option<&'i str>,
}

impl<'i> PolicyFault<'i> {
    /// A fault of the operation `policy_id`, without optional facts.
    pub(crate) fn new(policy_id: &'i str, reason: PolicyReason, target: impl Into<Cow<'i, str>>) -> Self {
        let target = target.into();
        Self { field: None, from: None, policy_id, reason, related_policy_ids: None, target, used: None }
    }
}

/// What a field must contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Expected {
    /// A type or constraint.
    Token(&'static str),
    /// One of these values.
    OneOf(&'static [&'static str]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StructureReason {
    /// The input is not an object.
    InvalidInputShape,
    /// A collection is not an array.
    InvalidCollection,
    /// A required field is missing.
    MissingRequiredField,
    /// A module has no runtime.
    MissingRuntime,
    /// The runtime status is unknown.
    InvalidRuntimeStatus,
    /// A field has the wrong type.
    InvalidFieldType,
    /// A field has an invalid value.
    InvalidFieldValue,
    /// A field is not allowed.
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
    PolicySchema,
    ModuleApi,
    RenderHandle,
}

wire_names!(VersionField {
    CompositionSchema => "compositionSchemaVersion",
    PolicySchema => "policySchemaVersion",
    ModuleApi => "moduleApiVersion",
    RenderHandle => "renderHandleVersion",
});

/// Why a reference is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceReason {
    /// It is not a canonical key.
    MalformedKey,
    /// It does not name a route.
    WrongKind,
    /// The route is not declared.
    MissingTarget,
    /// The route is declared but not shown.
    InactiveTarget,
}

wire_names!(ReferenceReason {
    MalformedKey => "malformed-key",
    WrongKind => "wrong-kind",
    MissingTarget => "missing-target",
    InactiveTarget => "inactive-target",
});

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyReason {
    /// Operations have the same id.
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
    /// The replacements form a cycle.
    ReplaceCycle,
    /// The order is contradictory.
    ReorderCycle,
    /// The target is not declared.
    MissingTarget,
    /// The target is declared but not active.
    InactiveTarget,
    /// The selected renderer is not declared.
    MissingUse,
    /// The selected renderer is declared but not active.
    InactiveUse,
    /// The selected renderer does not have the claim.
    InvalidUseKind,
    /// The selected contribution has no render handle.
    MissingRenderHandle,
    /// The operation does not apply to that kind.
    InvalidKind,
    /// The policy would break a reference.
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
