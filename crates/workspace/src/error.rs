//! The closed set of error codes.

mod suggestion;

use std::fmt;

use canon::budget;
use canon::error::{Envelope, Retry};
use serde_json::{Map, Value};

canon::error_codes! {
    pub enum Code {
        ValidationError => "VALIDATION_ERROR",
        ManifestBaseNotFound => "MANIFEST_BASE_NOT_FOUND",
        ManifestBaseInvalid => "MANIFEST_BASE_INVALID",
        ManifestExtendsDepth => "MANIFEST_EXTENDS_DEPTH",
        BindInputMissing => "BIND_INPUT_MISSING",
        BindInputInvalid => "BIND_INPUT_INVALID",
        SurfaceIncompatible => "SURFACE_INCOMPATIBLE",

        ComposeSurfaceXor => "COMPOSE_SURFACE_XOR",
        ComposeRoleRequired => "COMPOSE_ROLE_REQUIRED",
        ComposeWorkflowOnlyInputArtifacts => "COMPOSE_WORKFLOW_ONLY_INPUT_ARTIFACTS",
        ComposeWorkflowOnlyDeliverables => "COMPOSE_WORKFLOW_ONLY_DELIVERABLES",
        ComposeSlotNotEnabled => "COMPOSE_SLOT_NOT_ENABLED",
        ComposeInvalidFileName => "COMPOSE_INVALID_FILE_NAME",
        ComposeBadReference => "COMPOSE_BAD_REFERENCE",
        ComposeTemplateResolverMissing => "COMPOSE_TEMPLATE_RESOLVER_MISSING",
        UnknownSlot => "UNKNOWN_SLOT",

        PlanUnsafePath => "PLAN_UNSAFE_PATH",
        PlanUnknownSlot => "PLAN_UNKNOWN_SLOT",
        PlanModeNotAllowed => "PLAN_MODE_NOT_ALLOWED",
        PlanInvalidSource => "PLAN_INVALID_SOURCE",
        PlanDuplicateMountKey => "PLAN_DUPLICATE_MOUNT_KEY",
        PlanPathConflict => "PLAN_PATH_CONFLICT",

        ResolveNotFound => "RESOLVE_NOT_FOUND",
        ResolveDenied => "RESOLVE_DENIED",
        ResolveUpstream => "RESOLVE_UPSTREAM",
        ResolveTimeout => "RESOLVE_TIMEOUT",
        ResolveBadResponse => "RESOLVE_BAD_RESPONSE",
        ResolveHashMismatch => "RESOLVE_HASH_MISMATCH",
        ResolveEmptySelection => "RESOLVE_EMPTY_SELECTION",

        ApplyUnsafeSymlink => "APPLY_UNSAFE_SYMLINK",
        ApplyStateDirOtherFs => "APPLY_STATE_DIR_OTHER_FS",
        ApplyIo => "APPLY_IO",
        ApplyNoSpace => "APPLY_NO_SPACE",
        ApplyRollbackFailed => "APPLY_ROLLBACK_FAILED",
        LimitExceeded => "LIMIT_EXCEEDED",
        LeaseHeld => "LEASE_HELD",
        LeaseStaleGeneration => "LEASE_STALE_GENERATION",
        LeaseNotFound => "LEASE_NOT_FOUND",
        SnapshotCorrupt => "SNAPSHOT_CORRUPT",
        SnapshotRestoreFailed => "SNAPSHOT_RESTORE_FAILED",
        SnapshotFileChanged => "SNAPSHOT_FILE_CHANGED",

        EnvReservedName => "ENV_RESERVED_NAME",
        EnvRequiredCredentialMissing => "ENV_REQUIRED_CREDENTIAL_MISSING",
        EnvValueTooLarge => "ENV_VALUE_TOO_LARGE",
        DriftCritical => "DRIFT_CRITICAL",

        SkillInvalidBundle => "SKILL_INVALID_BUNDLE",
        SkillVersionUnsatisfied => "SKILL_VERSION_UNSATISFIED",
        TemplateNotFound => "TEMPLATE_NOT_FOUND",
        TemplateAmbiguous => "TEMPLATE_AMBIGUOUS",
        TemplateMissingVar => "TEMPLATE_MISSING_VAR",
        TemplateSyntax => "TEMPLATE_SYNTAX",

        LifecycleIllegalTransition => "LIFECYCLE_ILLEGAL_TRANSITION",
        LifecycleConflict => "LIFECYCLE_CONFLICT",
        DispatchInvalid => "DISPATCH_INVALID",
        DispatchBadContext => "DISPATCH_BAD_CONTEXT",
        DispatchRoleSurface => "DISPATCH_ROLE_SURFACE",
        DispatchIdempotencyConflict => "DISPATCH_IDEMPOTENCY_CONFLICT",
    }
}

