//! What a caller of the protocol is told when it does not work: a closed set of codes.

use std::fmt;

use ports::Cause;
use ports::runs::{CommitError, ReadError};
use serde_json::{Map, Value};

use super::Scope;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident => $text:literal $kind:ident,)+) => {
        /// The codes of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ApiCode {
            $($(#[$doc])* $name,)+
        }

        impl ApiCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The spelling.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// What kind of refusal it is.
            pub const fn kind(self) -> RefusalKind {
                match self {
                    $(Self::$name => RefusalKind::$kind,)+
                }
            }
        }
    };
}

codes! {
    /// No key, or none that is known.
    Unauthenticated => "unauthenticated" Unauthenticated,
    /// The key's time is over.
    KeyExpired => "key_expired" Unauthenticated,
    /// The key was taken back.
    KeyRevoked => "key_revoked" Unauthenticated,
    /// The key may not.
    Forbidden => "forbidden" Forbidden,
    /// The request is not as it has to be.
    ValidationError => "validation_error" Invalid,
    /// The request is well formed and does not fit.
    Unprocessable => "validation_error" Unprocessable,
    /// There is no such thing.
    NotFound => "not_found" NotFound,
    /// There is no such run.
    RunNotFound => "run_not_found" NotFound,
    /// There is no such workflow.
    WorkflowNotFound => "workflow_not_found" NotFound,
    /// Another run of the scope is under way.
    RunAlreadyActive => "run_already_active" Conflict,
    /// The key was used for another request.
    IdempotencyKeyMismatch => "idempotency_key_mismatch" Conflict,
    /// The run is in another state.
    Conflict => "conflict" Conflict,
    /// There is no such stream mode.
    UnsupportedStreamMode => "unsupported_stream_mode" Invalid,
    /// Too many requests.
    RateLimited => "rate_limited" RateLimited,
    /// The host has too much to do.
    ServiceUnavailable => "service_unavailable" Unavailable,
    /// The host does not serve what the workflow needs.
    CapabilityRequired => "capability_required" Invalid,
    /// Nothing waits there.
    InterruptNotFound => "interrupt_not_found" NotFound,
    /// A type of node needs a part of the host that it does not serve.
    PackPeerDependencyMissing => "pack_peer_dependency_missing" Invalid,
    /// A type of node is of a pack that is installed and could not be loaded.
    PackLoadFailure => "pack_load_failure" Invalid,
    /// It was answered before.
    InterruptAlreadyResolved => "interrupt_already_resolved" Conflict,
    /// The token's time is over.
    InterruptExpired => "interrupt_expired" Gone,
    /// It ended with its run.
    InterruptGone => "interrupt_gone" Gone,
    /// Callers choose no credential.
    CredentialForbidden => "credential_forbidden" Forbidden,
    /// The host has no credentials to choose from.
    CredentialUnavailable => "credential_unavailable" Invalid,
    /// Only for keys of tests.
    ForceEngineVersionForbidden => "force_engine_version_forbidden" Forbidden,
    /// No such version of the engine.
    UnsupportedForceEngineVersion => "unsupported_force_engine_version" Invalid,
    /// Only for keys of tests.
    MockProviderForbidden => "mock_provider_forbidden" Forbidden,
    /// No such mock of a provider.
    UnsupportedMockProvider => "unsupported_mock_provider" Invalid,
    /// The address may not be called.
    WebhookUrlRejected => "webhook_url_rejected" Invalid,
    /// The endpoint of a subscription did not repeat a challenge.
    WebhookEndpointUnverified => "webhook_endpoint_unverified" Invalid,
    /// There is no such subscription.
    SubscriptionNotFound => "subscription_not_found" NotFound,
    /// The way of asking is unknown here.
    MethodNotAllowed => "method_not_allowed" MethodNotAllowed,
    /// `OpenWOP-Version` names another major version than the path.
    ProtocolVersionMismatch => "protocol_version_mismatch" Invalid,
    /// The client speaks a version of the protocol that is not served.
    ProtocolVersionUnsupported => "protocol_version_unsupported" UnsupportedVersion,
    /// The request did not arrive in time.
    RequestTimeout => "request_timeout" TimedOut,
    /// The request is too large.
    PayloadTooLarge => "payload_too_large" TooLarge,
    /// The media type is unknown here.
    UnsupportedMediaType => "unsupported_media_type" UnsupportedMedia,
    /// The host does not do this.
    NotImplemented => "not_implemented" NotImplemented,
    /// The operation belongs to a capability that this host does not have.
    CapabilityNotProvided => "capability_not_provided" NotImplemented,
    /// The disk is full.
    InsufficientStorage => "service_unavailable" StorageFull,
    /// The host failed.
    InternalError => "internal_error" Failed,
}

