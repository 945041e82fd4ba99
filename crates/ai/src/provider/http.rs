//! Requests as HTTP, without the sending: where to, with which headers, and which bytes.

use std::fmt;

use super::{ProviderError, ProviderErrorKind};

/// The longest base of an address.
pub const MAX_BASE_BYTES: usize = 2048;
/// The longest a provider may ask to wait, in milliseconds.
pub const MAX_RETRY_AFTER_MS: u64 = 600_000;

/// Why a text is no base of an address. It is not repeated: it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlError {
    /// Too long.
    #[error("the base URL has more than {MAX_BASE_BYTES} bytes")]
    Length,
    /// Neither `http` nor `https`.
    #[error("the base URL must begin with `https://` or `http://`")]
    Scheme,
    /// No host, or something beside it that is none.
    #[error("the base URL must name a host, without a user, after its scheme")]
    Host,
    /// A path that could lead elsewhere.
    #[error(
        "the path of the base URL may have letters, digits and `-._~` between its slashes, and no `.` or `..`"
    )]
    Path,
}

/// Where a provider is: a scheme, a host, and perhaps the beginning of a path. Nothing that is appended leads out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    text: String,
    host: String,
    secure: bool,
}

impl BaseUrl {
    /// Reads a base: `https://host[:port][/path]`.
    ///
    /// # Errors
    /// Anything else: users, queries, fragments, escapes, dots as segments.
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

    /// The address of a fixed path below the base. Where the base ends as the path begins, that part stands once.
    pub(crate) fn join(&self, version: &str, path: &str) -> String {
        let version = if self.text.ends_with(version) { "" } else { version };
        format!("{}{version}{path}", self.text)
    }

    /// The host, without its port, in lower case.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether a credential may be sent there: over TLS, or without leaving the machine.
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

/// A credential. It cannot be printed, compared or serialised; the one who sends it asks for it by [`Credential::expose`].
#[derive(Clone)]
pub struct Credential(String);

impl Credential {
    /// A credential that fits into a header.
    ///
    /// # Errors
    /// It is empty, too long, or has something other than visible ASCII in it.
    pub fn new(text: impl Into<String>) -> Result<Self, CredentialError> {
        let text = text.into();
        let fits = !text.is_empty() && text.len() <= 8192 && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(text)) } else { Err(CredentialError) }
    }

    /// The credential itself, for the one who sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credential(…)")
    }
}

/// A text is no credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a credential is 1 to 8192 visible ASCII characters")]
pub struct CredentialError;

/// A header whose value is secret.
#[derive(Clone, Debug)]
pub struct SecretHeader {
    /// Its name.
    pub name: &'static str,
    /// What stands before the credential.
    pub prefix: &'static str,
    /// The credential.
    pub credential: Credential,
}

impl SecretHeader {
    /// The whole value, for the one who sends it.
    pub fn expose(&self) -> String {
        format!("{}{}", self.prefix, self.credential.expose())
    }
}

/// A request as it is sent.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The method.
    pub method: &'static str,
    /// The address.
    pub url: String,
    /// The headers, without the secret one.
    pub headers: Vec<(&'static str, String)>,
    /// The secret one.
    pub secret: Option<SecretHeader>,
    /// The body.
    pub body: Vec<u8>,
}

/// What a call is made with, beside the request.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Where.
    pub base: BaseUrl,
    /// As whom.
    pub credential: Option<Credential>,
    /// Under which identity. The same one never counts twice with a provider that looks at it.
    pub idempotency_key: Option<String>,
}

/// Why a request is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The credential would go over the network in the clear.
    #[error("a credential is only sent over https, or to this machine")]
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
        // Identities are derived and need no escaping; one that does would split the header.
        if let Some(key) =
            self.idempotency_key.as_ref().filter(|key| key.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            headers.push(("idempotency-key", key.clone()));
        }
        let secret = self.credential.clone().map(|credential| SecretHeader { name, prefix, credential });
        Ok(HttpRequest { method: "POST", url, headers, secret, body: body.to_string().into_bytes() })
    }
}

/// The failure that a status stands for, with what the headers and the provider's own name of it add.
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

/// How long to wait, from `retry-after-ms` or from seconds in `retry-after`. A date says nothing without a clock.
fn retry_after(header: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let milliseconds = header("retry-after-ms").and_then(|text| text.trim().parse::<u64>().ok());
    let seconds = || {
        let text = header("retry-after")?;
        let seconds: f64 =
            text.trim().parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)?;
        // A cast of a float saturates; the limit below is far lower.
        #[expect(clippy::cast_possible_truncation, reason = "saturates, and is cut below")]
        Some((seconds * 1000.0).ceil() as u64)
    };
    milliseconds.or_else(seconds).map(|wait| wait.min(MAX_RETRY_AFTER_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_and_where_they_lead() {
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
    fn bases_that_are_refused() {
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
    fn a_credential_is_not_sent_in_the_clear_and_not_printed() {
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
    fn what_a_status_means() {
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
