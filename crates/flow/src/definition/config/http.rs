//! The configuration of `core.http.request`.

mod url;

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

pub use self::url::{Filled, UrlTemplate};
use super::super::Problem;
use super::derive::whole;
use crate::wire_enum::wire_enum;

/// The maximum number of configured headers.
const MAX_HEADERS: usize = 50;
/// The maximum size of a recorded response body, in bytes.
const MAX_RESPONSE_BYTES: u64 = 10 << 20;
/// The maximum duration of one attempt, in milliseconds.
const MAX_TIMEOUT_MS: u64 = 120_000;

/// Headers that a workflow cannot set: the host sets them, or they are credentials and belong into the settings.
const RESERVED_HEADERS: [&str; 11] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "host",
    "idempotency-key",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// `core.http.request`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpRequestConfig {
    #[serde(default)]
    pub method: HttpMethod,
    /// `{{name}}` in the path or query is replaced by the input or variable of that name, percent-encoded.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    #[serde(default)]
    #[schemars(extend("maxProperties" = MAX_HEADERS))]
    pub headers: BTreeMap<String, String>,
    /// How the input `body` is sent. The default is `json` if the node has this input.
    pub body: Option<HttpBody>,
    /// The time limit of one attempt.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 100, max = MAX_TIMEOUT_MS))]
    timeout_ms: Option<u64>,
    #[serde(default)]
    pub retry: HttpRetry,
    #[serde(default)]
    pub idempotency: HttpIdempotency,
    /// The statuses that complete the node; others fail it with `http_status`.
    #[serde(default = "success")]
    #[schemars(length(min = 1, max = 20), inner(regex(pattern = "^([1-5][0-9]{2}|[1-5]xx)$")))]
    accept: Vec<String>,
    #[serde(default)]
    pub response: HttpResponse,
    /// How many redirects are followed. The host of each is checked like the first one.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 0, max = 5))]
    follow_redirects: Option<u64>,
}

fn success() -> Vec<String> {
    vec!["2xx".to_owned()]
}

wire_enum! {
    #[derive(Default)]
    pub enum HttpMethod {
        #[default]
        Get => "GET",
        Head => "HEAD",
        Options => "OPTIONS",
        Post => "POST",
        Put => "PUT",
        Patch => "PATCH",
        Delete => "DELETE",
    }
}

impl HttpMethod {
    /// Whether a repeated request has the effect of one.
    pub const fn is_idempotent(self) -> bool {
        match self {
            Self::Get | Self::Head | Self::Options | Self::Put | Self::Delete => true,
            Self::Post | Self::Patch => false,
        }
    }

    /// Whether a request changes nothing.
    pub const fn is_safe(self) -> bool {
        match self {
            Self::Get | Self::Head | Self::Options => true,
            Self::Post | Self::Put | Self::Patch | Self::Delete => false,
        }
    }
}

wire_enum! {
    /// How a body is sent.
    pub enum HttpBody {
        Json => "json",
        /// An object of strings, numbers and booleans as `application/x-www-form-urlencoded`.
        Form => "form",
        Text => "text",
        /// Bytes, given in Base64.
        Base64 => "base64",
        None => "none",
    }
}

/// Attempts of one request, all with the same idempotency key.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpRetry {
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = 10))]
    max_attempts: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 10, max = 60_000))]
    initial_delay_ms: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 10, max = 60_000))]
    max_delay_ms: Option<u64>,
}

impl HttpRetry {
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts.and_then(|number| u32::try_from(number).ok()).unwrap_or(3)
    }

    /// The delay after a failed attempt, which is counted from 1. It doubles with every attempt.
    pub fn delay(&self, attempt: u32) -> Duration {
        let (first, most) = (self.initial_delay_ms.unwrap_or(500), self.max_delay_ms.unwrap_or(8000));
        let doubled = first.saturating_mul(1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX));
        Duration::from_millis(doubled.min(most))
    }
}

/// Whether the server recognizes repeated requests.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpIdempotency {
    #[serde(default)]
    pub mode: IdempotencyMode,
    /// Whether the server executes requests with the same `Idempotency-Key` only once. Then a `POST` or `PATCH` can be repeated.
    #[serde(default)]
    pub honoured: bool,
}

