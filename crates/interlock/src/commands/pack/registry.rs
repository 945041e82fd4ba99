//! A pack registry: a server or a folder.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;

use packs::archive::Limits;
use packs::integrity::Integrity;
use packs::name::PackName;
use packs::range::Range;
use packs::registry::{FolderStore, Registry};
use packs::resolve::{Candidate, ListedVersion, Source, SourceError};
use packs::version::{self, Version};
use packs::{PackError, manifest::Manifest};
use serde_json::Value;

use super::registry_keys::{RegistryKeys, address, is_server};
use crate::client::{Client, refused};
use crate::failure::{CommandErrorCode, Failure};

pub(super) enum RegistryClient {
    Folder(Box<Registry<FolderStore>>),
    Server(Box<Server>),
}

pub(super) struct Server {
    client: Client,
    runtime: tokio::runtime::Runtime,
    /// The URL as given, which is stored in lockfiles.
    url: String,
    /// Set when the server requires a key; the resolver only sees that it has no result.
    wants_key: RefCell<Option<Failure>>,
    /// Set when the server failed; the resolver tries the next registry, and the user should know.
    down: RefCell<Option<String>>,
    is_reported: Cell<bool>,
}

impl RegistryClient {
    /// A URL is a server, everything else a folder. The folder must exist; it is not created.
    pub(super) fn open(text: &str, access: &RegistryKeys<'_>) -> Result<Self, Failure> {
        if is_server(text) {
            return Self::server(text, |url| access.client(url));
        }
        let folder = Path::new(text);
        // Report a misspelt folder; opening it below would create it.
        std::fs::read_dir(folder).map_err(|cause| Failure::unreadable(Some(folder), cause))?;
        Self::folder(folder)
    }

    /// Opens a registry for publishing: a server requires a key, and a folder is created.
    pub(super) fn open_to_publish(text: &str, access: &RegistryKeys<'_>) -> Result<Self, Failure> {
        if is_server(text) {
            return Self::server(text, |url| access.publishing_client(url));
        }
        Self::folder(Path::new(text))
    }

    fn folder(folder: &Path) -> Result<Self, Failure> {
        let store = FolderStore::open(folder).map_err(PackError::from)?;
        Ok(Self::Folder(Box::new(Registry::open(store).map_err(PackError::from)?)))
    }

    fn server(text: &str, client: impl Fn(&str) -> Result<Client, Failure>) -> Result<Self, Failure> {
        let url = address(text)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime
            .map_err(|cause| Failure::Unreadable { name: "the system's threads".to_owned(), cause })?;
        let client = client(&url)?;
        let (wants_key, down) = (RefCell::new(None), RefCell::new(None));
        let server = Server { client, runtime, url, wants_key, down, is_reported: Cell::new(false) };
        Ok(Self::Server(Box::new(server)))
    }

    pub(super) fn archive(&self, name: &PackName, version: &Version) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Folder(registry) => Ok(registry.archive(name, version).map_err(PackError::from)?.1),
            Self::Server(server) => {
                let path = archive_path(name, version);
                let found = server.client.find_bytes(&path, Limits::DEFAULT.packed_bytes);
                let missing =
                    || refused(&format!("{} does not have the archive of {name}@{version}", server.url));
                let found = server.runtime.block_on(found);
                if let Some(failure) = found.as_ref().err().filter(|failure| is_down(failure)) {
                    server.down.replace(Some(server.words(failure)));
                }
                found?.ok_or_else(missing)
            }
        }
    }

    /// The error that the server requires a key, if it does.
    pub(super) fn take_wants_key(&self) -> Option<Failure> {
        match self {
            Self::Folder(_) => None,
            Self::Server(server) => server.wants_key.take(),
        }
    }

    /// The failure of the server, reported once.
    pub(super) fn take_passed_over(&self) -> Option<String> {
        let Self::Server(server) = self else { return None };
        server.down.take().filter(|_| !server.is_reported.replace(true))
    }

    /// Uploads an archive and returns the server's response.
    pub(super) fn put(
        &self,
        name: &PackName,
        version: &Version,
        archive: Vec<u8>,
        signed: bool,
    ) -> Option<Result<Value, Failure>> {
        let Self::Server(server) = self else { return None };
        let path = archive_path(name, version);
        let method = if signed { "manual" } else { "none" };
        let headers = [
            ("X-Pack-Sha256", Integrity::of(&archive).to_string()),
            ("X-Pack-Signing-Method", method.to_owned()),
        ];
        Some(server.runtime.block_on(server.client.put(&path, archive, &headers)))
    }
}

