//! Checked URLs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use http::{HeaderValue, Uri};

use crate::Network;
use crate::address::{is_loopback, is_public};

/// The maximum length of a URL, in bytes.
pub const MAX_URL_BYTES: usize = 2048;

/// Names of the machine or its network, including their subdomains, whatever they resolve to.
const PRIVATE_NAMES: [&str; 9] =
    ["localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "metadata"];

/// Why a URL must not be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("the address must be a URL of at most {MAX_URL_BYTES} bytes with a host and without a user")]
    Malformed,
    #[error("the address must start with https://")]
    NotHttps,
    #[error(
        "the address belongs to this machine or a private network; use a public address, or have the operator allow its range in \
         `egress.private`"
    )]
    Private,
}

/// Which addresses may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Public addresses with TLS: for caller-provided URLs.
    Public,
    /// Also private addresses in these ranges, and those without TLS: for caller-provided URLs, if the operator allows it.
    PublicAnd(Arc<[Network]>),
    /// Also this machine, and without TLS: for tests.
    Loopback,
    /// All addresses: for operator-provided URLs.
    Anywhere,
}

impl Reach {
    /// Public addresses, and private ones in these ranges.
    pub fn public_and(networks: impl IntoIterator<Item = Network>) -> Self {
        let networks: Arc<[Network]> = networks.into_iter().collect();
        if networks.is_empty() { Self::Public } else { Self::PublicAnd(networks) }
    }

    /// Whether a connection to this address is allowed, with or without TLS. For [`Self::Loopback`] the URL decides whether TLS is needed.
    pub(crate) fn allows(&self, address: IpAddr, tls: bool) -> bool {
        match self {
            Self::Public => is_public(address),
            Self::PublicAnd(networks) => {
                (tls && is_public(address)) || networks.iter().any(|network| network.has_private(address))
            }
            Self::Loopback => is_public(address) || is_loopback(address),
            Self::Anywhere => true,
        }
    }
}

/// A URL that may be called. The addresses of its name are checked when a connection is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Absolute, with a lowercase host and without a default port: equal origins have the same pool key.
    uri: Uri,
    /// The original authority, for the `Host` header.
    authority: HeaderValue,
}

/// The remote end of a connection, from a URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Name(String),
    Address(IpAddr),
}

impl Target {
    pub(crate) fn parse(url: &str, reach: &Reach) -> Result<Self, TargetError> {
        if url.len() > MAX_URL_BYTES {
            return Err(TargetError::Malformed);
        }
        let uri: Uri = url.parse().map_err(|_| TargetError::Malformed)?;
        let Origin { host, port, tls } = Origin::of(&uri, reach)?;
        let authority = uri.authority().ok_or(TargetError::Malformed)?.as_str();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        // `https://host?query` has no path, but a request line needs one.
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let uri = Uri::builder()
            .scheme(if tls { "https" } else { "http" })
            .authority(if port == default_port(tls) { host.to_string() } else { format!("{host}:{port}") })
            .path_and_query(path)
            .build()
            .map_err(|_| TargetError::Malformed)?;
        let authority = HeaderValue::from_str(authority).map_err(|_| TargetError::Malformed)?;
        Ok(Self { uri, authority })
    }

    /// The host that requests go to: in lower case, without a trailing dot, and without brackets around an address.
    pub fn host(&self) -> &str {
        let host = self.uri.host().unwrap_or_default();
        host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.')
    }

    /// The port, if it is not the default one of the scheme.
    pub fn port(&self) -> Option<u16> {
        self.uri.port_u16()
    }

    pub(crate) const fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(crate) const fn authority(&self) -> &HeaderValue {
        &self.authority
    }
}

impl Origin {
    /// Checks a URI. The connector repeats this: a target checked by another client does not widen the reach of this
    /// one.
    pub(crate) fn of(uri: &Uri, reach: &Reach) -> Result<Self, TargetError> {
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) => return Err(TargetError::NotHttps),
            None => return Err(TargetError::Malformed),
        };
        let authority = uri.authority().ok_or(TargetError::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(TargetError::Malformed);
        }
        let host = Host::parse(authority.host())?;
        let is_local = match &host {
            Host::Address(address) => is_loopback(*address),
            Host::Name(name) => name == "localhost",
        };
        // Whether the rules for public URLs do not apply. The addresses of a name are only known, and checked, when it is resolved.
        let is_free = match reach {
            Reach::Public => false,
            Reach::PublicAnd(networks) => match &host {
                Host::Address(address) => networks.iter().any(|network| network.has_private(*address)),
                Host::Name(_) => true,
            },
            Reach::Loopback => is_local,
            Reach::Anywhere => true,
        };
        if !is_free {
            if !tls {
                return Err(TargetError::NotHttps);
            }
            if !host.may_be_public() {
                return Err(TargetError::Private);
            }
        }
        Ok(Self { host, port: uri.port_u16().unwrap_or(default_port(tls)), tls })
    }
}

const fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(formatter),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