wire_enum! {
    #[derive(Default)]
    pub enum IdempotencyMode {
        /// `Idempotency-Key` is sent with every request that can change something.
        #[default]
        Auto => "auto",
        Disabled => "disabled",
    }
}

/// How the response body is recorded.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpResponse {
    #[serde(default, rename = "as")]
    pub form: ResponseForm,
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = MAX_RESPONSE_BYTES))]
    max_bytes: Option<u64>,
}

impl HttpResponse {
    /// The maximum size of the body; the default is 1 MiB.
    pub fn max_bytes(&self) -> usize {
        usize::try_from(self.max_bytes.unwrap_or(1 << 20)).unwrap_or(usize::MAX)
    }
}

wire_enum! {
    #[derive(Default)]
    pub enum ResponseForm {
        /// JSON or text by the content type, otherwise Base64.
        #[default]
        Auto => "auto",
        Json => "json",
        Text => "text",
        Base64 => "base64",
    }
}

impl HttpRequestConfig {
    /// The maximum size of a response that a node can request, in bytes.
    pub const MAX_RESPONSE_BYTES: u64 = MAX_RESPONSE_BYTES;
    /// The maximum duration of one attempt, in milliseconds.
    pub const MAX_TIMEOUT_MS: u64 = MAX_TIMEOUT_MS;

    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.unwrap_or(30_000))
    }

    pub fn follow_redirects(&self) -> u64 {
        self.follow_redirects.unwrap_or(0)
    }

    /// Whether a response with this status completes the node.
    pub fn accepts(&self, status: u16) -> bool {
        let digits = status.to_string();
        let is_accepted = |pattern: &String| match pattern.strip_suffix("xx") {
            Some(class) => digits.starts_with(class),
            None => *pattern == digits,
        };
        self.accept.iter().any(is_accepted)
    }

    /// Whether a request that may have been executed can be sent again.
    pub const fn is_repeatable(&self) -> bool {
        self.method.is_idempotent() || (self.idempotency.honoured && self.sends_key())
    }

    /// Whether requests have an `Idempotency-Key`.
    pub const fn sends_key(&self) -> bool {
        match self.idempotency.mode {
            IdempotencyMode::Auto => !self.method.is_safe(),
            IdempotencyMode::Disabled => false,
        }
    }

    pub(super) fn check(&self, path: &str, problems: &mut Vec<Problem>) {
        let mut problem = |pointer: &str, message: String| {
            problems.push(Problem::at(format!("{path}{pointer}"), message));
        };
        if let Err(error) = UrlTemplate::parse(&self.url) {
            problem("/url", error.to_string());
        }
        for (name, value) in &self.headers {
            let pointer = format!("/headers/{}", name.replace('~', "~0").replace('/', "~1"));
            if let Some(message) = header_problem(name, value) {
                problem(&pointer, message);
            }
        }
        if self.method.is_safe() && !matches!(self.body, None | Some(HttpBody::None)) {
            problem("/body", format!("a {} request has no body; remove `body`", self.method));
        }
        if self.idempotency.honoured && self.idempotency.mode == IdempotencyMode::Disabled {
            let message = "`honoured` requires an `Idempotency-Key`; set `mode` to `auto`";
            problem("/idempotency/honoured", message.into());
        }
    }
}

