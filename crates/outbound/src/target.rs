//! The text of an address, checked.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderValue, Uri};

use crate::address::{is_loopback, is_public};

/// The longest address, in bytes.
pub const MAX_URL_BYTES: usize = 2048;

/// Names that lead to the machine or its network, whatever they resolve to, with everything below them.
const PRIVATE_NAMES: [&str; 9] =
    ["localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "metadata"];

/// Why an address may not be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is not a URL.
    #[error("the address is not a URL of at most {MAX_URL_BYTES} bytes with a host and without a user")]
    Malformed,
    /// It is not protected.
    #[error("the address has to begin with https://")]
    NotHttps,
    /// It is not public.
    #[error("the address leads to this machine or a private network; give a public one")]
    Private,
}

/// Which addresses may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Public ones, and only with TLS: for addresses that callers choose.
    Public,
    /// Those of this machine too, and those without TLS: for tests.
    Loopback,
    /// All of them: for addresses that the operator wrote down.
    Anywhere,
}

impl Reach {
    /// Whether a connection to this number is allowed.
    pub(crate) fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Public => is_public(address),
            Self::Loopback => is_public(address) || is_loopback(address),
            Self::Anywhere => true,
        }
    }
}

/// An address whose text may be called. What its name resolves to is checked when a connection is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Absolute, with the host in lower case and without a port that goes without saying: equal origins are one key of
    /// the pool.
    uri: Uri,
    /// The authority as it was given, for the `Host` header.
    authority: HeaderValue,
}

/// The other end of a connection: what a URI says about it.
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
    pub(crate) fn parse(url: &str, reach: Reach) -> Result<Self, TargetError> {
        if url.len() > MAX_URL_BYTES {
            return Err(TargetError::Malformed);
        }
        let uri: Uri = url.parse().map_err(|_| TargetError::Malformed)?;
        let Origin { host, port, tls } = Origin::of(&uri, reach)?;
        let authority = uri.authority().ok_or(TargetError::Malformed)?.as_str();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        // `https://host?query` has no path, and a request line has to have one.
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

    pub(crate) const fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(crate) const fn authority(&self) -> &HeaderValue {
        &self.authority
    }
}

impl Origin {
    /// Checks everything that the text of an address says. The connector asks this again: a target that another client
    /// checked does not widen the reach of this one.
    pub(crate) fn of(uri: &Uri, reach: Reach) -> Result<Self, TargetError> {
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
        let is_free = match reach {
            Reach::Public => false,
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
        // Resolvers read `127.1`, `2130706433` and `0x7f.1` as addresses, so a name must not end in a number.
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
                // A name of one part is one of the local network.
                name.contains('.') && !PRIVATE_NAMES.contains(&last)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_refused() {
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
            assert_eq!(Target::parse(url, Reach::Public), Err(expected), "{url}");
        }
        assert_eq!(
            Target::parse(&format!("https://example.com/{}", "a".repeat(2048)), Reach::Public),
            Err(E::Malformed)
        );
    }

    #[test]
    fn public_addresses_and_with_leave_those_of_this_machine() {
        for url in [
            "https://example.com",
            "https://example.com:8443/a?b=c",
            "https://8.8.8.8/",
            "https://a.b-c.de/x",
        ] {
            assert!(Target::parse(url, Reach::Public).is_ok(), "{url}");
        }
        for url in ["http://127.0.0.1:1/", "http://localhost:1/", "http://[::1]:1/x", "https://127.0.0.1/"] {
            assert!(Target::parse(url, Reach::Loopback).is_ok(), "{url}");
        }
        for url in ["http://example.com/", "http://10.0.0.1/", "https://10.0.0.1/", "https://intranet/"] {
            assert!(Target::parse(url, Reach::Loopback).is_err(), "{url}: leave is for this machine only");
        }
        for url in
            ["http://10.0.0.1:4318/", "https://intranet/", "http://collector:4318", "http://127.0.0.1/"]
        {
            assert!(Target::parse(url, Reach::Anywhere).is_ok(), "{url}: the operator says so");
        }
    }

    /// Equal origins are one key of the pool, however they are written; the `Host` header stays as it was given.
    #[test]
    fn origins_are_normalised() {
        for (url, uri, authority) in [
            ("https://example.com?x=1", "https://example.com/?x=1", "example.com"),
            ("https://Example.COM.:443/a", "https://example.com/a", "Example.COM.:443"),
            ("http://[0:0::1]:443/", "http://[::1]:443/", "[0:0::1]:443"),
        ] {
            let target = Target::parse(url, Reach::Anywhere).unwrap();
            assert_eq!((&*target.uri.to_string(), target.authority.to_str().unwrap()), (uri, authority));
        }
    }
}
