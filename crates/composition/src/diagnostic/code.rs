//! The diagnostic codes: never renamed and never reused.

use crate::vocabulary::wire_names;

/// The diagnostic codes, a closed and stable list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The input has an invalid structure.
    StructureInvalid,
    /// The input's schema version is not supported.
    VersionUnsupportedCompositionSchema,
    /// The policy's schema version is not supported.
    VersionUnsupportedPolicySchema,
    /// A module requires another API version.
    VersionUnsupportedModuleApi,
    /// A render handle has another version.
    VersionUnsupportedRenderHandle,
    NamespaceInvalidInstanceId,
    /// A built-in owner id is invalid.
    NamespaceInvalidOwnerId,
    /// A module uses the reserved prefix `builtin-`.
    NamespaceReservedOwnerId,
    /// A descriptor id is invalid.
    NamespaceInvalidLocalId,
    /// Two modules have the same instance id.
    NamespaceDuplicateInstanceId,
    /// Built-in sets of one owner have different packages.
    NamespaceOwnerConflict,
    /// Two contributions have the same key.
    NamespaceDuplicateCanonicalKey,
    RouteInvalidPath,
    /// Two routes match the same paths.
    RouteDuplicatePath,
    RendererInvalidClaim,
    /// A module claims ordinary text.
    RendererDefaultProtected,
    /// Two renderers have the same claim.
    RendererDuplicateClaim,
    /// A sidebar item refers to a missing route.
    ReferenceUnresolved,
    /// A policy operation cannot be applied.
    PolicyInvalid,
}

wire_names!(Code {
    StructureInvalid => "WCP_STRUCTURE_INVALID",
    VersionUnsupportedCompositionSchema => "WCP_VERSION_UNSUPPORTED_COMPOSITION_SCHEMA",
    VersionUnsupportedPolicySchema => "WCP_VERSION_UNSUPPORTED_POLICY_SCHEMA",
    VersionUnsupportedModuleApi => "WCP_VERSION_UNSUPPORTED_MODULE_API",
    VersionUnsupportedRenderHandle => "WCP_VERSION_UNSUPPORTED_RENDER_HANDLE",
    NamespaceInvalidInstanceId => "WCP_NAMESPACE_INVALID_INSTANCE_ID",
    NamespaceInvalidOwnerId => "WCP_NAMESPACE_INVALID_OWNER_ID",
    NamespaceReservedOwnerId => "WCP_NAMESPACE_RESERVED_OWNER_ID",
    NamespaceInvalidLocalId => "WCP_NAMESPACE_INVALID_LOCAL_ID",
    NamespaceDuplicateInstanceId => "WCP_NAMESPACE_DUPLICATE_INSTANCE_ID",
    NamespaceOwnerConflict => "WCP_NAMESPACE_OWNER_CONFLICT",
    NamespaceDuplicateCanonicalKey => "WCP_NAMESPACE_DUPLICATE_CANONICAL_KEY",
    RouteInvalidPath => "WCP_ROUTE_INVALID_PATH",
    RouteDuplicatePath => "WCP_ROUTE_DUPLICATE_PATH",
    RendererInvalidClaim => "WCP_RENDERER_INVALID_CLAIM",
    RendererDefaultProtected => "WCP_RENDERER_DEFAULT_PROTECTED",
    RendererDuplicateClaim => "WCP_RENDERER_DUPLICATE_CLAIM",
    ReferenceUnresolved => "WCP_REFERENCE_UNRESOLVED",
    PolicyInvalid => "WCP_POLICY_INVALID",
});

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    Structure,
    Version,
    Namespace,
    Route,
    Renderer,
    Reference,
    Policy,
}

wire_names!(Category {
    Structure => "structure",
    Version => "version",
    Namespace => "namespace",
    Route => "route",
    Renderer => "renderer",
    Reference => "reference",
    Policy => "policy",
});

/// The severity of a diagnostic.
///
/// The kernel only reports errors; hosts add the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// There is no composition.
    Error,
    /// Should be fixed.
    Warning,
    /// For information.
    Info,
}

wire_names!(Severity { Error => "error", Warning => "warning", Info => "info" });

impl Code {
    pub const fn category(self) -> Category {
        match self {
            Self::StructureInvalid => Category::Structure,
            Self::VersionUnsupportedCompositionSchema
            | Self::VersionUnsupportedPolicySchema
            | Self::VersionUnsupportedModuleApi
            | Self::VersionUnsupportedRenderHandle => Category::Version,
            Self::NamespaceInvalidInstanceId
            | Self::NamespaceInvalidOwnerId
            | Self::NamespaceReservedOwnerId
            | Self::NamespaceInvalidLocalId
            | Self::NamespaceDuplicateInstanceId
            | Self::NamespaceOwnerConflict
            | Self::NamespaceDuplicateCanonicalKey => Category::Namespace,
            Self::RouteInvalidPath | Self::RouteDuplicatePath => Category::Route,
            Self::RendererInvalidClaim | Self::RendererDefaultProtected | Self::RendererDuplicateClaim => {
                Category::Renderer
            }
            Self::ReferenceUnresolved => Category::Reference,
            Self::PolicyInvalid => Category::Policy,
        }
    }

