//! Encoded HTTP requests: URL, headers and body. Nothing is sent here.

use std::fmt;

use super::{ProviderError, ProviderErrorKind};

/// The maximum length of a base URL.
pub const MAX_BASE_BYTES: usize = 2048;
/// The maximum `retry-after` wait, in milliseconds.
pub const MAX_RETRY_AFTER_MS: u64 = 600_000;

/// Why a base URL is invalid. It is not quoted, because it may contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlError {
    #[error("the base URL is longer than {MAX_BASE_BYTES} bytes")]
    Length,
    #[error("the base URL must start with `https://` or `http://`")]
    Scheme,
    #[error("the base URL must have a host after the scheme, and no user name")]
    Host,
    #[error(
        "the path of the base URL can contain letters, digits and `-._~` between slashes, but no `.` or \
            `..` segment"
    )]
    Path,
}

/// The base URL of a provider: scheme, host and optional path. Appended paths cannot leave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    text: String,
    host: String,
    secure: bool,
}

impl BaseUrl {
    /// Parses `https://host[:port][/path]`.
    ///
    /// # Errors
    /// Anything else: user names, queries, fragments, escapes, dot segments.
    pub fn parse(text: &str) -> Result<Self, BaseUrlError> {
        if text.len() > MAX_BASE_BYTES {
            return Err(BaseUrlError::Length);
        }
        let (rest, secure) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (rest, true),
            (None, Some(rest)) => (rest, false),
            (None, None) => return Err(BaseUrlError::Scheme),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = host_of(authority).ok_or(BaseUrlError::Host)?.to_ascii_lowercase();
        let path = path.strip_suffix('/').unwrap_or(path);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let segment = |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(plain);
        if !path.is_empty() && !path[1..].split('/').all(segment) {
            return Err(BaseUrlError::Path);
        }
        let scheme = if secure { "https" } else { "http" };
        Ok(Self { text: format!("{scheme}://{}{path}", authority.to_ascii_lowercase()), host, secure })
    }

    /// The URL of a path below the base. If the base already ends with `version`, it is not repeated.
    pub(crate) fn join(&self, version: &str, path: &str) -> String {
        let version = if self.text.ends_with(version) { "" } else { version };
        format!("{}{version}{path}", self.text)
    }

    /// The host without its port, in lower case.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether a credential may be sent there: over TLS, or to this machine.
    pub fn takes_credentials(&self) -> bool {
        let loopback = matches!(self.host.as_str(), "localhost" | "[::1]") || is_loopback_v4(&self.host);
        self.secure || loopback
    }
}

fn is_loopback_v4(host: &str) -> bool {
    let parts: Vec<&str> = host.split('.').collect();
    parts.len() == 4 && parts[0] == "127" && parts.iter().all(|part| part.parse::<u8>().is_ok())
}

fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let end = rest.find(']')? + 2;
            (&authority[..end], &authority[end..])
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port_is_one = match port.strip_prefix(':') {
        Some(port) => !port.is_empty() && port.len() <= 5 && port.bytes().all(|digit| digit.is_ascii_digit()),
        None => port.is_empty(),
    };
    let inner = host.trim_start_matches('[').trim_end_matches(']');
    let bracketed = host.starts_with('[');
    let letter = |byte: u8| match bracketed {
        true => byte.is_ascii_hexdigit() || byte == b':' || byte == b'.',
        false => byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.' || byte == b'_',
    };
    (port_is_one && !inner.is_empty() && inner.bytes().all(letter)).then_some(host)
}

/// A credential. It cannot be printed, compared or serialized; senders read it with [`Credential::expose`].
#[derive(Clone)]
pub struct Credential(String);

impl Credential {
    /// A credential that is valid in a header.
    ///
    /// # Errors
    /// It is empty, too long, or has characters other than visible ASCII.
    pub fn new(text: impl Into<String>) -> Result<Self, CredentialError> {
        let text = text.into();
        let fits = !text.is_empty() && text.len() <= 8192 && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(text)) } else { Err(CredentialError) }
    }

    /// The credential itself. Use it only to send the request.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credential(…)")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a credential must be 1 to 8192 visible ASCII characters")]
pub struct CredentialError;

/// A header with a secret value.
#[derive(Clone, Debug)]
pub struct SecretHeader {
    pub name: &'static str,
    /// The text before the credential.
    pub prefix: &'static str,
    pub credential: Credential,
}

impl SecretHeader {
    /// The complete value. Use it only to send the request.
    pub fn expose(&self) -> String {
        format!("{}{}", self.prefix, self.credential.expose())
    }
}

#[derive(Clone, Debug)]
pub struct HttpRequest {
    pub method: &'static str,
    pub url: String,
    /// The headers without the secret one.
    pub headers: Vec<(&'static str, String)>,
    pub secret: Option<SecretHeader>,
    pub body: Vec<u8>,
}

/// Where and how to send a request.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub base: BaseUrl,
    pub credential: Option<Credential>,
    /// The idempotency key. Providers that support it bill the same key once.
    pub idempotency_key: Option<String>,
}

/// Why a request is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The credential would be sent without encryption.
    #[error("a credential is sent only over https or to this machine; use an `https://` base URL")]
    InsecureCredential,
}

impl Endpoint {
    /// A request to a path below the base.
    pub(crate) fn post(
        &self,
        url: String,
        name: &'static str,
        prefix: &'static str,
        body: &serde_json::Value,
        stream: bool,
    ) -> Result<HttpRequest, SendError> {
        if self.credential.is_some() && !self.base.takes_credentials() {
            return Err(SendError::InsecureCredential);
        }
        let accept = if stream { "text/event-stream" } else { "application/json" };
        let mut headers =
            vec![("accept", accept.to_owned()), ("content-type", "application/json".to_owned())];
        // Generated keys need no escaping; any other key could split the header.
        if let Some(key) =
            self.idempotency_key.as_ref().filter(|key| key.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            headers.push(("idempotency-key", key.clone()));
        }
        let secret = self.credential.clone().map(|credential| SecretHeader { name, prefix, credential });
        Ok(HttpRequest { method: "POST", url, headers, secret, body: body.to_string().into_bytes() })
    }
}

