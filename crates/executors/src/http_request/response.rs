//! Responses, as they are recorded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canon::json::{self, Limits};
use flow::definition::config::{HttpRequestConfig, ResponseForm};
use flow::state::RunError;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use outbound::{CallError, Reply};
use serde_json::{Map, Value};

use crate::failure::ExecutorErrorCode;

/// The maximum nesting of a JSON body. It is stored inside records, which are limited to 128 levels.
const MAX_DEPTH: usize = 64;
/// The maximum number and size of recorded headers.
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 4096;

/// Headers that are not recorded, because they have credentials.
const DROPPED_HEADERS: [&str; 5] =
    ["set-cookie", "authorization", "proxy-authenticate", "www-authenticate", "authentication-info"];

/// A complete response.
pub(super) struct Received {
    pub(super) status: u16,
    pub(super) headers: Map<String, Value>,
    pub(super) body: Value,
}

pub(super) async fn read(config: &HttpRequestConfig, reply: &mut Reply) -> Result<Received, RunError> {
    let bytes = reply.bytes().await.map_err(|error| match error {
        CallError::TooLarge(limit) => RunError::of(
            ExecutorErrorCode::HttpResponseTooLarge,
            format!(
                "the response is larger than {limit} bytes; raise `response.maxBytes`, at most 10,485,760"
            ),
        ),
        CallError::BodyTimeout(_) => RunError::of(ExecutorErrorCode::HttpTimeout, error.to_string()),
        CallError::Target(_)
        | CallError::Request(_)
        | CallError::Connect(_)
        | CallError::Unsent(_)
        | CallError::Reply(_)
        | CallError::HeadTimeout(_)
        | CallError::Status(_) => RunError::of(ExecutorErrorCode::HttpConnect, error.to_string()),
    })?;
    // The body of an error is often not what the author expects, so it is recorded in any form.
    let form = if config.accepts(reply.status) { config.response.form } else { ResponseForm::Auto };
    let media = reply.headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    let body = body(form, media, bytes)?;
    Ok(Received { status: reply.status, headers: headers(&reply.headers), body })
}

fn body(form: ResponseForm, media: &str, bytes: Vec<u8>) -> Result<Value, RunError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let invalid = |expected: &str| {
        RunError::of(ExecutorErrorCode::HttpResponseInvalid, format!("the response is not {expected}"))
    };
    let read = || json::read(&bytes, &Limits::default().max_bytes(bytes.len()).max_depth(MAX_DEPTH));
    match form {
        ResponseForm::Json => read().map_err(|_| invalid("valid JSON of at most 64 levels")),
        ResponseForm::Text => String::from_utf8(bytes).map(Value::String).map_err(|_| invalid("UTF-8 text")),
        ResponseForm::Base64 => Ok(STANDARD.encode(bytes).into()),
        ResponseForm::Auto => {
            if is_json(media)
                && let Ok(value) = read()
            {
                return Ok(value);
            }
            Ok(String::from_utf8(bytes)
                .map_or_else(|error| STANDARD.encode(error.into_bytes()).into(), Value::String))
        }
    }
}

fn is_json(media: &str) -> bool {
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media == "application/json" || media.ends_with("+json")
}

fn headers(received: &HeaderMap) -> Map<String, Value> {
    let mut headers = Map::new();
    for (name, value) in received {
        let name = name.as_str();
        if DROPPED_HEADERS.contains(&name) || headers.len() >= MAX_HEADERS {
            continue;
        }
        if let Ok(text) = value.to_str()
            && text.len() <= MAX_HEADER_BYTES
        {
            headers.insert(name.to_owned(), flow::redact::text(text).into_owned().into());
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bodies_are_recorded_by_their_form_and_media_type() {
        let cases: [(_, _, &[u8], _); 9] = [
            (ResponseForm::Auto, "application/json; charset=utf-8", br#"{"a":1}"#, Some(json!({"a": 1}))),
            (ResponseForm::Auto, "application/problem+json", b"[]", Some(json!([]))),
            (ResponseForm::Auto, "application/json", b"not json", Some(json!("not json"))),
            (ResponseForm::Auto, "text/plain", b"1", Some(json!("1"))),
            (ResponseForm::Auto, "image/png", &[0xff, 0xfe], Some(json!("//4="))),
            (ResponseForm::Base64, "text/plain", b"hi", Some(json!("aGk="))),
            (ResponseForm::Json, "text/plain", b"[1]", Some(json!([1]))),
            (ResponseForm::Json, "application/json", b"{", None),
            (ResponseForm::Text, "", &[0xff], None),
        ];
        for (form, media, bytes, expected) in cases {
            assert_eq!(body(form, media, bytes.to_vec()).ok(), expected, "{form} {media}");
        }
        let deep = [vec![b'['; 100], vec![b']'; 100]].concat();
        assert!(body(ResponseForm::Json, "", deep).is_err());
        assert_eq!(body(ResponseForm::Json, "", Vec::new()).unwrap(), Value::Null);
    }
}
