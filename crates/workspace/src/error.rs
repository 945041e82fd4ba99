//! What can go wrong, as a closed set of codes.

mod suggestion;

use std::fmt;

use canon::budget;
use canon::error::{Envelope, Retry};
use serde_json::{Map, Value};

canon::error_codes! {
    /// The codes of the workspace image.
    pub enum Code {
        /// Something in a manifest is not as it has to be.
        ValidationError => "VALIDATION_ERROR",
        /// The manifest that is extended is not there.
        ManifestBaseNotFound => "MANIFEST_BASE_NOT_FOUND",
        /// The manifest that is extended is not valid itself.
        ManifestBaseInvalid => "MANIFEST_BASE_INVALID",
        /// The manifest that is extended extends another.
        ManifestExtendsDepth => "MANIFEST_EXTENDS_DEPTH",
        /// A required input was not given.
        BindInputMissing => "BIND_INPUT_MISSING",
        /// An input is not what the manifest declares.
        BindInputInvalid => "BIND_INPUT_INVALID",
        /// The manifest is not for this surface.
        SurfaceIncompatible => "SURFACE_INCOMPATIBLE",

        /// A request has not exactly one of run and session.
        ComposeSurfaceXor => "COMPOSE_SURFACE_XOR",
        /// A request does not say the role of the agent.
        ComposeRoleRequired => "COMPOSE_ROLE_REQUIRED",
        /// A session was given input artifacts.
        ComposeWorkflowOnlyInputArtifacts => "COMPOSE_WORKFLOW_ONLY_INPUT_ARTIFACTS",
        /// A session was given deliverables.
        ComposeWorkflowOnlyDeliverables => "COMPOSE_WORKFLOW_ONLY_DELIVERABLES",
        /// An input artifact goes to a slot that is not enabled.
        ComposeSlotNotEnabled => "COMPOSE_SLOT_NOT_ENABLED",
        /// A file name is empty, absolute or has `..`.
        ComposeInvalidFileName => "COMPOSE_INVALID_FILE_NAME",
        /// A reference of the briefcase cannot be read.
        ComposeBadReference => "COMPOSE_BAD_REFERENCE",
        /// Templates are needed and nothing resolves them.
        ComposeTemplateResolverMissing => "COMPOSE_TEMPLATE_RESOLVER_MISSING",
        /// A slot that does not exist.
        UnknownSlot => "UNKNOWN_SLOT",

        /// A path of a plan is not safe.
        PlanUnsafePath => "PLAN_UNSAFE_PATH",
        /// A plan names a slot that does not exist.
        PlanUnknownSlot => "PLAN_UNKNOWN_SLOT",
        /// A plan would let the agent write where it may not.
        PlanModeNotAllowed => "PLAN_MODE_NOT_ALLOWED",
        /// A source of a plan is of no known kind, or incomplete.
        PlanInvalidSource => "PLAN_INVALID_SOURCE",
        /// Two different entries have one key.
        PlanDuplicateMountKey => "PLAN_DUPLICATE_MOUNT_KEY",
        /// Two entries want the same path.
        PlanPathConflict => "PLAN_PATH_CONFLICT",

        /// A source has nothing under that name.
        ResolveNotFound => "RESOLVE_NOT_FOUND",
        /// A source refused.
        ResolveDenied => "RESOLVE_DENIED",
        /// A source failed.
        ResolveUpstream => "RESOLVE_UPSTREAM",
        /// A source took too long.
        ResolveTimeout => "RESOLVE_TIMEOUT",
        /// A source answered something that cannot be used.
        ResolveBadResponse => "RESOLVE_BAD_RESPONSE",
        /// The bytes are not those that were announced.
        ResolveHashMismatch => "RESOLVE_HASH_MISMATCH",
        /// A selection of pages is empty.
        ResolveEmptySelection => "RESOLVE_EMPTY_SELECTION",

        /// A link stands where a file or a directory has to be.
        ApplyUnsafeSymlink => "APPLY_UNSAFE_SYMLINK",
        /// The state folder is on another file system than the workspace.
        ApplyStateDirOtherFs => "APPLY_STATE_DIR_OTHER_FS",
        /// The disk reported an error.
        ApplyIo => "APPLY_IO",
        /// The disk is full.
        ApplyNoSpace => "APPLY_NO_SPACE",
        /// An apply failed and could not be undone.
        ApplyRollbackFailed => "APPLY_ROLLBACK_FAILED",
        /// More than there may be.
        LimitExceeded => "LIMIT_EXCEEDED",
        /// Another run or session has the workspace.
        LeaseHeld => "LEASE_HELD",
        /// A later turn of the session has the workspace.
        LeaseStaleGeneration => "LEASE_STALE_GENERATION",
        /// There is no lease.
        LeaseNotFound => "LEASE_NOT_FOUND",
        /// A snapshot is damaged, or holds what none may.
        SnapshotCorrupt => "SNAPSHOT_CORRUPT",
        /// A snapshot is sound and could not be put back.
        SnapshotRestoreFailed => "SNAPSHOT_RESTORE_FAILED",
        /// A file kept changing while it was packed.
        SnapshotFileChanged => "SNAPSHOT_FILE_CHANGED",

        /// A variable that only the platform sets.
        EnvReservedName => "ENV_RESERVED_NAME",
        /// Credentials that are required are not there.
        EnvRequiredCredentialMissing => "ENV_REQUIRED_CREDENTIAL_MISSING",
        /// The environment is too large.
        EnvValueTooLarge => "ENV_VALUE_TOO_LARGE",
        /// The environment changed too much to resume.
        DriftCritical => "DRIFT_CRITICAL",

        /// A skill is not what a skill has to be.
        SkillInvalidBundle => "SKILL_INVALID_BUNDLE",
        /// No version of a skill is in the range that was asked for.
        SkillVersionUnsatisfied => "SKILL_VERSION_UNSATISFIED",
        /// There is no such template.
        TemplateNotFound => "TEMPLATE_NOT_FOUND",
        /// There are two such templates.
        TemplateAmbiguous => "TEMPLATE_AMBIGUOUS",
        /// A template uses a variable that was not given.
        TemplateMissingVar => "TEMPLATE_MISSING_VAR",
        /// A template cannot be read.
        TemplateSyntax => "TEMPLATE_SYNTAX",

        /// A state cannot follow another.
        LifecycleIllegalTransition => "LIFECYCLE_ILLEGAL_TRANSITION",
        /// Somebody else changed the state first.
        LifecycleConflict => "LIFECYCLE_CONFLICT",
        /// A dispatch is not as it has to be.
        DispatchInvalid => "DISPATCH_INVALID",
        /// The context of a dispatch is not as it has to be.
        DispatchBadContext => "DISPATCH_BAD_CONTEXT",
        /// A role is not for this surface.
        DispatchRoleSurface => "DISPATCH_ROLE_SURFACE",
        /// A key was used again for another dispatch.
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

/// Why something was refused: a code, a sentence, details, and the errors behind it. Where several
/// things are wrong at once, the first is this one and the rest are its causes.
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

/// The most causes that an envelope lists; the number of the rest is told.
const MAX_CAUSES: usize = 20;

/// How much of the message of a cause an envelope tells, in bytes: together they fit into its details.
const MAX_CAUSE_BYTES: usize = 256;

impl Error {
    /// An error without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            inner: Box::new(Inner { code, message: message.into(), details: Map::new(), causes: Vec::new() }),
        }
    }

    /// More than there may be: which limit, what it is, and what was seen.
    pub fn limit(limit: &'static str, max: u64, seen: u64) -> Self {
        Self::new(Code::LimitExceeded, format!("{limit}: at most {max}, and there are {seen}"))
            .detail("limit", limit)
            .detail("max", max)
            .detail("seen", seen)
    }

    /// Adds a detail. Never a secret, never the content of a file.
    #[must_use]
    pub fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.inner.details.insert(key.to_owned(), value.into());
        self
    }

    /// Adds what is behind it.
    #[must_use]
    pub fn caused_by(mut self, causes: impl IntoIterator<Item = Error>) -> Self {
        self.inner.causes.extend(causes);
        self
    }

    /// The first of several problems, with the others as its causes; nothing when there is none.
    pub fn first_of(problems: impl IntoIterator<Item = Error>) -> Option<Self> {
        let mut problems = problems.into_iter();
        let first = problems.next()?;
        Some(first.caused_by(problems))
    }

    /// The closed code.
    pub fn code(&self) -> Code {
        self.inner.code
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The details.
    pub fn details(&self) -> &Map<String, Value> {
        &self.inner.details
    }

    /// What is behind it, or beside it.
    pub fn causes(&self) -> &[Error] {
        &self.inner.causes
    }

    /// The answer that a caller gets.
    pub fn envelope(&self) -> Envelope {
        let retry = if self.code().is_retryable() { Retry::Immediate } else { Retry::NotRetryable };
        let mut envelope =
            Envelope::new(self.code(), self.message()).suggest(self.code().suggestion()).retry(retry);
        for (key, value) in self.details() {
            envelope = envelope.detail(key, value.clone());
        }
        if !self.causes().is_empty() {
            let listed = self.causes().iter().take(MAX_CAUSES);
            let told = |cause: &Self| {
                format!("{}: {}", cause.code(), budget::truncate(cause.message(), MAX_CAUSE_BYTES))
            };
            let listed: Vec<Value> = listed.map(|cause| told(cause).into()).collect();
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