impl Code {
    /// Whether the same call can succeed later.
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::ResolveUpstream
                | Self::ResolveTimeout
                | Self::ResolveHashMismatch
                | Self::ApplyIo
                | Self::LeaseHeld
                | Self::SnapshotRestoreFailed
                | Self::SnapshotFileChanged
                | Self::LifecycleConflict
        )
    }
}

/// An error: code, message, details, and causes. If several things are wrong, the first is the
/// error and the others are its causes.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    code: Code,
    message: String,
    details: Map<String, Value>,
    causes: Vec<Error>,
}

/// The most causes in an envelope; the rest are counted.
const MAX_CAUSES: usize = 20;

/// The bytes of each cause's message in an envelope, so that together they fit into its details.
const MAX_CAUSE_BYTES: usize = 256;

impl Error {
    /// An error without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            inner: Box::new(Inner { code, message: message.into(), details: Map::new(), causes: Vec::new() }),
        }
    }

    /// An exceeded limit: its name, value, and the actual value.
    pub fn limit(limit: &'static str, max: u64, seen: u64) -> Self {
        Self::new(Code::LimitExceeded, format!("{limit}: {seen}; the limit is {max}"))
            .detail("limit", limit)
            .detail("max", max)
            .detail("seen", seen)
    }

    /// Adds a detail. Never a secret, never file content.
    #[must_use]
    pub fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.inner.details.insert(key.to_owned(), value.into());
        self
    }

    #[must_use]
    pub fn caused_by(mut self, causes: impl IntoIterator<Item = Error>) -> Self {
        self.inner.causes.extend(causes);
        self
    }

    /// The first of several problems, with the others as causes; `None` if there are none.
    pub fn first_of(problems: impl IntoIterator<Item = Error>) -> Option<Self> {
        let mut problems = problems.into_iter();
        let first = problems.next()?;
        Some(first.caused_by(problems))
    }

    pub fn code(&self) -> Code {
        self.inner.code
    }

    pub fn message(&self) -> &str {
        &self.inner.message
    }

    pub fn details(&self) -> &Map<String, Value> {
        &self.inner.details
    }

    pub fn causes(&self) -> &[Error] {
        &self.inner.causes
    }

    pub fn envelope(&self) -> Envelope {
        let retry = if self.code().is_retryable() { Retry::Immediate } else { Retry::NotRetryable };
        let mut envelope =
            Envelope::new(self.code(), self.message()).suggest(self.code().suggestion()).retry(retry);
        for (key, value) in self.details() {
            envelope = envelope.detail(key, value.clone());
        }
        if !self.causes().is_empty() {
            let listed = self.causes().iter().take(MAX_CAUSES);
            let shown = |cause: &Self| {
                format!("{}: {}", cause.code(), budget::truncate(cause.message(), MAX_CAUSE_BYTES))
            };
            let listed: Vec<Value> = listed.map(|cause| shown(cause).into()).collect();
            let more = self.causes().len() - listed.len();
            envelope = envelope.detail("causes", listed);
            if more > 0 {
                envelope = envelope.detail("moreCauses", more);
            }
        }
        envelope
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code(), self.message())
    }
}

impl std::error::Error for Error {}