fn header_problem(name: &str, value: &str) -> Option<String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > 256 || !name.bytes().all(is_token) {
        return Some("not a valid header name".into());
    }
    let lower = name.to_ascii_lowercase();
    if lower == "authorization" || lower == "cookie" {
        return Some(format!(
            "`{lower}` is a credential; have the operator add it under `http.credentials`, and name it in `credentialsRef`"
        ));
    }
    if RESERVED_HEADERS.contains(&lower.as_str()) || lower.starts_with("proxy-") {
        return Some(format!("the host sets `{lower}`; remove it"));
    }
    if value.len() > 8192 || value.bytes().any(|byte| byte != b'\t' && !(0x20..0x7f).contains(&byte)) {
        return Some("a header value must be at most 8,192 printable ASCII characters".into());
    }
    if crate::redact::is_suspicious(value) {
        return Some(
            "the value looks like a credential; have the operator add it under `http.credentials`, and name it in `credentialsRef`"
                .into(),
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::definition::{CalledType, Capabilities, NodeConfig, NodeType};

    fn problems(config: &Value) -> Vec<(String, String)> {
        let kind = NodeType::Called(CalledType::HttpRequest);
        let checked = NodeConfig::check(kind, config.as_object().unwrap(), "", &Capabilities::EVERYTHING);
        let found = checked.err().unwrap_or_default();
        found.into_iter().map(|problem| (problem.path, problem.message)).collect()
    }

    #[test]
    fn configurations_that_are_refused_at_registration() {
        let url = "https://api.example/x";
        let cases = [
            ("no URL", json!({}), "", "url"),
            ("a host from data", json!({"url": "https://{{host}}/x"}), "/url", "path or query"),
            ("an unclosed placeholder", json!({"url": "https://a.example/{{x"}), "/url", "`}}`"),
            ("another scheme", json!({"url": "ftp://a.example/"}), "/url", "https://"),
            (
                "a password",
                json!({"url": url, "headers": {"Authorization": "x"}}),
                "/headers/Authorization",
                "credentialsRef",
            ),
            (
                "a proxy header",
                json!({"url": url, "headers": {"proxy-x": "x"}}),
                "/headers/proxy-x",
                "the host sets",
            ),
            ("a line break", json!({"url": url, "headers": {"x": "a\r\nb: c"}}), "/headers/x", "printable"),
            (
                "a key in a header",
                json!({"url": url, "headers": {"x-key": format!("ghp_{}", "a1B2".repeat(9))}}),
                "/headers/x-key",
                "credential",
            ),
            ("a body of GET", json!({"url": url, "body": "json"}), "/body", "no body"),
            ("an unknown member", json!({"url": url, "verb": "GET"}), "", "verb"),
            ("a long timeout", json!({"url": url, "timeoutMs": 120_001}), "/timeoutMs", "120000"),
            ("a status that does not exist", json!({"url": url, "accept": ["9xx"]}), "/accept/0", "9xx"),
            (
                "honoured without a key",
                json!({"url": url, "method": "POST", "idempotency": {"mode": "disabled", "honoured": true}}),
                "/idempotency/honoured",
                "auto",
            ),
        ];
        for (name, config, path, message) in cases {
            let found = problems(&config);
            assert!(found.iter().any(|(at, said)| at == path && said.contains(message)), "{name}: {found:?}");
        }
        let whole = json!({
            "url": "https://api.example/{{repo}}?q={{q}}", "method": "POST", "headers": {"accept": "application/json"}, "body": "json",
            "timeoutMs": 20000.0, "retry": {"maxAttempts": 3}, "idempotency": {"honoured": true}, "accept": ["2xx", "404"],
            "response": {"as": "json", "maxBytes": 1024}, "followRedirects": 5,
        });
        assert_eq!(problems(&whole), []);
    }

    #[test]
    fn statuses_delays_and_repetition() {
        let read = |config: Value| serde_json::from_value::<HttpRequestConfig>(config).unwrap();
        let post = read(json!({"url": "https://a.example", "method": "POST", "accept": ["2xx", "404"]}));
        let accepted = [(200, true), (299, true), (404, true), (400, false), (301, false)];
        for (status, expected) in accepted {
            assert_eq!(post.accepts(status), expected, "{status}");
        }
        assert!(!post.is_repeatable() && post.sends_key());
        let honoured =
            json!({"url": "https://a.example", "method": "POST", "idempotency": {"honoured": true}});
        assert!(read(honoured).is_repeatable());
        assert!(read(json!({"url": "https://a.example", "method": "PUT"})).is_repeatable());
        let delays: Vec<_> = (1..=6).map(|attempt| post.retry.delay(attempt).as_millis()).collect();
        assert_eq!(delays, [500, 1000, 2000, 4000, 8000, 8000]);
        assert_eq!(post.retry.delay(u32::MAX).as_millis(), 8000);
    }
}
