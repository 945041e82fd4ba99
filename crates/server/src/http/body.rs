//! Request bodies: limited in size and time, and parsed strictly.

use std::time::Duration;

use axum::body::Body as Stream;
use bytes::{Bytes, BytesMut};
use canon::json::{self, Limits, ReadErrorCode};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt as _;
use ports::Cause;
use runs::{ApiCode, Refusal};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::route::Body;
use super::state::Settings;

/// The slowest accepted upload, in bytes per second, beyond the time that every body has.
const SLOWEST_UPLOAD: usize = 256 << 10;

/// Larger bodies are parsed on another thread, because that would delay the requests that share this one.
const WORTH_A_THREAD: usize = 256 << 10;

/// The maximum nesting of a body: it is stored inside records that are read to 128 levels.
pub(super) const MAX_DEPTH: usize = 64;

/// Parses the body of a request.
pub(super) async fn read(
    kind: Body,
    headers: &HeaderMap,
    stream: Stream,
    settings: &Settings,
) -> Result<Value, Refusal> {
    let limit = match kind {
        Body::None | Body::Message | Body::Archive | Body::Object => return Ok(Value::Null),
        Body::Optional | Body::Required | Body::TokenAnswer => settings.max_body_bytes,
        Body::Workflow => settings.max_workflow_bytes,
    };
    let bytes = within_time(headers, stream, limit, settings.body_timeout).await?;
    if bytes.is_empty() && kind == Body::Optional {
        return Ok(Value::Object(Map::new()));
    }
    check_media(headers)?;
    let limits = Limits::default().max_bytes(limit).max_depth(MAX_DEPTH);
    let parse = move || json::read(&bytes, &limits);
    let parsed = if limit_of(headers).is_some_and(|length| length > WORTH_A_THREAD) {
        let failed = |error| {
            Refusal::new(ApiCode::InternalError, "the body could not be read; retry")
                .because(Cause::new(error))
        };
        tokio::task::spawn_blocking(parse).await.map_err(failed)?
    } else {
        parse()
    };
    parsed.map_err(|error| refusal(&error))
}

/// The raw body of a request.
pub(super) async fn message(
    headers: &HeaderMap,
    stream: Stream,
    settings: &Settings,
) -> Result<Bytes, Refusal> {
    check_media(headers)?;
    within_time(headers, stream, settings.max_message_bytes, settings.body_timeout).await
}

/// The raw archive of a pack. It is checked when it is unpacked.
pub(super) async fn archive(
    headers: &HeaderMap,
    stream: Stream,
    settings: &Settings,
) -> Result<Bytes, Refusal> {
    check_encoding(headers)?;
    let limit = packs::archive::Limits::DEFAULT.packed_bytes;
    within_time(headers, stream, limit, upload_time(headers, limit, settings)).await
}

/// The raw bytes of an object.
pub(super) async fn object(
    headers: &HeaderMap,
    stream: Stream,
    most: usize,
    settings: &Settings,
) -> Result<Bytes, Refusal> {
    check_encoding(headers)?;
    within_time(headers, stream, most, upload_time(headers, most, settings)).await
}

/// The timeout of an upload: that of any body, plus time for its announced size.
fn upload_time(headers: &HeaderMap, limit: usize, settings: &Settings) -> Duration {
    let bytes = limit_of(headers).unwrap_or_default().min(limit);
    settings.body_timeout + Duration::from_secs((bytes / SLOWEST_UPLOAD) as u64)
}

async fn within_time(
    headers: &HeaderMap,
    stream: Stream,
    limit: usize,
    time: Duration,
) -> Result<Bytes, Refusal> {
    timeout_at(Instant::now() + time, receive(headers, stream, limit)).await.map_err(|_| {
        let seconds = time.as_secs();
        let message = format!("the body did not arrive within {seconds} seconds; send it again");
        Refusal::new(ApiCode::RequestTimeout, message)
    })?
}

fn limit_of(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large(limit: usize) -> Refusal {
    let message = format!("the body is larger than the limit of {limit} bytes");
    Refusal::new(ApiCode::PayloadTooLarge, message).detail("maxRequestBodyBytes", limit)
}

async fn receive(headers: &HeaderMap, mut stream: Stream, limit: usize) -> Result<Bytes, Refusal> {
    // Before anything is read, if the client announces the size.
    if limit_of(headers).is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    let mut received = BytesMut::new();
    while let Some(frame) = stream.frame().await {
        let frame = frame.map_err(|_| {
            Refusal::new(
                ApiCode::ValidationError,
                "the connection closed before the body was complete; \
                                                    send it again",
            )
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if received.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        received.extend_from_slice(&data);
    }
    Ok(received.freeze())
}

fn check_encoding(headers: &HeaderMap) -> Result<(), Refusal> {
    let encoded = headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity");
    if encoded {
        let message = "`Content-Encoding` is not supported; send the body uncompressed";
        return Err(Refusal::new(ApiCode::UnsupportedMediaType, message));
    }
    Ok(())
}

/// A body without a media type counts as JSON, because nothing else is accepted.
fn check_media(headers: &HeaderMap) -> Result<(), Refusal> {
    check_encoding(headers)?;
    let Some(media) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let media = media.to_str().unwrap_or_default();
    let essence = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    let message = "the body must be JSON; send `Content-Type: application/json`";
    Err(Refusal::new(ApiCode::UnsupportedMediaType, message))
}

pub(super) fn refusal(error: &json::ReadError) -> Refusal {
    let code = match error.code() {
        ReadErrorCode::TooLarge => ApiCode::PayloadTooLarge,
        ReadErrorCode::Syntax
        | ReadErrorCode::TooDeep
        | ReadErrorCode::DuplicateKey
        | ReadErrorCode::InexactNumber
        | ReadErrorCode::InvalidText => ApiCode::ValidationError,
    };
    // Reports the kind and the position of the error, but no content: a duplicate name may be a secret.
    let message = format!("the body is not valid JSON, at {}", error.position);
    Refusal::new(code, message)
        .detail("reason", error.code().as_str())
        .detail("offset", error.position.offset)
        .detail("line", error.position.line)
        .detail("column", error.position.column)
}