/// What a refusal means. Several codes share one; a protocol has one status for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// Nobody knows who asks.
    Unauthenticated,
    /// The caller may not.
    Forbidden,
    /// The request is not well formed.
    Invalid,
    /// The request is well formed and does not fit what is there.
    Unprocessable,
    /// There is no such thing for the caller.
    NotFound,
    /// The state of what is there does not allow it.
    Conflict,
    /// It was there and is over.
    Gone,
    /// The thing is there and is not asked for in this way.
    MethodNotAllowed,
    /// The caller speaks a version of the protocol that is not served.
    UnsupportedVersion,
    /// The request did not arrive in time.
    TimedOut,
    /// The request is too large.
    TooLarge,
    /// The media type is not served.
    UnsupportedMedia,
    /// The caller asks too often.
    RateLimited,
    /// The host failed.
    Failed,
    /// The host does not do this.
    NotImplemented,
    /// The host cannot do it now.
    Unavailable,
    /// The disk of the host is full.
    StorageFull,
}

impl RefusalKind {
    /// Whether the host is at fault and not the request: the same request may succeed later, so background work retries it.
    pub const fn is_host_failure(self) -> bool {
        match self {
            Self::Failed | Self::NotImplemented | Self::Unavailable | Self::StorageFull => true,
            Self::Unauthenticated
            | Self::Forbidden
            | Self::Invalid
            | Self::Unprocessable
            | Self::NotFound
            | Self::Conflict
            | Self::Gone
            | Self::MethodNotAllowed
            | Self::UnsupportedVersion
            | Self::TimedOut
            | Self::TooLarge
            | Self::UnsupportedMedia
            | Self::RateLimited => false,
        }
    }
}

impl fmt::Display for ApiCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub code: ApiCode,
    /// A sentence that says what to do. Never what the caller sent, which might be a secret.
    pub message: String,
    /// More, for programs.
    pub details: Map<String, Value>,
    /// In how many seconds to come back.
    pub retry_after: Option<u64>,
    /// What made the host fail. For its log, never for the caller.
    cause: Option<Cause>,
    /// Whether something was read that is not what was written.
    is_damage: bool,
}

