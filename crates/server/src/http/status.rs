//! The HTTP status of each error code, and the body of an error.

use http::StatusCode;
use runs::{ApiCode, Refusal, RefusalKind};
use serde_json::{Value, json};

/// The HTTP status of a reply with this code.
pub const fn status(code: ApiCode) -> StatusCode {
    match code.kind() {
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

/// The body of an error, exactly as the protocol defines it.
pub(super) fn body(refusal: &Refusal) -> Value {
    let mut body = json!({"error": refusal.code.as_str(), "message": flow::redact::text(&refusal.message)});
    if !refusal.details.is_empty() {
        let mut details = Value::Object(refusal.details.clone());
        flow::redact::value(&mut details);
        body["details"] = details;
    }
    body
}

#[cfg(test)]
mod tests {
    use ports::Cause;
    use ports::runs::{CommitError, ReadError};

    use super::*;

    #[test]
    fn the_status_says_whether_the_host_or_the_request_is_at_fault() {
        for code in ApiCode::ALL {
            let status = status(*code);
            assert_eq!(status.is_server_error(), code.kind().is_host_failure(), "{code}");
            assert!(status.is_server_error() || status.is_client_error(), "{code}");
        }
    }

    #[test]
    fn a_commit_in_doubt_is_a_503_that_says_so() {
        let refusal = Refusal::from(CommitError::OutcomeUnknown(Cause::new("connection lost")));
        assert_eq!(status(refusal.code), StatusCode::SERVICE_UNAVAILABLE);
        let body_text = body(&refusal).to_string();
        assert!(
            body_text.contains("outcome is unknown") && body_text.contains("Idempotency-Key"),
            "{body_text}"
        );
        assert!(!body_text.contains("connection lost"), "{body_text}");
    }

    #[test]
    fn the_cause_of_a_failure_is_not_sent_to_the_caller() {
        let refusal = Refusal::from(ReadError::Store(Cause::new("database disk image is malformed")));
        assert_eq!(status(refusal.code), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!body(&refusal).to_string().contains("malformed"));
    }
}
