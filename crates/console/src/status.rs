//! How a refusal is shown: HTTP status and page title.

use http::StatusCode;
use runs::RefusalKind;

pub(crate) const fn for_kind(kind: RefusalKind) -> StatusCode {
    match kind {
        RefusalKind::Invalid => StatusCode::BAD_REQUEST,
        RefusalKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        RefusalKind::Forbidden => StatusCode::FORBIDDEN,
        RefusalKind::NotFound => StatusCode::NOT_FOUND,
        RefusalKind::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        RefusalKind::UnsupportedVersion => StatusCode::NOT_ACCEPTABLE,
        RefusalKind::TimedOut => StatusCode::REQUEST_TIMEOUT,
        RefusalKind::Conflict => StatusCode::CONFLICT,
        RefusalKind::Gone => StatusCode::GONE,
        RefusalKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        RefusalKind::UnsupportedMedia => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        RefusalKind::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
        RefusalKind::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        RefusalKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        RefusalKind::NotImplemented => StatusCode::NOT_IMPLEMENTED,
        RefusalKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        RefusalKind::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
    }
}

pub(crate) const fn title(kind: RefusalKind) -> &'static str {
    match kind {
        RefusalKind::Forbidden => "Not allowed",
        RefusalKind::NotFound => "Not found",
        RefusalKind::Conflict | RefusalKind::Gone => "No longer possible",
        RefusalKind::Unauthenticated
        | RefusalKind::Invalid
        | RefusalKind::Unprocessable
        | RefusalKind::MethodNotAllowed
        | RefusalKind::UnsupportedVersion
        | RefusalKind::TimedOut
        | RefusalKind::TooLarge
        | RefusalKind::UnsupportedMedia
        | RefusalKind::RateLimited => "Request failed",
        RefusalKind::Failed
        | RefusalKind::NotImplemented
        | RefusalKind::Unavailable
        | RefusalKind::StorageFull => "Internal error",
    }
}