    /// The anchor of the code in the documentation.
    pub const fn docs_anchor(self) -> &'static str {
        match self {
            Self::StructureInvalid => "#wcp-structure-invalid",
            Self::VersionUnsupportedCompositionSchema => "#wcp-version-unsupported-composition-schema",
            Self::VersionUnsupportedPolicySchema => "#wcp-version-unsupported-policy-schema",
            Self::VersionUnsupportedModuleApi => "#wcp-version-unsupported-module-api",
            Self::VersionUnsupportedRenderHandle => "#wcp-version-unsupported-render-handle",
            Self::NamespaceInvalidInstanceId => "#wcp-namespace-invalid-instance-id",
            Self::NamespaceInvalidOwnerId => "#wcp-namespace-invalid-owner-id",
            Self::NamespaceReservedOwnerId => "#wcp-namespace-reserved-owner-id",
            Self::NamespaceInvalidLocalId => "#wcp-namespace-invalid-local-id",
            Self::NamespaceDuplicateInstanceId => "#wcp-namespace-duplicate-instance-id",
            Self::NamespaceOwnerConflict => "#wcp-namespace-owner-conflict",
            Self::NamespaceDuplicateCanonicalKey => "#wcp-namespace-duplicate-canonical-key",
            Self::RouteInvalidPath => "#wcp-route-invalid-path",
            Self::RouteDuplicatePath => "#wcp-route-duplicate-path",
            Self::RendererInvalidClaim => "#wcp-renderer-invalid-claim",
            Self::RendererDefaultProtected => "#wcp-renderer-default-protected",
            Self::RendererDuplicateClaim => "#wcp-renderer-duplicate-claim",
            Self::ReferenceUnresolved => "#wcp-reference-unresolved",
            Self::PolicyInvalid => "#wcp-policy-invalid",
        }
    }

    /// What to do.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::StructureInvalid => {
                "fix the named field; the details have the field path and the expected value"
            }
            Self::VersionUnsupportedCompositionSchema
            | Self::VersionUnsupportedPolicySchema
            | Self::VersionUnsupportedModuleApi
            | Self::VersionUnsupportedRenderHandle => "use one of the supported versions, spelled exactly",
            Self::NamespaceInvalidInstanceId | Self::NamespaceInvalidLocalId => {
                "use lowercase letters, digits and hyphens, starting with a letter or digit, at most 128 \
                    bytes"
            }
            Self::NamespaceInvalidOwnerId => {
                "start the id with `builtin-`, then lowercase letters, digits and hyphens"
            }
            Self::NamespaceReservedOwnerId => "use an instance id that does not start with `builtin-`",
            Self::NamespaceDuplicateInstanceId => "use a unique id for each module instance",
            Self::NamespaceOwnerConflict => {
                "use the same package and version in every set of one built-in owner"
            }
            Self::NamespaceDuplicateCanonicalKey => {
                "use a unique id for each contribution of one kind and owner"
            }
            Self::RouteInvalidPath => {
                "use an absolute path of plain segments and `:parameters`, such as /projects/:projectId"
            }
            Self::RouteDuplicatePath => {
                "change one of the paths, or add a `pathAlias`, `hide` or `replace` operation for all but \
                    one"
            }
            Self::RendererInvalidClaim => {
                "use `message:`, `tool:` or `activity:`, matching the collection, and a name such as \
                    data-lab.query"
            }
            Self::RendererDefaultProtected => {
                "claim a message type of the module; ordinary text is reserved for the product"
            }
            Self::RendererDuplicateClaim => {
                "add a `rendererOverride` operation that selects one, or hide all but one of them"
            }
            Self::ReferenceUnresolved => {
                "use the canonical key of a route that is active whenever the item is, such as \
                    owner:routes/home"
            }
            Self::PolicyInvalid => "fix or remove the named policy operations; the policy was not applied",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn category_and_anchor_follow_from_the_code() {
        for code in Code::ALL {
            let word = code.as_str().split('_').nth(1).unwrap().to_lowercase();
            assert_eq!(code.category().as_str(), word, "{code}");
            assert_eq!(code.docs_anchor(), format!("#{}", code.as_str().to_lowercase().replace('_', "-")));
        }
    }
}
