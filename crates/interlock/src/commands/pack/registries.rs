//! The registries of a command, in order of preference.

use packs::integrity::Integrity;
use packs::lock::LockedPack;
use packs::resolve::{Source, Sources};
use packs::{PackError, PackErrorCode};

use super::registry::RegistryClient;
use super::registry_keys::{RegistryKeys, is_server};
use super::usage;
use crate::failure::Failure;
use crate::output;

pub(super) struct Registries(Vec<RegistryClient>);

impl Registries {
    /// Opens folders and servers. With --offline, servers are left out, so that none can be
    /// contacted by mistake.
    pub(super) fn open(texts: &[String], access: &RegistryKeys<'_>, offline: bool) -> Result<Self, Failure> {
        let asked = texts.iter().filter(|text| !(offline && is_server(text)));
        let asked: Vec<RegistryClient> =
            asked.map(|text| RegistryClient::open(text, access)).collect::<Result<_, _>>()?;
        if offline && asked.is_empty() {
            return Err(usage(
                "--offline requires a registry that is a folder; name one with --registry DIR",
            ));
        }
        Ok(Self(asked))
    }

    pub(super) fn sources(&self) -> Sources<'_> {
        Sources(self.0.iter().map(|asked| asked as &dyn Source).collect())
    }

    /// Fetches an archive from the first registry that has the chosen bytes. If none has them,
    /// returns different bytes anyway: the installer reports the mismatch best.
    pub(super) fn archive(&self, pack: &LockedPack) -> Result<Vec<u8>, Failure> {
        let (mut other, mut failure) = (None, None);
        for asked in &self.0 {
            match asked.archive(&pack.name, &pack.version) {
                Ok(archive) if Integrity::of(&archive).is(pack.integrity) => {
                    self.tell_passed_over();
                    return Ok(archive);
                }
                Ok(archive) => other = other.or(Some(archive)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match (other, failure) {
            (Some(archive), _) => Ok(archive),
            (None, Some(failure)) => Err(failure),
            (None, None) => Err(usage(&format!("no registry has {}", pack.name))),
        }
    }

    /// Reports registries that could not be reached although others had everything: the result may
    /// differ from what was intended.
    pub(super) fn tell_passed_over(&self) {
        for words in self.0.iter().filter_map(RegistryClient::take_passed_over) {
            output::note(&format!("Skipped a registry: {}.", output::clean(&words)));
        }
    }

    /// The error of a failed resolution: a registry that requires a key is more helpful than "not
    /// found".
    pub(super) fn explained(&self, error: PackError) -> Failure {
        let wants_key = match error.code() {
            PackErrorCode::RegistryUnreachable => self.0.iter().find_map(RegistryClient::take_wants_key),
            _ => None,
        };
        wants_key.unwrap_or_else(|| error.into())
    }
}