/// The error for a status, with details from the headers and the provider's error code.
pub(crate) fn failure(
    status: u16,
    header: &dyn Fn(&str) -> Option<String>,
    code: Option<&str>,
) -> ProviderError {
    let kind = match status {
        401 | 403 => ProviderErrorKind::Unauthorized,
        429 => ProviderErrorKind::RateLimited,
        408 | 409 | 425 | 500..=599 => ProviderErrorKind::Unavailable,
        _ => ProviderErrorKind::Rejected,
    };
    let word = |code: &&str| {
        (1..=64).contains(&code.len())
            && code
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte))
    };
    ProviderError {
        kind,
        status: Some(status),
        code: code.filter(word).map(ToOwned::to_owned),
        retry_after_ms: retry_after(header),
        detail: None,
    }
}

/// The wait from `retry-after-ms`, or from `retry-after` in seconds. Dates are ignored because there is no clock here.
fn retry_after(header: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let milliseconds = header("retry-after-ms").and_then(|text| text.trim().parse::<u64>().ok());
    let seconds = || {
        let text = header("retry-after")?;
        let seconds: f64 =
            text.trim().parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)?;
        // The cast of a float saturates; the limit below is far lower.
        #[expect(clippy::cast_possible_truncation, reason = "saturates, and is limited below")]
        Some((seconds * 1000.0).ceil() as u64)
    };
    milliseconds.or_else(seconds).map(|wait| wait.min(MAX_RETRY_AFTER_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_paths() {
        let cases = [
            ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
            ("https://API.openai.com/v1/", "https://api.openai.com/v1/chat/completions"),
            ("http://127.0.0.1:11434", "http://127.0.0.1:11434/v1/chat/completions"),
            ("http://[::1]:8080/llm", "http://[::1]:8080/llm/v1/chat/completions"),
        ];
        for (base, url) in cases {
            assert_eq!(BaseUrl::parse(base).unwrap().join("/v1", "/chat/completions"), url);
        }
    }

    #[test]
    fn rejects_invalid_base_urls() {
        let cases = [
            ("", BaseUrlError::Scheme),
            ("ftp://host", BaseUrlError::Scheme),
            ("//host", BaseUrlError::Scheme),
            ("https://", BaseUrlError::Host),
            ("https://user@host", BaseUrlError::Host),
            ("https://user:pass@host/", BaseUrlError::Host),
            ("https://host:port", BaseUrlError::Host),
            ("https://host:", BaseUrlError::Host),
            ("https://host?x", BaseUrlError::Host),
            ("https://host\\evil", BaseUrlError::Host),
            ("https://[::1", BaseUrlError::Host),
            ("https://host/..", BaseUrlError::Path),
            ("https://host/a/../b", BaseUrlError::Path),
            ("https://host/%2e%2e", BaseUrlError::Path),
            ("https://host/a//b", BaseUrlError::Path),
            ("https://host//", BaseUrlError::Path),
            ("https://host/a?b", BaseUrlError::Path),
            ("https://host/a#b", BaseUrlError::Path),
            ("https://host/a b", BaseUrlError::Path),
        ];
        for (base, error) in cases {
            assert_eq!(BaseUrl::parse(base), Err(error), "{base}");
        }
        assert_eq!(
            BaseUrl::parse(&format!("https://{}", "h".repeat(MAX_BASE_BYTES))),
            Err(BaseUrlError::Length)
        );
    }

    #[test]
    fn credentials_require_tls_and_are_not_printed() {
        let cases = [
            ("https://host", true),
            ("http://host", false),
            ("http://localhost:1", true),
            ("http://127.0.0.1", true),
        ];
        for (base, allowed) in cases {
            assert_eq!(BaseUrl::parse(base).unwrap().takes_credentials(), allowed, "{base}");
        }
        let credential = Credential::new("sk-a-secret-value").unwrap();
        let header = SecretHeader { name: "authorization", prefix: "Bearer ", credential };
        assert_eq!(
            format!("{header:?}"),
            "SecretHeader { name: \"authorization\", prefix: \"Bearer \", credential: Credential(…) }"
        );
        assert!(Credential::new("a\r\nb: c").is_err() && Credential::new("").is_err());
    }

    #[test]
    fn maps_statuses_to_errors() {
        let none = |_: &str| None;
        let cases = [
            (401, ProviderErrorKind::Unauthorized),
            (429, ProviderErrorKind::RateLimited),
            (529, ProviderErrorKind::Unavailable),
            (400, ProviderErrorKind::Rejected),
        ];
        for (status, kind) in cases {
            assert_eq!(failure(status, &none, None).kind, kind);
        }
        let wait = |text: &'static str| move |name: &str| (name == "retry-after").then(|| text.to_owned());
        let waits = [
            ("3", Some(3000)),
            ("0.5", Some(500)),
            ("1e300", Some(MAX_RETRY_AFTER_MS)),
            ("Sun, 06 Nov", None),
            ("-1", None),
        ];
        for (text, expected) in waits {
            assert_eq!(failure(429, &wait(text), None).retry_after_ms, expected, "{text}");
        }
        assert_eq!(
            failure(400, &none, Some("invalid_request_error")).code.as_deref(),
            Some("invalid_request_error")
        );
        assert_eq!(failure(400, &none, Some("Incorrect API key: sk-…")).code, None);
    }
}
