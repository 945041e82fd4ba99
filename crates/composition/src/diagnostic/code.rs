//! The registry of codes: never renamed, never used again for something else.

use crate::vocabulary::wire_names;

/// What kind of thing is wrong, closed and stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The input does not have the shape of an input.
    StructureInvalid,
    /// The input's schema version is not supported.
    VersionUnsupportedCompositionSchema,
    /// The policy's schema version is not supported.
    VersionUnsupportedPolicySchema,
    /// A module was written for another version of the API.
    VersionUnsupportedModuleApi,
    /// A render handle is of another version.
    VersionUnsupportedRenderHandle,
    /// An instance id breaks its grammar.
    NamespaceInvalidInstanceId,
    /// A built-in owner's id breaks its grammar.
    NamespaceInvalidOwnerId,
    /// A module calls itself `builtin-…`.
    NamespaceReservedOwnerId,
    /// A descriptor's id breaks its grammar.
    NamespaceInvalidLocalId,
    /// Two modules have one instance id.
    NamespaceDuplicateInstanceId,
    /// Built-in sets of one owner disagree about its package.
    NamespaceOwnerConflict,
    /// Two contributions have one key.
    NamespaceDuplicateCanonicalKey,
    /// A route path breaks its grammar.
    RouteInvalidPath,
    /// Two routes answer the same addresses.
    RouteDuplicatePath,
    /// A renderer claim breaks its grammar.
    RendererInvalidClaim,
    /// A module claims ordinary text.
    RendererDefaultProtected,
    /// Two renderers claim the same thing.
    RendererDuplicateClaim,
    /// A sidebar item points at no route.
    ReferenceUnresolved,
    /// A policy operation cannot be carried out.
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

/// The part of the rules that a code belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Shapes and types.
    Structure,
    /// Version fields.
    Version,
    /// Ids and keys.
    Namespace,
    /// Paths.
    Route,
    /// Claims.
    Renderer,
    /// References between contributions.
    Reference,
    /// The operator's policy.
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

/// How bad a diagnostic is.
///
/// The kernel itself finds only errors; hosts add the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// There is no composition.
    Error,
    /// Worth mending.
    Warning,
    /// Worth knowing.
    Info,
}

wire_names!(Severity { Error => "error", Warning => "warning", Info => "info" });

impl Code {
    /// The second word of the code.
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

    /// Where the documentation of codes explains this one.
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

    /// What to do about it, for a person.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::StructureInvalid => {
                "correct the named field; the field path and what it expects are in the details"
            }
            Self::VersionUnsupportedCompositionSchema
            | Self::VersionUnsupportedPolicySchema
            | Self::VersionUnsupportedModuleApi
            | Self::VersionUnsupportedRenderHandle => "use one of the supported versions, spelled exactly",
            Self::NamespaceInvalidInstanceId | Self::NamespaceInvalidLocalId => {
                "use lower-case letters, digits and hyphens, starting with a letter or digit, at most 128 bytes"
            }
            Self::NamespaceInvalidOwnerId => {
                "start the id with `builtin-`, then lower-case letters, digits and hyphens"
            }
            Self::NamespaceReservedOwnerId => {
                "give the module an instance id that does not start with `builtin-`"
            }
            Self::NamespaceDuplicateInstanceId => "give each module instance an id of its own",
            Self::NamespaceOwnerConflict => {
                "let every set of one built-in owner name the same package and version"
            }
            Self::NamespaceDuplicateCanonicalKey => {
                "give each contribution of one kind and owner an id of its own"
            }
            Self::RouteInvalidPath => {
                "write an absolute path of plain segments and `:parameters`, such as /projects/:projectId"
            }
            Self::RouteDuplicatePath => {
                "change one of the paths, or add a `pathAlias`, `hide` or `replace` operation for all but one"
            }
            Self::RendererInvalidClaim => {
                "write `message:`, `tool:` or `activity:`, fitting the collection, and a name such as data-lab.query"
            }
            Self::RendererDefaultProtected => {
                "claim a message type of the module's own; ordinary text stays the product's"
            }
            Self::RendererDuplicateClaim => {
                "add a `rendererOverride` operation that selects one, or hide all but one of them"
            }
            Self::ReferenceUnresolved => {
                "name the canonical key of a route that is active whenever the item is, such as owner:routes/home"
            }
            Self::PolicyInvalid => {
                "correct or remove the named policy operations; none of the policy was applied"
            }
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
