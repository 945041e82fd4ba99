//! Refusals: why a request failed, with the closed set of error codes of the protocol.

use std::fmt;

use ports::Cause;
use ports::runs::{CommitError, ReadError};
use serde_json::{Map, Value};

use super::Scope;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident => $text:literal $kind:ident,)+) => {
        /// The error codes of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ApiCode {
            $($(#[$doc])* $name,)+
        }

        impl ApiCode {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The code in the protocol.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// The category of the code.
            pub const fn kind(self) -> RefusalKind {
                match self {
                    $(Self::$name => RefusalKind::$kind,)+
                }
            }
        }
    };
}

codes! {
    /// The key is missing or unknown.
    Unauthenticated => "unauthenticated" Unauthenticated,
    /// The key has expired.
    KeyExpired => "key_expired" Unauthenticated,
    /// The key was revoked.
    KeyRevoked => "key_revoked" Unauthenticated,
    /// The caller is not allowed to do this.
    Forbidden => "forbidden" Forbidden,
    /// The request is invalid.
    ValidationError => "validation_error" Invalid,
    /// The request is well formed, but cannot be applied.
    Unprocessable => "validation_error" Unprocessable,
    /// The resource was not found.
    NotFound => "not_found" NotFound,
    /// There is no such run.
    RunNotFound => "run_not_found" NotFound,
    /// There is no such workflow.
    WorkflowNotFound => "workflow_not_found" NotFound,
    /// Another run of the scope is active.
    RunAlreadyActive => "run_already_active" Conflict,
    /// The idempotency key was used for another request.
    IdempotencyKeyMismatch => "idempotency_key_mismatch" Conflict,
    /// The state of the run does not allow it.
    Conflict => "conflict" Conflict,
    /// The stream mode is unknown.
    UnsupportedStreamMode => "unsupported_stream_mode" Invalid,
    /// Too many requests.
    RateLimited => "rate_limited" RateLimited,
    /// The host is overloaded or temporarily cannot serve the request.
    ServiceUnavailable => "service_unavailable" Unavailable,
    /// The workflow requires a capability that the host does not have.
    CapabilityRequired => "capability_required" Invalid,
    /// No interrupt is pending.
    InterruptNotFound => "interrupt_not_found" NotFound,
    /// A node type requires a feature that the host does not serve.
    PackPeerDependencyMissing => "pack_peer_dependency_missing" Invalid,
    /// A node type belongs to an installed pack that failed to load.
    PackLoadFailure => "pack_load_failure" Invalid,
    /// The interrupt was already resolved.
    InterruptAlreadyResolved => "interrupt_already_resolved" Conflict,
    /// The token has expired.
    InterruptExpired => "interrupt_expired" Gone,
    /// The interrupt ended with its run.
    InterruptGone => "interrupt_gone" Gone,
    /// Callers are not allowed to choose a credential.
    CredentialForbidden => "credential_forbidden" Forbidden,
    /// The host has no credentials to choose from.
    CredentialUnavailable => "credential_unavailable" Invalid,
    /// Only test keys may force an engine version.
    ForceEngineVersionForbidden => "force_engine_version_forbidden" Forbidden,
    /// The engine version is unknown.
    UnsupportedForceEngineVersion => "unsupported_force_engine_version" Invalid,
    /// Only test keys may use a mock provider.
    MockProviderForbidden => "mock_provider_forbidden" Forbidden,
    /// The mock provider is unknown.
    UnsupportedMockProvider => "unsupported_mock_provider" Invalid,
    /// The webhook address is not allowed.
    WebhookUrlRejected => "webhook_url_rejected" Invalid,
    /// The endpoint of a subscription did not repeat the challenge.
    WebhookEndpointUnverified => "webhook_endpoint_unverified" Invalid,
    /// There is no such subscription.
    SubscriptionNotFound => "subscription_not_found" NotFound,
    /// The HTTP method is not allowed.
    MethodNotAllowed => "method_not_allowed" MethodNotAllowed,
    /// `OpenWOP-Version` names another major version than the URL path.
    ProtocolVersionMismatch => "protocol_version_mismatch" Invalid,
    /// The client uses a protocol version that is not served.
    ProtocolVersionUnsupported => "protocol_version_unsupported" UnsupportedVersion,
    /// The request did not arrive in time.
    RequestTimeout => "request_timeout" TimedOut,
    /// The request is too large.
    PayloadTooLarge => "payload_too_large" TooLarge,
    /// The media type is not supported.
    UnsupportedMediaType => "unsupported_media_type" UnsupportedMedia,
    /// The host does not implement this.
    NotImplemented => "not_implemented" NotImplemented,
    /// The operation belongs to a capability that this host does not have.
    CapabilityNotProvided => "capability_not_provided" NotImplemented,
    /// The disk is full.
    InsufficientStorage => "service_unavailable" StorageFull,
    /// The host failed.
    InternalError => "internal_error" Failed,
}

