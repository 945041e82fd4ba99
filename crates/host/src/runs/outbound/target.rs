//! The text of an address, checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::Uri;

use super::Reach;
use super::address::{is_loopback, is_public};

/// The longest address, in bytes.
pub const MAX_URL_BYTES: usize = 2048;

/// Names that lead to the machine or its network, whatever they resolve to, with everything below them.
const PRIVATE_NAMES: [&str; 9] =
    ["localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "metadata"];

/// Why an address may not be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is no address.
    #[error("the address is no URL of at most {MAX_URL_BYTES} bytes with a host and without a user")]
    Malformed,
    /// It is not protected.
    #[error("the address has to begin with https://")]
    NotHttps,
    /// It is not public.
    #[error("the address leads to this machine or a private network; give a public one")]
    Private,
}

/// An address whose text may be called. What its name resolves to is checked when it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) tls: bool,
    /// As the `Host` header has it.
    pub(super) authority: String,
    pub(super) path: String,
}

/// Whom to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Name(String),
    Address(IpAddr),
}

impl Target {
    pub(super) fn parse(url: &str, reach: Reach) -> Result<Self, TargetError> {
        if url.len() > MAX_URL_BYTES {
            return Err(TargetError::Malformed);
        }
        let uri: Uri = url.parse().map_err(|_| TargetError::Malformed)?;
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
        let host = Host::parse(uri.host().unwrap_or_default())?;
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
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            host,
            port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            tls,
            authority: authority.as_str().to_owned(),
            // `https://host?query` has no path, and a request line has to have one.
            path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
        })
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
        // Resolvers read `127.1`, `2130706433` and `0x7f.1` as addresses: a name whose end is a number is no name.
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
        let target = Target::parse("https://example.com?x=1", Reach::Public).unwrap();
        assert_eq!((target.port, &*target.path, &*target.authority), (443, "/?x=1", "example.com"));
    }
}
