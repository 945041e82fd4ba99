//! The paths of all files, relative to the data directory.

use canon::digest::Digest;
use guide::record::SessionId;

use crate::disk::DiskPath;

/// The file with the layout version.
pub(super) const FORMAT: &str = "format.json";
/// The file that authenticates the log of a session.
pub(super) const CHAIN: &str = "chain.jsonl";
/// The prefix of staged sessions, which a rename makes visible.
pub(super) const STAGING: &str = ".staging-";
/// The prefix of sessions that are being deleted.
pub(super) const TRASH: &str = ".trash-";
/// The suffix of unfinished files.
pub(super) const TEMPORARY: &str = ".tmp";

pub(super) fn format() -> DiskPath {
    DiskPath::root(FORMAT)
}

pub(super) fn sessions() -> DiskPath {
    DiskPath::root("sessions")
}

pub(super) fn session(id: &SessionId) -> DiskPath {
    sessions().join(id.as_str())
}

/// The lock that writers share and that garbage collection holds exclusively.
pub(super) fn store_lock() -> DiskPath {
    sessions().join(".store.lock")
}

pub(super) fn session_lock(id: &SessionId) -> DiskPath {
    session(id).join(".lock")
}

pub(super) fn manifest(session: &DiskPath) -> DiskPath {
    session.join("manifest.jsonl")
}

pub(super) fn chain(session: &DiskPath) -> DiskPath {
    session.join(CHAIN)
}

pub(super) fn events(session: &DiskPath) -> DiskPath {
    session.join("events")
}

/// The file that marks a session as salvaged from another one.
pub(super) fn salvaged(session: &DiskPath) -> DiskPath {
    session.join("salvaged.json")
}

pub(super) fn keep(id: &SessionId) -> DiskPath {
    session(id).join("keep")
}

pub(super) fn imported(id: &SessionId) -> DiskPath {
    session(id).join("imported.json")
}

pub(super) fn snapshots() -> DiskPath {
    DiskPath::root("snapshots")
}

pub(super) fn workflows() -> DiskPath {
    DiskPath::root("workflows")
}

pub(super) fn pinned() -> DiskPath {
    workflows().join("pinned")
}

pub(super) fn artifacts() -> DiskPath {
    DiskPath::root("artifacts")
}

pub(super) fn keys() -> DiskPath {
    DiskPath::root("keys")
}

/// The directory of derived data.
pub(crate) fn cache() -> DiskPath {
    DiskPath::root("cache")
}

/// The file name of a JSON object.
pub(super) fn json_name(digest: Digest) -> String {
    format!("{}.json", digest.to_hex())
}

/// The digest in a file name. `None` if it has none.
pub(super) fn digest_of_name(name: &str, extension: &str) -> Option<Digest> {
    Digest::parse(&format!("{}{}", Digest::PREFIX, name.strip_suffix(extension)?)).ok()
}
