//! Selects the API key for each registry.
//!
//! The local key has all rights on the local server and is sent nowhere else. Every other registry
//! gets the key given for it, or none: public packs can be read without a key.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use url::Url;

use super::usage;
use crate::client::{Client, key_wanted, own_key};
use crate::commands::serve::serving;
use crate::failure::Failure;
use crate::input;
use crate::settings::Settings;

const MAX_KEY_BYTES: usize = 4096;

/// The origin of the registry URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegistryOrigin {
    /// The command line.
    Here,
    /// A file; a key without a URL would be sent wherever that file says.
    Elsewhere,
}

/// The given keys, each with its registry.
pub(super) struct RegistryKeys<'s> {
    given: BTreeMap<String, String>,
    settings: &'s Settings,
}

impl<'s> RegistryKeys<'s> {
    /// Parses `FILE` or `FILE=URL`. A key without a URL belongs to the only server among the
    /// registries.
    pub(super) fn read(
        keys: &[String],
        registries: &[String],
        named: RegistryOrigin,
        settings: &'s Settings,
    ) -> Result<Self, Failure> {
        let servers: Vec<&str> = registries
            .iter()
            .map(String::as_str)
            .filter(|text| is_server(text))
            .map(|text| text.trim_end_matches('/'))
            .collect();
        let mut given = BTreeMap::new();
        for text in keys {
            let (file, url) = divided(text);
            let url = match (url, servers.as_slice()) {
                (Some(url), _) if servers.contains(&url) => url,
                (Some(url), _) => {
                    return Err(usage(&format!("--api-key names {url}, which is not one of the registries")));
                }
                (None, [only]) if named == RegistryOrigin::Here => only,
                (None, []) => {
                    return Err(usage("--api-key is given, but none of the registries is a server"));
                }
                (None, _) => {
                    return Err(usage(&format!(
                        "name the registry of the key, for example --api-key {file}={}",
                        servers[0]
                    )));
                }
            };
            let bytes = input::read(input::source(Path::new(file)), "a key", MAX_KEY_BYTES)?;
            let key = String::from_utf8_lossy(&bytes).trim().to_owned();
            if key.is_empty() || bytes.len() > MAX_KEY_BYTES || key.chars().any(|one| !one.is_ascii_graphic())
            {
                return Err(usage(&format!(
                    "{file} does not contain a key: expected one line of at most {MAX_KEY_BYTES} characters without spaces"
                )));
            }
            if given.insert(url.to_owned(), key).is_some() {
                return Err(usage(&format!("--api-key is given twice for {url}")));
            }
        }
        Ok(Self { given, settings })
    }

    /// A client for the registry at a URL, with its key.
    pub(super) fn client(&self, url: &str) -> Result<Client, Failure> {
        if let Some(key) = self.given.get(url) {
            return Ok(client_of(url, Some(key.clone())));
        }
        match self.own_server(url) {
            // Use the announced address, however the URL is spelt, so that the key is sent only to
            // that process.
            Some(own) => Ok(Client::of_registry_here(&own, own_key(self.settings).ok())),
            None => Ok(client_of(url, None)),
        }
    }

    /// A client with a key, which publishing requires.
    pub(super) fn publishing_client(&self, url: &str) -> Result<Client, Failure> {
        let client = self.client(url)?;
        if client.has_key() { Ok(client) } else { Err(key_wanted(url)) }
    }

    /// The address of the data directory's server, if the URL refers to it.
    fn own_server(&self, url: &str) -> Option<String> {
        let announced = serving(self.settings)?.url;
        if self.settings.public_url.value.as_deref().map(|public| public.trim_end_matches('/')) == Some(url) {
            return reachable(&Url::parse(&announced).ok()?);
        }
        let (asked, own) = (Url::parse(url).ok()?, Url::parse(&announced).ok()?);
        let same = asked.scheme() == own.scheme()
            && asked.path() == "/"
            && asked.port_or_known_default() == own.port_or_known_default()
            && (asked.host_str() == own.host_str() || (is_here(&own) && is_here(&asked)));
        if same { reachable(&own) } else { None }
    }
}

/// Servers on this machine are contacted without a proxy.
fn client_of(url: &str, key: Option<String>) -> Client {
    if Url::parse(url).is_ok_and(|url| is_here(&url)) {
        Client::of_registry_here(url, key)
    } else {
        Client::of_registry_elsewhere(url, key)
    }
}

/// Whether a registry is a server. Everything else is a folder.
pub(super) fn is_server(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// A server URL without parts that must not be stored in a lockfile.
pub(super) fn address(text: &str) -> Result<String, Failure> {
    let url = Url::parse(text).map_err(|error| usage(&format!("`{text}` is not a valid URL: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(usage("a registry URL must not contain a password; pass a key with --api-key FILE"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(usage(&format!(
            "`{text}` is not a valid registry URL: remove the query and fragment (`?` and `#`)"
        )));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Splits a file from its URL. File names may contain an equals sign, so the URL is recognised by
/// its scheme.
fn divided(text: &str) -> (&str, Option<&str>) {
    let at = text.rfind("=http://").or_else(|| text.rfind("=https://"));
    match at {
        Some(at) => (&text[..at], Some(text[at + 1..].trim_end_matches('/'))),
        None => (text, None),
    }
}

/// Whether a host is this machine, without asking a name server.
fn is_here(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    host == "localhost" || ip(host).is_some_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

/// An address to connect to: a wildcard address also listens on loopback.
fn reachable(url: &Url) -> Option<String> {
    let mut url = url.clone();
    match ip(url.host_str()?) {
        Some(IpAddr::V4(ip)) if ip.is_unspecified() => url.set_host(Some("127.0.0.1")).ok()?,
        Some(IpAddr::V6(ip)) if ip.is_unspecified() => url.set_host(Some("[::1]")).ok()?,
        _ => {}
    }
    Some(url.as_str().trim_end_matches('/').to_owned())
}

fn ip(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_have_an_equals_sign_in_its_name() {
        assert_eq!(divided("key"), ("key", None));
        assert_eq!(divided("a=b"), ("a=b", None));
        assert_eq!(divided("a=b=https://x.example/"), ("a=b", Some("https://x.example")));
        assert_eq!(divided("key=http://127.0.0.1:1"), ("key", Some("http://127.0.0.1:1")));
    }

    #[test]
    fn only_loopback_addresses_and_localhost_are_local() {
        for (url, here) in [
            ("http://127.0.0.1:7717", true),
            ("http://localhost:7717", true),
            ("http://[::1]:7717", true),
            ("http://0.0.0.0:7717", true),
            ("http://localhost.evil.example:7717", false),
            ("http://127.0.0.1.evil.example:7717", false),
            ("http://10.0.0.1:7717", false),
        ] {
            assert_eq!(is_here(&Url::parse(url).unwrap()), here, "{url}");
        }
        assert_eq!(reachable(&Url::parse("http://0.0.0.0:1").unwrap()).unwrap(), "http://127.0.0.1:1");
        assert_eq!(reachable(&Url::parse("http://10.0.0.1:1").unwrap()).unwrap(), "http://10.0.0.1:1");
    }

    #[test]
    fn urls_with_credentials_or_queries_are_rejected() {
        assert_eq!(address("https://packs.example/").ok().as_deref(), Some("https://packs.example"));
        for text in
            ["https://me:secret@packs.example", "https://x.example/?key=1", "https://x.example/#a", "http://"]
        {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
