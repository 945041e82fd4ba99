//! Files.

mod disk;
mod embedded;
mod intent;
mod json;
mod path;
mod quota;
mod tenant_folder;

use serde::{Deserialize, Serialize};

use crate::call::Scope;
use crate::served::PortFuture;

pub use self::embedded::EmbeddedFiles;
pub(crate) use self::intent::sweep;
pub use self::json::ServedFiles;
pub use self::path::{MAX_PATH_BYTES, MAX_SEGMENTS, RelativePath};

/// The maximum number of entries in one listing.
pub const MAX_LISTED: usize = 1000;

/// The files of a tenant, in a folder of its own.
///
/// # Contract
///
/// * No path leaves the tenant's folder: not an absolute one, not with `..`, not through a symbolic link.
/// * Writes are atomic and never mixed. A change is durable when the call returns, and is applied once per effect id.
/// * Missing parent folders are created.
pub trait Files: Send + Sync {
    fn read<'a>(&'a self, scope: &'a Scope, path: RelativePath) -> PortFuture<'a, Vec<u8>>;
    /// Writes a file: replaces it, or creates it only if it does not exist.
    fn write<'a>(
        &'a self,
        scope: &'a Scope,
        path: RelativePath,
        content: Vec<u8>,
        create_only: bool,
    ) -> PortFuture<'a, Written>;
    /// Removes a file or an empty folder; returns whether it existed.
    fn delete<'a>(&'a self, scope: &'a Scope, path: RelativePath) -> PortFuture<'a, bool>;
    fn stat<'a>(&'a self, scope: &'a Scope, path: RelativePath) -> PortFuture<'a, Option<Stat>>;
    /// The entries of a folder in byte order, after an optional name.
    fn list<'a>(
        &'a self,
        scope: &'a Scope,
        path: Option<RelativePath>,
        after: Option<String>,
    ) -> PortFuture<'a, Entries>;
    /// The folder that contains the tenant folders.
    fn root(&self) -> &std::path::Path;
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Written {
    Done,
    /// The file exists, and only a new one was requested.
    AlreadyExists,
}

/// The metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The size in bytes.
    pub size: u64,
    pub kind: Kind,
    /// The modification time, in milliseconds since 1970.
    pub mtime_ms: i64,
}

/// The type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// A link, device or pipe. These are never opened.
    Other,
}

/// A page of directory entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    /// In byte order.
    pub entries: Vec<(String, Kind)>,
    /// Whether more entries follow.
    pub more: bool,
}
