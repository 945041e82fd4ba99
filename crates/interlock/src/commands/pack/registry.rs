//! A registry that is asked: a server, or a folder.

use std::path::PathBuf;

use packs::archive::Limits;
use packs::integrity::Integrity;
use packs::name::PackName;
use packs::range::Range;
use packs::registry::{FolderStore, Registry};
use packs::resolve::{Candidate, Source, SourceError};
use packs::version::{self, Version};
use packs::{PackError, manifest::Manifest};
use serde_json::Value;

use crate::client::Client;
use crate::failure::Failure;
use crate::settings::Settings;

/// The most versions of a pack that a server is asked about, the highest first.
const MAX_VERSIONS: usize = 50;

/// A registry that is asked.
pub(super) enum Asked {
    Folder(Box<Registry<FolderStore>>),
    Server { client: Client, runtime: tokio::runtime::Runtime, url: String },
}

impl Asked {
    /// An address is a server, everything else a folder.
    pub(super) fn open(text: &str, settings: &Settings) -> Result<Self, Failure> {
        if !text.starts_with("http://") && !text.starts_with("https://") {
            let store = FolderStore::open(&PathBuf::from(text)).map_err(PackError::from)?;
            return Ok(Self::Folder(Box::new(Registry::open(store).map_err(PackError::from)?)));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime
            .map_err(|cause| Failure::Unreadable { name: "the system's threads".to_owned(), cause })?;
        let url = text.trim_end_matches('/').to_owned();
        Ok(Self::Server { client: Client::of(&url, settings)?, runtime, url })
    }

    /// The archive of a version.
    pub(super) fn archive(&self, name: &PackName, version: &Version) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Folder(registry) => Ok(registry.archive(name, version).map_err(PackError::from)?.1),
            Self::Server { client, runtime, .. } => {
                let path = format!("/v1/packs/{name}/-/{}.tgz", escaped(version));
                runtime.block_on(client.get_bytes(&path, Limits::DEFAULT.packed_bytes))
            }
        }
    }

    /// Sends an archive to a server, and gives what it answers.
    pub(super) fn put(
        &self,
        name: &PackName,
        version: &Version,
        archive: Vec<u8>,
        signed: bool,
    ) -> Option<Result<Value, Failure>> {
        let Self::Server { client, runtime, .. } = self else { return None };
        let path = format!("/v1/packs/{name}/-/{}.tgz", escaped(version));
        let method = if signed { "manual" } else { "none" };
        let headers = [
            ("X-Pack-Sha256", Integrity::of(&archive).to_string()),
            ("X-Pack-Signing-Method", method.to_owned()),
        ];
        Some(runtime.block_on(client.put(&path, archive, &headers)))
    }
}

/// A version in an address: a plus would be read as a space.
fn escaped(version: &Version) -> String {
    version.to_string().replace('+', "%2B")
}

impl Source for Asked {
    fn versions(&self, name: &PackName) -> Result<Vec<Candidate>, SourceError> {
        match self {
            Self::Folder(registry) => registry.versions(name),
            Self::Server { client, runtime, url } => runtime.block_on(ask(client, url, name)),
        }
    }

    fn url(&self) -> Option<String> {
        match self {
            Self::Folder(_) => None,
            Self::Server { url, .. } => Some(url.clone()),
        }
    }

    fn is_remote(&self) -> bool {
        matches!(self, Self::Server { .. })
    }
}

/// Asks a server for the versions of a pack, and for what each of them needs.
async fn ask(client: &Client, url: &str, name: &PackName) -> Result<Vec<Candidate>, SourceError> {
    let unreachable = |failure: Failure| SourceError::Unreachable(format!("{url}: {failure}"));
    let Some(document) = client.find(&format!("/v1/packs/{name}")).await.map_err(unreachable)? else {
        return Ok(Vec::new());
    };
    let mut versions: Vec<(Version, bool)> = document["versions"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(text, known)| Some((version::parse(text)?, known["yanked"].as_bool().unwrap_or(false))))
        .collect();
    versions.sort_by(|left, right| right.0.cmp(&left.0));
    let mut candidates = Vec::new();
    for (version, yanked) in versions.into_iter().take(MAX_VERSIONS) {
        let path = format!("/v1/packs/{name}/-/{}.json", escaped(&version));
        let Some(manifest) = client.find(&path).await.map_err(unreachable)? else { continue };
        let Some(integrity) = manifest["integrity"].as_str().and_then(|text| Integrity::parse(text).ok())
        else {
            continue;
        };
        let dependencies =
            manifest["dependencies"].as_object().into_iter().flatten().filter_map(|(name, range)| {
                Some((PackName::parse(name).ok()?, Range::parse(range.as_str()?).ok()?))
            });
        let peers = manifest["peerDependencies"].as_object().into_iter().flatten();
        candidates.push(Candidate {
            resolved: Some(format!("{url}/v1/packs/{name}/-/{}.tgz", escaped(&version))),
            version,
            integrity,
            signature: None,
            dependencies: dependencies.collect(),
            peer_dependencies: peers
                .filter_map(|(name, range)| Some((name.clone(), range.as_str()?.to_owned())))
                .collect(),
            yanked,
        });
    }
    Ok(candidates)
}

/// A name, with a range or a version behind an @.
pub(super) fn wanted(text: &str) -> Option<(PackName, Range)> {
    let (name, range) = text.split_once('@').unwrap_or((text, "*"));
    Some((PackName::parse(name).ok()?, Range::parse(range).ok()?))
}

/// The name and the version of a manifest.
pub(super) fn identity(manifest: &Manifest) -> (PackName, Version) {
    (manifest.common.name.clone(), manifest.common.version.clone())
}