impl Refusal {
    /// A refusal without details.
    pub fn new(code: ApiCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: Map::new(),
            retry_after: None,
            cause: None,
            is_damage: false,
        }
    }

    /// A record is there and is not what was written: only a restored copy helps.
    pub(super) fn damaged(message: impl Into<String>) -> Self {
        Self { is_damage: true, ..Self::new(ApiCode::InternalError, message) }
    }

    /// Whether something was read that is not what was written.
    pub(super) fn is_damage(&self) -> bool {
        self.is_damage
    }

    /// Keeps the error that led to this refusal as its source.
    #[must_use]
    pub fn because(mut self, cause: Cause) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Adds a detail.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Says when to come back.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self.detail("retryAfter", seconds)
    }

    /// Whether the same request would meet it again, so that it is recorded for the caller's key. Not what a caller mends before
    /// asking again, a body or a right, and not what passes by itself.
    pub fn is_final(&self) -> bool {
        let stays = match self.code.kind() {
            RefusalKind::Unauthenticated
            | RefusalKind::Forbidden
            | RefusalKind::TimedOut
            | RefusalKind::RateLimited
            | RefusalKind::Failed
            | RefusalKind::NotImplemented
            | RefusalKind::Unavailable
            | RefusalKind::StorageFull => false,
            RefusalKind::Invalid => self.code != ApiCode::ValidationError,
            RefusalKind::Conflict => self.code != ApiCode::IdempotencyKeyMismatch,
            RefusalKind::Unprocessable
            | RefusalKind::NotFound
            | RefusalKind::Gone
            | RefusalKind::MethodNotAllowed
            | RefusalKind::UnsupportedVersion
            | RefusalKind::TooLarge
            | RefusalKind::UnsupportedMedia => true,
        };
        stays && self.retry_after.is_none()
    }

    /// Whether the host is at fault and not the request: see [`RefusalKind::is_host_failure`].
    pub const fn is_host_failure(&self) -> bool {
        self.code.kind().is_host_failure()
    }

    /// The host has too much to do.
    pub fn unavailable(message: &str, seconds: u64) -> Self {
        Self::new(ApiCode::ServiceUnavailable, message).retry_after(seconds)
    }

    /// The key lacks a right.
    pub fn scope(scope: Scope) -> Self {
        let message = format!("the key lacks the scope {scope}; use a key that has it");
        Self::new(ApiCode::Forbidden, message).detail("scopeRequired", scope.as_str())
    }

    /// The cursor of a list is not one that this host returned.
    pub fn invalid_cursor() -> Self {
        let message = "the cursor is not one that this host gave; leave it out to begin anew";
        Self::new(ApiCode::ValidationError, message).detail("field", "cursor")
    }

    /// There is no such run, or none that the caller may know of.
    pub fn no_run() -> Self {
        Self::new(ApiCode::RunNotFound, "there is no such run; list runs with GET /v1/runs")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        let refusal = match &error {
            ReadError::Store(_) => Self::new(
                ApiCode::InternalError,
                "the store could not be read; try again, and see the log of the host",
            ),
            ReadError::InvalidCursor => Self::invalid_cursor(),
        };
        refusal.because(Cause::new(error))
    }
}

impl From<CommitError> for Refusal {
    fn from(error: CommitError) -> Self {
        let cause = Cause::new(error.clone());
        let refusal = match error {
            CommitError::Moved { .. } => {
                Self::unavailable("the run was changed by somebody else; try again", 1)
            }
            CommitError::RunExists { .. } => Self::new(ApiCode::Conflict, "there is such a run already"),
            CommitError::ScopeActive { active_run_id } => {
                let message = "another run of this scope is under way; wait for it to end, or cancel it";
                Self::new(ApiCode::RunAlreadyActive, message)
                    .detail("activeRunId", active_run_id.as_str())
                    .detail("activeHost", "self")
                    .retry_after(1)
            }
            CommitError::KeyTaken => {
                Self::new(ApiCode::Conflict, "the idempotency key is in use").retry_after(1)
            }
            CommitError::EffectClaimed => Self::new(ApiCode::Conflict, "the effect was claimed before"),
            CommitError::MessageClaimed => Self::new(ApiCode::Conflict, "the message started a run before"),
            CommitError::ListenerMoved => {
                Self::unavailable("the trigger is at another place of its stream; try again", 1)
            }
            CommitError::ArtifactChanged => {
                Self::new(ApiCode::Conflict, "the artifact was changed by somebody else")
            }
            CommitError::NoSuchWebhook => {
                Self::new(ApiCode::SubscriptionNotFound, "there is no such subscription")
            }
            CommitError::Full(_) => {
                Self::new(ApiCode::InsufficientStorage, "the disk of the host is full; nothing was recorded")
                    .retry_after(60)
            }
            CommitError::Store(_) => Self::new(
                ApiCode::InternalError,
                "the store failed; nothing was recorded, so the request can be made again",
            ),
            CommitError::OutcomeUnknown(_) => Self::unavailable(
                "the store failed while it recorded the request, so the outcome is unknown; repeat the request with the same \
                 Idempotency-Key, or look the run up before you repeat it",
                5,
            ),
            CommitError::Closed => Self::unavailable("the host is being stopped", 5),
        };
        refusal.because(cause)
    }
}
