//! Whether a request may be sent, and with which credential.

use std::fmt;
use std::str::FromStr;

use flow::engine::Reported;
use flow::event::data::value::LogAppended;
use flow::id::Tenant;
use flow::state::RunError;
use outbound::{Target, TargetError};
use serde_json::json;

use super::HttpAccess;
use crate::failure::ExecutorErrorCode;

/// A host name, `*.example.com` for all its subdomains, or `*` for every public host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    Exact(String),
    /// Subdomains of this name, not the name itself.
    Below(String),
    Any,
}

/// Why a text is not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a host must be a name such as `api.example.com`, `*.example.com` for its subdomains, or `*` for every public host"
)]
pub struct HostPatternError;

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, HostPatternError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let (name, is_below) = text.strip_prefix("*.").map_or((text, false), |name| (name, true));
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if name.is_empty() || name.len() > 253 || !name.bytes().all(is_part) || name.starts_with('.') {
            return Err(HostPatternError);
        }
        let name = name.to_ascii_lowercase();
        Ok(if is_below { Self::Below(name) } else { Self::Exact(name) })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => formatter.write_str(name),
            Self::Below(name) => write!(formatter, "*.{name}"),
            Self::Any => formatter.write_str("*"),
        }
    }
}

impl HostPattern {
    pub(super) fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => name == host,
            Self::Below(name) => {
                host.strip_suffix(name.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            Self::Any => true,
        }
    }
}

/// A credential of the operator's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The name of the secret.
    pub secret: String,
    /// The hosts that it may be sent to.
    pub audience: Vec<HostPattern>,
    /// The header, in lower case.
    pub header: String,
    /// What precedes the secret in the header, such as `Bearer `.
    pub prefix: String,
    /// The tenants that may use it; empty means all.
    pub tenants: Vec<String>,
}

/// The decision about one request.
pub(super) enum Decision {
    Allowed {
        target: Target,
        /// The header with the credential.
        credential: Option<(String, String)>,
        /// The name of the credential, for the report.
        name: Option<String>,
        destination: String,
    },
    Denied {
        destination: String,
        name: Option<String>,
        reason: Reason,
        error: RunError,
    },
}

/// Why a request is refused, as the protocol spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The host is not on the operator's list.
    Policy,
    /// The address belongs to this machine or a private network.
    Ssrf,
    /// The credential must not be sent to this host.
    Audience,
    /// The credential does not exist for the tenant, or cannot be read.
    Credential,
}

impl Reason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy-denied",
            Self::Ssrf => "ssrf-blocked",
            Self::Audience => "out-of-audience",
            Self::Credential => "provenance-unevaluable",
        }
    }
}

impl Decision {
    /// The record of a refusal, or of a credential that is sent. Other calls are only visible in the outputs of their node.
    pub(super) fn report(&self) -> Option<Reported> {
        let (level, message, fields) = match self {
            Self::Allowed { name: None, .. } => return None,
            Self::Allowed { name: Some(name), destination, .. } => (
                "info",
                format!("the credential `{name}` is sent to {destination}"),
                json!({"decision": "allowed", "destination": destination, "credentialId": name, "reason": "ok"}),
            ),
            Self::Denied { destination, name, reason, .. } => {
                let mut fields =
                    json!({"decision": "denied", "destination": destination, "reason": reason.as_str()});
                if let Some(name) = name {
                    fields["credentialId"] = name.as_str().into();
                }
                ("warn", format!("a request to {destination} was refused"), fields)
            }
        };
        Some(Reported::event(LogAppended {
            content_trust: None,
            fields: Some(fields),
            level: level.into(),
            message,
            node_id: None,
        }))
    }
}

impl HttpAccess {
    /// Decides about a request of a tenant. The addresses of the host are checked when it is connected to.
    pub(super) fn decide(&self, tenant: &Tenant, url: &str, credential: Option<&str>) -> Decision {
        let name = credential.map(str::to_owned);
        // The host is taken from what will be called, so that no second parser can see another host in the URL.
        let target = match self.client.check(url) {
            Ok(target) => target,
            Err(error) => {
                let code = match error {
                    TargetError::Malformed => ExecutorErrorCode::InvalidUrl,
                    TargetError::NotHttps | TargetError::Private => ExecutorErrorCode::EgressDenied,
                };
                let reason = Reason::Ssrf;
                let error = RunError::of(code, error.to_string()).with(json!({"reason": reason.as_str()}));
                return Decision::Denied { destination: "an address".into(), name, reason, error };
            }
        };
        let host = target.host();
        let destination = target.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let denied = |reason: Reason, code: ExecutorErrorCode, message: String| Decision::Denied {
            error: RunError::of(code, message)
                .with(json!({"reason": reason.as_str(), "destination": destination})),
            destination: destination.clone(),
            name: name.clone(),
            reason,
        };
        if !self.hosts.iter().any(|pattern| pattern.matches(host)) {
            let message =
                format!("the host `{host}` is not allowed; have the operator add it to `egress.http`");
            return denied(Reason::Policy, ExecutorErrorCode::EgressDenied, message);
        }
        let Some(wanted) = credential else {
            return Decision::Allowed { target, credential: None, name: None, destination };
        };
        let is_for = |known: &&Credential| {
            known.tenants.is_empty() || known.tenants.iter().any(|known| tenant == known.as_str())
        };
        let Some(known) = self.credentials.get(wanted).filter(is_for) else {
            let message = format!(
                "no credential `{wanted}` is configured; the settings name them under `http.credentials`"
            );
            return denied(Reason::Credential, ExecutorErrorCode::CredentialRequired, message);
        };
        if !known.audience.iter().any(|pattern| pattern.matches(host)) {
            let message = format!(
                "the credential `{wanted}` must not be sent to `{host}`; its `audience` in the settings lists its hosts"
            );
            return denied(Reason::Audience, ExecutorErrorCode::EgressDenied, message);
        }
        match self.secrets.resolve(tenant, &known.secret) {
            Ok(value) => Decision::Allowed {
                target,
                credential: Some((known.header.clone(), format!("{}{}", known.prefix, value.expose()))),
                name,
                destination: destination.clone(),
            },
            Err(error) => {
                denied(Reason::Credential, ExecutorErrorCode::CredentialRequired, error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_match_by_name_by_subdomain_or_all() {
        let cases = [
            ("api.example.com", "api.example.com", true),
            ("API.example.com", "api.example.com", true),
            ("api.example.com", "xapi.example.com", false),
            ("*.example.com", "a.example.com", true),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "evilexample.com", false),
            ("*.example.com", ".example.com", false),
            ("*", "anything.example", true),
            ("127.0.0.1", "127.0.0.1", true),
        ];
        for (pattern, host, expected) in cases {
            assert_eq!(pattern.parse::<HostPattern>().unwrap().matches(host), expected, "{pattern} {host}");
        }
        for text in ["", "*.", "https://a.example", "a.example/x", "a b", ".example.com", "**"] {
            assert_eq!(text.parse::<HostPattern>(), Err(HostPatternError), "{text}");
        }
    }
}
