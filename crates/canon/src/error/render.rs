//! Protocol-specific formats of an [`Envelope`].
//!
//! Each is a function of the envelope, so all protocols report the same facts. If a format has no field for the
//! suggestion or the retry delay, they become the details `suggestion` and `retryAfterMs`.

use serde_json::{Map, Value, json};

use super::Envelope;

/// The maximum number of causes in [`workspace_error`].
pub const MAX_CAUSES: usize = 32;

/// The body of a failed MCP tool call: `{code, message, retry: {kind, afterMs?}, details?}`.
///
/// The suggestion is `details.suggestion`; the delay is in `retry`. Empty details are left out.
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

/// A workspace composition error: `{code, message, retryable, details, causes}`.
///
/// All five members are always present; `details` may be `{}` and `causes` `[]`. A cause has the same format without
/// nested causes, and at most [`MAX_CAUSES`] are listed.
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

/// The OpenWOP error envelope: `{error, message, details?}`.
///
/// `error` is the code in snake case, empty details are left out, and the message is never empty: an envelope without
/// one repeats the code. The schema allows any `details`, so the suggestion goes there.
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

/// An existing delay in the details is kept.
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
