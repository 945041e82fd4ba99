//! The registries of a command, in the order in which they are asked.

use packs::integrity::Integrity;
use packs::lock::LockedPack;
use packs::resolve::{Source, Sources};
use packs::{PackError, PackErrorCode};

use super::access::{Access, is_server};
use super::registry::Asked;
use super::usage;
use crate::failure::Failure;
use crate::output;

/// The registries, the preferred one first.
pub(super) struct Registries(Vec<Asked>);

impl Registries {
    /// Opens folders and servers; offline the servers are left out, so that none can be asked by mistake.
    pub(super) fn open(texts: &[String], access: &Access<'_>, offline: bool) -> Result<Self, Failure> {
        let asked = texts.iter().filter(|text| !(offline && is_server(text)));
        let asked: Vec<Asked> = asked.map(|text| Asked::open(text, access)).collect::<Result<_, _>>()?;
        if offline && asked.is_empty() {
            return Err(usage("with --offline only folders are asked; name one with --registry DIR"));
        }
        Ok(Self(asked))
    }

    pub(super) fn sources(&self) -> Sources<'_> {
        Sources(self.0.iter().map(|asked| asked as &dyn Source).collect())
    }

    /// An archive, of the first registry that has the bytes that were chosen. Where none has, other bytes are given rather
    /// than none: whoever takes them says best what is wrong with them.
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
            (None, None) => Err(usage(&format!("no registry is there that could give {}", pack.name))),
        }
    }

    /// Says which registries could not be asked, although others had everything: what came from those may not be what was meant.
    pub(super) fn tell_passed_over(&self) {
        for words in self.0.iter().filter_map(Asked::take_passed_over) {
            output::note(&format!("A registry was passed over: {}.", output::clean(&words)));
        }
    }

    /// Why nothing could be resolved: that a registry wants a key says more than that none has an answer.
    pub(super) fn explained(&self, error: PackError) -> Failure {
        let wants_key = match error.code() {
            PackErrorCode::RegistryUnreachable => self.0.iter().find_map(Asked::take_wants_key),
            _ => None,
        };
        wants_key.unwrap_or_else(|| error.into())
    }
}