fn archive_path(name: &PackName, version: &Version) -> String {
    format!("/v1/packs/{name}/-/{}.tgz", escaped(version))
}

/// A version in a URL: a plus sign would be decoded as a space.
fn escaped(version: &Version) -> String {
    version.to_string().replace('+', "%2B")
}

impl Source for RegistryClient {
    fn versions(&self, name: &PackName) -> Result<Vec<ListedVersion>, SourceError> {
        match self {
            Self::Folder(registry) => registry.versions(name),
            Self::Server(server) => server.versions(name),
        }
    }

    fn candidate(&self, name: &PackName, version: &Version) -> Result<Candidate, SourceError> {
        match self {
            Self::Folder(registry) => registry.candidate(name, version),
            Self::Server(server) => server.candidate(name, version),
        }
    }

    fn url(&self) -> Option<String> {
        match self {
            Self::Folder(_) => None,
            Self::Server(server) => Some(server.url.clone()),
        }
    }

    fn is_remote(&self) -> bool {
        matches!(self, Self::Server(_))
    }
}

impl Server {
    /// Reads a document; `None` if it does not exist.
    fn find(&self, path: &str) -> Result<Option<Value>, SourceError> {
        self.runtime.block_on(self.client.find(path)).map_err(|failure| {
            let words = self.words(&failure);
            if is_down(&failure) {
                self.down.replace(Some(words.clone()));
                return SourceError::Unreachable(words);
            }
            if matches!(&failure, Failure::Refused(envelope) if envelope.has_code(CommandErrorCode::KeyRequired))
            {
                self.wants_key.replace(Some(failure));
            }
            SourceError::Refused(words)
        })
    }

    /// The message with the URL. The caller that gives up adds the suggestion.
    fn words(&self, failure: &Failure) -> String {
        match failure {
            Failure::Refused(envelope) if envelope.message().contains(&self.url) => {
                envelope.message().to_owned()
            }
            Failure::Refused(envelope) => format!("{}: {}", self.url, envelope.message()),
            other => format!("{}: {other}", self.url),
        }
    }

    fn versions(&self, name: &PackName) -> Result<Vec<ListedVersion>, SourceError> {
        let Some(document) = self.find(&format!("/v1/packs/{name}"))? else { return Ok(Vec::new()) };
        let Some(versions) = document["versions"].as_object() else {
            return Err(SourceError::Refused(format!("{} returned no versions of {name}", self.url)));
        };
        // Entries that are not versions cannot be requested.
        let listed = versions.iter().filter_map(|(text, known)| {
            let yanked = known["yanked"].as_bool().unwrap_or(false);
            Some(ListedVersion { version: version::parse(text)?, yanked })
        });
        Ok(listed.collect())
    }

    fn candidate(&self, name: &PackName, version: &Version) -> Result<Candidate, SourceError> {
        let path = format!("/v1/packs/{name}/-/{}.json", escaped(version));
        let Some(manifest) = self.find(&path)? else {
            return Err(SourceError::Unusable(format!(
                "{} lists the version but does not have it",
                self.url
            )));
        };
        candidate(&manifest, name, version, &self.url)
            .map_err(|reason| SourceError::Unusable(format!("{} {reason}", self.url)))
    }
}

/// Whether the server, or a proxy in front of it, is temporarily unavailable.
fn is_down(failure: &Failure) -> bool {
    let Failure::Refused(envelope) = failure else { return false };
    let status = envelope.details().get("status").and_then(Value::as_u64);
    envelope.has_code(CommandErrorCode::ServerUnreachable) || status.is_some_and(|status| status >= 500)
}

