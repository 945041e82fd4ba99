//! The shapes in which particular protocols want an [`Envelope`].
//!
//! Each is a function from the one envelope, so no protocol can learn something about a
//! failure that another cannot. Where a shape has no place for the suggestion or for
//! the wait before a retry, they become the members `suggestion` and `retryAfterMs` of
//! its details.

use serde_json::{Map, Value, json};

use super::Envelope;

/// The most causes that [`workspace_error`] lists; more help nobody.
pub const MAX_CAUSES: usize = 32;

/// The body of a failed MCP tool call: `{code, message, retry: {kind, afterMs?}, details?}`.
///
/// The suggestion is `details.suggestion`; the wait is in `retry`, where this shape has a
/// place for it. Details that would be empty are absent.
pub fn mcp_tool_error(envelope: &Envelope) -> Value {
    let mut body = Map::new();
    body.insert("code".into(), envelope.code().into());
    body.insert("message".into(), envelope.message().into());
    let mut retry = Map::new();
    retry.insert("kind".into(), envelope.retry_hint().kind().into());
    if let Some(milliseconds) = envelope.retry_hint().after_ms() {
        retry.insert("afterMs".into(), milliseconds.into());
    }
    body.insert("retry".into(), retry.into());
    insert_details(&mut body, with_suggestion(envelope));
    body.into()
}

/// An error of workspace composition: `{code, message, retryable, details, causes}`.
///
/// All five members are always there; `details` may be `{}` and `causes` `[]`. A cause
/// has the same shape, with no causes of its own, and at most [`MAX_CAUSES`] are listed.
pub fn workspace_error(envelope: &Envelope, causes: &[Envelope]) -> Value {
    let causes: Vec<Value> =
        causes.iter().take(MAX_CAUSES).map(|cause| workspace_error(cause, &[])).collect();
    json!({
        "code": envelope.code(),
        "message": envelope.message(),
        "retryable": envelope.retry_hint().is_retryable(),
        "details": with_wait(envelope, with_suggestion(envelope)),
        "causes": causes,
    })
}

/// The OpenWOP error envelope: `{error, message, details?}`, and nothing else at the top.
///
/// `error` is the code in lower case with underscores, details are absent rather than
/// empty or null, and the message is never empty: an envelope without one repeats the
/// code. The schema leaves the members of `details` open, so the suggestion goes there.
pub fn openwop_error(envelope: &Envelope) -> Value {
    let error = snake_case(envelope.code());
    let message = if envelope.message().is_empty() { error.as_str() } else { envelope.message() };
    let mut body = Map::new();
    body.insert("message".into(), message.into());
    body.insert("error".into(), error.into());
    insert_details(&mut body, with_wait(envelope, with_suggestion(envelope)));
    body.into()
}

fn with_suggestion(envelope: &Envelope) -> Map<String, Value> {
    let mut details = envelope.details().clone();
    if !envelope.suggestion().is_empty() {
        details.insert("suggestion".into(), envelope.suggestion().into());
    }
    details
}

/// A wait that the details already name stays as it is: its writer knew more.
fn with_wait(envelope: &Envelope, mut details: Map<String, Value>) -> Map<String, Value> {
    if let Some(milliseconds) = envelope.retry_hint().after_ms() {
        details.entry("retryAfterMs").or_insert_with(|| milliseconds.into());
    }
    details
}

fn insert_details(body: &mut Map<String, Value>, details: Map<String, Value>) {
    if !details.is_empty() {
        body.insert("details".into(), details.into());
    }
}

fn snake_case(code: &str) -> String {
    code.chars()
        .map(|character| if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '_' })
        .collect()
}