impl Host {
    fn parse(text: &str) -> Result<Self, TargetError> {
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let address = inner.parse::<Ipv6Addr>().map_err(|_| TargetError::Malformed)?;
            return Ok(Self::Address(IpAddr::V6(address)));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(IpAddr::V4(address)));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let good = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        let last = name.rsplit('.').next().unwrap_or_default();
        // Resolvers accept `127.1`, `2130706433` and `0x7f.1` as addresses, so a name must not end in a number.
        let is_number = last.starts_with(|first: char| first.is_ascii_digit());
        if name.len() > 253 || !name.split('.').all(good) || is_number {
            return Err(TargetError::Malformed);
        }
        Ok(Self::Name(name))
    }

    fn may_be_public(&self) -> bool {
        match self {
            Self::Address(address) => is_public(*address),
            Self::Name(name) => {
                let last = name.rsplit('.').next().unwrap_or_default();
                // A name without a dot is a local one.
                name.contains('.') && !PRIVATE_NAMES.contains(&last)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_unsafe_urls() {
        use TargetError as E;
        let cases = [
            ("", E::Malformed),
            ("example.com", E::Malformed),
            ("/hook", E::Malformed),
            ("https://", E::Malformed),
            ("https://user:pw@example.com/", E::Malformed),
            ("https://exa mple.com/", E::Malformed),
            ("ftp://example.com/", E::NotHttps),
            ("file:///etc/passwd", E::Malformed),
            ("http://example.com/hook", E::NotHttps),
            ("http://127.0.0.1:8080/hook", E::NotHttps),
            ("https://localhost/", E::Private),
            ("https://LOCALHOST./", E::Private),
            ("https://a.localhost/", E::Private),
            ("https://printer.local/", E::Private),
            ("https://metadata.google.internal/", E::Private),
            ("https://metadata/", E::Private),
            ("https://intranet/", E::Private),
            ("https://127.0.0.1/", E::Private),
            ("https://10.0.0.8/", E::Private),
            ("https://169.254.169.254/latest", E::Private),
            ("https://192.168.0.1/", E::Private),
            ("https://[::1]/", E::Private),
            ("https://[fd00::1]/", E::Private),
            ("https://[::ffff:127.0.0.1]/", E::Private),
            ("https://0.0.0.0/", E::Private),
            ("https://2130706433/", E::Malformed),
            ("https://127.1/", E::Malformed),
            ("https://0x7f.0.0.1/", E::Malformed),
            ("https://0177.0.0.1/", E::Malformed),
            ("https://example.0x7f/", E::Malformed),
        ];
        for (url, expected) in cases {
            assert_eq!(Target::parse(url, &Reach::Public), Err(expected), "{url}");
        }
        assert_eq!(
            Target::parse(&format!("https://example.com/{}", "a".repeat(2048)), &Reach::Public),
            Err(E::Malformed)
        );
    }

    #[test]
    fn reach_allows_public_or_local_addresses() {
        for url in [
            "https://example.com",
            "https://example.com:8443/a?b=c",
            "https://8.8.8.8/",
            "https://a.b-c.de/x",
        ] {
            assert!(Target::parse(url, &Reach::Public).is_ok(), "{url}");
        }
        for url in ["http://127.0.0.1:1/", "http://localhost:1/", "http://[::1]:1/x", "https://127.0.0.1/"] {
            assert!(Target::parse(url, &Reach::Loopback).is_ok(), "{url}");
        }
        for url in ["http://example.com/", "http://10.0.0.1/", "https://10.0.0.1/", "https://intranet/"] {
            assert!(
                Target::parse(url, &Reach::Loopback).is_err(),
                "{url}: the exception is for this \
                machine only"
            );
        }
        for url in
            ["http://10.0.0.1:4318/", "https://intranet/", "http://collector:4318", "http://127.0.0.1/"]
        {
            assert!(Target::parse(url, &Reach::Anywhere).is_ok(), "{url}: the operator allows it");
        }
    }

    #[test]
    fn private_ranges_are_allowed_only_for_their_addresses() {
        let reach = Reach::public_and(["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()]);
        for url in [
            "http://10.1.2.3/",
            "https://10.1.2.3/",
            "http://[fd00::1]:8080/x",
            "https://example.com/",
            "http://intranet/",
        ] {
            assert!(Target::parse(url, &reach).is_ok(), "{url}");
        }
        for (url, expected) in [
            ("http://192.168.0.1/", TargetError::NotHttps),
            ("https://192.168.0.1/", TargetError::Private),
            ("https://127.0.0.1/", TargetError::Private),
            ("https://169.254.169.254/", TargetError::Private),
            ("http://8.8.8.8/", TargetError::NotHttps),
        ] {
            assert_eq!(Target::parse(url, &reach), Err(expected), "{url}");
        }
        assert_eq!(Reach::public_and([]), Reach::Public, "off by default");
    }

    /// Equal origins have the same pool key in every spelling; the `Host` header is unchanged.
    #[test]
    fn origins_are_normalised() {
        for (url, uri, authority) in [
            ("https://example.com?x=1", "https://example.com/?x=1", "example.com"),
            ("https://Example.COM.:443/a", "https://example.com/a", "Example.COM.:443"),
            ("http://[0:0::1]:443/", "http://[::1]:443/", "[0:0::1]:443"),
        ] {
            let target = Target::parse(url, &Reach::Anywhere).unwrap();
            assert_eq!((&*target.uri.to_string(), target.authority.to_str().unwrap()), (uri, authority));
        }
    }
}