/// The category of a refusal. Several codes share one; a protocol maps each category to one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// The caller is not authenticated.
    Unauthenticated,
    /// The caller is not allowed to do this.
    Forbidden,
    /// The request is malformed.
    Invalid,
    /// The request is well formed, but cannot be applied.
    Unprocessable,
    /// The caller can see no such resource.
    NotFound,
    /// The state of the resource does not allow it.
    Conflict,
    /// The resource existed and has ended.
    Gone,
    /// The resource exists, but not with this method.
    MethodNotAllowed,
    /// The caller uses a protocol version that is not served.
    UnsupportedVersion,
    /// The request did not arrive in time.
    TimedOut,
    /// The request is too large.
    TooLarge,
    /// The media type is not supported.
    UnsupportedMedia,
    /// The caller sends too many requests.
    RateLimited,
    /// The host failed.
    Failed,
    /// The host does not implement this.
    NotImplemented,
    /// The host temporarily cannot serve the request.
    Unavailable,
    /// The disk of the host is full.
    StorageFull,
}

impl RefusalKind {
    /// Whether the host is at fault and not the request. The same request may succeed later, so background work retries it.
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
    /// A sentence that says what to do. It never repeats the caller's input, which might be a secret.
    pub message: String,
    /// Machine-readable details.
    pub details: Map<String, Value>,
    /// After how many seconds to retry.
    pub retry_after: Option<u64>,
    /// Why the host failed. Logged, and never sent to the caller.
    cause: Option<Cause>,
    /// Whether a damaged record was read.
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

    /// A stored record is damaged. Only restoring a backup helps.
    pub(super) fn damaged(message: impl Into<String>) -> Self {
        Self { is_damage: true, ..Self::new(ApiCode::InternalError, message) }
    }

    /// Whether a damaged record was read.
    pub(super) fn is_damage(&self) -> bool {
        self.is_damage
    }

    /// Sets the error that led to this refusal as its source.
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

    /// Sets after how many seconds to retry.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self.detail("retryAfter", seconds)
    }

    /// Whether the same request would always be refused, so that the refusal is recorded for the idempotency key. False for what the
    /// caller can fix, such as a body or a missing scope, and for temporary failures.
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

    /// The host is temporarily unavailable.
    pub fn unavailable(message: &str, seconds: u64) -> Self {
        Self::new(ApiCode::ServiceUnavailable, message).retry_after(seconds)
    }

    /// The key lacks a scope.
    pub fn scope(scope: Scope) -> Self {
        let message = format!("the key lacks the scope {scope}; use a key that has it");
        Self::new(ApiCode::Forbidden, message).detail("scopeRequired", scope.as_str())
    }

    /// The list cursor was not returned by this host.
    pub fn invalid_cursor() -> Self {
        let message = "the cursor is invalid; remove it to start from the first page";
        Self::new(ApiCode::ValidationError, message).detail("field", "cursor")
    }

    /// There is no such run, or the caller cannot see it.
    pub fn no_run() -> Self {
        Self::new(ApiCode::RunNotFound, "run not found; GET /v1/runs lists all runs")
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
                "the store could not be read; retry, and see the log of the host",
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
            CommitError::Moved { .. } => Self::unavailable("another request changed the run; retry", 1),
            CommitError::RunExists { .. } => Self::new(ApiCode::Conflict, "the run already exists"),
            CommitError::ScopeActive { active_run_id } => {
                let message = "another run of this scope is active; wait for it to end, or cancel it";
                Self::new(ApiCode::RunAlreadyActive, message)
                    .detail("activeRunId", active_run_id.as_str())
                    .detail("activeHost", "self")
                    .retry_after(1)
            }
            CommitError::KeyTaken => Self::new(
                ApiCode::Conflict,
                "another request with this Idempotency-Key is in progress; retry",
            )
            .retry_after(1),
            CommitError::EffectClaimed => Self::new(ApiCode::Conflict, "the effect was already claimed"),
            CommitError::MessageClaimed => Self::new(ApiCode::Conflict, "the message already started a run"),
            CommitError::ListenerMoved => {
                Self::unavailable("the trigger is at another position of its stream; retry", 1)
            }
            CommitError::ArtifactChanged => {
                Self::new(ApiCode::Conflict, "another request changed the artifact")
            }
            CommitError::NoSuchWebhook => Self::new(ApiCode::SubscriptionNotFound, "subscription not found"),
            CommitError::Full(_) => {
                Self::new(ApiCode::InsufficientStorage, "the disk of the host is full; nothing was recorded")
                    .retry_after(60)
            }
            CommitError::Store(_) => Self::new(
                ApiCode::InternalError,
                "the store failed; nothing was recorded, so you can repeat the request",
            ),
            CommitError::OutcomeUnknown(_) => Self::unavailable(
                "the store failed while it recorded the request, so the outcome is unknown; repeat the \
                 request with the same \
                 Idempotency-Key, or look the run up before you repeat it",
                5,
            ),
            CommitError::Closed => Self::unavailable("the host is shutting down", 5),
        };
        refusal.because(cause)
    }
}

#[cfg(test)]
mod tests {
    use ports::Cause;
    use ports::runs::ReadError;
    use system::causes;

    use super::*;

    #[test]
    fn a_refusal_is_logged_with_the_error_of_the_database() {
        let refusal = Refusal::from(ReadError::Store(Cause::new("database disk image is malformed")));
        let line = causes(&refusal);
        let expected = ": the store cannot be read: database disk image is malformed";
        assert!(line.starts_with("internal_error: ") && line.ends_with(expected), "{line}");
        let shown = format!("{} {:?}", refusal.message, refusal.details);
        assert!(!shown.contains("malformed"), "not for the caller");
    }
}
