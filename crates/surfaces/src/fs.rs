//! Files.

mod beneath;
mod disk;
mod embedded;
mod intent;
mod json;
mod path;
mod quota;

use serde::{Deserialize, Serialize};

use crate::call::Scope;
use crate::served::Answer;

pub use self::embedded::EmbeddedFiles;
pub(crate) use self::intent::sweep;
pub use self::json::ServedFiles;
pub use self::path::{MAX_PATH_BYTES, MAX_SEGMENTS, RelativePath};

/// How many entries of a folder are listed at once.
pub const MAX_LISTED: usize = 1000;

/// Files of a tenant, below a folder of its own.
///
/// # Contract
/// * No path leads out of the folder of the tenant: not an absolute one, not with `..`, not through a link that somebody put there.
/// * A file is there whole or not at all, and never a mix of two writes. A change is durable when it returns, and happens once for an
///   effect's identity.
/// * Folders are made where a file needs them.
pub trait Files: Send + Sync {
    /// The bytes of a file.
    fn read<'a>(&'a self, scope: &'a Scope, path: RelativePath) -> Answer<'a, Vec<u8>>;
    /// Writes a file over what is there, or only where nothing is.
    fn write<'a>(
        &'a self,
        scope: &'a Scope,
        path: RelativePath,
        content: Vec<u8>,
        create_only: bool,
    ) -> Answer<'a, Written>;
    /// Removes a file or an empty folder; says whether it was there.
    fn delete<'a>(&'a self, scope: &'a Scope, path: RelativePath) -> Answer<'a, bool>;
    /// What is there.
    fn stat<'a>(&'a self, scope: &'a Scope, path: RelativePath) -> Answer<'a, Option<Stat>>;
    /// The entries of a folder in the order of their bytes, behind a name where one is given.
    fn list<'a>(
        &'a self,
        scope: &'a Scope,
        path: Option<RelativePath>,
        after: Option<String>,
    ) -> Answer<'a, Entries>;
    /// Where the folders of the tenants are.
    fn root(&self) -> &std::path::Path;
}

/// How a write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Written {
    /// The file has the bytes.
    Done,
    /// Something was there, and only a new file was wanted.
    AlreadyExists,
}

/// What is known of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// How many bytes it has.
    pub size: u64,
    /// What it is.
    pub kind: Kind,
    /// When its content changed, in milliseconds since 1970.
    pub mtime_ms: i64,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A link, a device, a pipe; none of them is opened.
    Other,
}

/// Some entries of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    /// In the order of their bytes.
    pub entries: Vec<(String, Kind)>,
    /// Whether there are more behind the last one.
    pub more: bool,
}