/// Parses the document of a version. Any invalid part makes the version unusable: without a dropped
/// dependency, it would be installed and fail later.
fn candidate(manifest: &Value, name: &PackName, version: &Version, url: &str) -> Result<Candidate, String> {
    let text = |member: &str| manifest[member].as_str().unwrap_or_default();
    if text("name") != name.as_str() || version::parse(text("version")).as_ref() != Some(version) {
        return Err(format!("returned `{}@{}`", text("name"), text("version")));
    }
    let integrity = Integrity::parse(text("integrity"))
        .map_err(|error| format!("returned an invalid `integrity`: {error}"))?;
    let mut dependencies = BTreeMap::new();
    for (needed, range) in texts(manifest, "dependencies")? {
        let needed =
            PackName::parse(needed).map_err(|error| format!("returned an invalid dependency: {error}"))?;
        let range = Range::parse(range)
            .map_err(|error| format!("returned an invalid range for {needed}: {error}"))?;
        dependencies.insert(needed, range);
    }
    let peers = texts(manifest, "peerDependencies")?;
    Ok(Candidate {
        version: version.clone(),
        integrity,
        resolved: Some(format!("{url}{}", archive_path(name, version))),
        // A lockfile signature covers the archive. Publishers sign pack.json, so no registry has
        // such a signature.
        signature: None,
        dependencies,
        peer_dependencies: peers
            .iter()
            .map(|(name, range)| ((*name).to_owned(), (*range).to_owned()))
            .collect(),
    })
}

/// An optional object with string values.
fn texts<'v>(manifest: &'v Value, member: &str) -> Result<Vec<(&'v str, &'v str)>, String> {
    let other = || format!("returned `{member}` that is not an object of strings");
    match manifest.get(member) {
        None => Ok(Vec::new()),
        Some(Value::Object(members)) => {
            members.iter().map(|(name, text)| Ok((name.as_str(), text.as_str().ok_or_else(other)?))).collect()
        }
        Some(_) => Err(other()),
    }
}

/// A name with an optional range or version after an @.
pub(super) fn wanted(text: &str) -> Option<(PackName, Range)> {
    let (name, range) = text.split_once('@').unwrap_or((text, "*"));
    Some((PackName::parse(name).ok()?, Range::parse(range).ok()?))
}

pub(super) fn identity(manifest: &Manifest) -> (PackName, Version) {
    (manifest.common.name.clone(), manifest.common.version.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_invalid_version_document_is_rejected() {
        let (name, version) = (PackName::parse("vendor.acme.tools").unwrap(), Version::new(1, 0, 0));
        let good = json!({
            "name": "vendor.acme.tools", "version": "1.0.0",
            "integrity": "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
            "dependencies": {"vendor.acme.base": "^1"}, "peerDependencies": {"host.fs": "*"},
        });
        let read = |document: &Value| candidate(document, &name, &version, "https://packs.example");
        let found = read(&good).unwrap();
        assert_eq!(found.dependencies.len(), 1);
        let resolved = "https://packs.example/v1/packs/vendor.acme.tools/-/1.0.0.tgz";
        assert_eq!(found.resolved.as_deref(), Some(resolved));
        for (member, value, expected) in [
            ("name", json!("core.openwop.http"), "returned `"),
            ("version", json!("1.0.1"), "returned `"),
            ("integrity", json!("md5-abc"), "invalid `integrity`"),
            ("dependencies", json!({"Not a name": "^1"}), "invalid dependency"),
            ("dependencies", json!({"vendor.acme.base": "whatever"}), "invalid range for vendor.acme.base"),
            ("dependencies", json!({"vendor.acme.base": 1}), "not an object of strings"),
            ("dependencies", json!(["vendor.acme.base"]), "not an object of strings"),
            ("peerDependencies", json!({"host.fs": []}), "not an object of strings"),
        ] {
            let mut document = good.clone();
            document[member] = value;
            let reason = read(&document).unwrap_err();
            assert!(reason.contains(expected), "{member}: {reason}");
        }
    }
}
