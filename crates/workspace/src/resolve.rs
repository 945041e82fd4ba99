//! The port that provides the bytes of mounts.
//!
//! A [`Resolver`] turns one [`Source`] into files. It pushes them into a [`Sink`], which may stop
//! it at any item: at a limit, after a timeout, or when another mount failed. The resolver decides
//! where the bytes come from: a local library ([`crate::library`]), or a host with its stores.

use std::fs::File;

use crate::Error;
use crate::plan::Source;
use crate::slot::Mode;

#[derive(Debug)]
pub struct Item {
    /// The path below the entry: empty for a single-file kind, never empty for a tree kind.
    pub rel_path: String,
    pub executable: bool,
    pub content: Content,
}

#[derive(Debug)]
pub enum Content {
    /// A file with these bytes.
    Bytes(Vec<u8>),
    /// A file with the bytes of this open file, from its beginning. The sink reads it within its
    /// limits, and clones it in the file system if possible.
    File(File),
    /// A symbolic link. Only repositories may have links; relative, and inside their mount.
    Link(String),
    /// A directory. Only needed if it would otherwise be empty.
    Directory,
}

/// Why a sink stops. A resolver must return immediately, with `?`.
#[derive(Clone, Debug, PartialEq)]
pub struct Stopped(pub Error);

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Self {
        stopped.0
    }
}

/// The target of a resolver.
pub trait Sink {
    /// Adds one item.
    ///
    /// # Errors
    /// If the resolver must stop.
    fn put(&mut self, item: Item) -> Result<(), Stopped>;

    /// Checks whether the resolver must stop. Call it regularly while waiting.
    ///
    /// # Errors
    /// If the resolver must stop.
    fn check(&self) -> Result<(), Stopped>;

    /// Records a warning, such as a skill whose name differs from its folder.
    fn warn(&mut self, warning: String);

    /// Records the resolved revision of a source without a fixed one, such as the commit of a
    /// branch.
    fn pinned(&mut self, revision: &str) {
        let _ = revision;
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ResolveRequest<'a> {
    pub source: &'a Source,
    /// The access mode. A repository includes `.git` only if it is writable.
    pub mode: Mode,
}

/// Provides the bytes of sources.
///
/// # Contract
/// * Items have a fixed order for the same content.
/// * A single-file kind puts exactly one item with an empty path; a tree kind puts items with
///   paths, or none.
/// * Nothing is written except private caches.
/// * Errors have a code of the `RESOLVE_…`, `SKILL_…` or `LIMIT_EXCEEDED` family.
/// * The three rendered kinds with equal parameters come from one rendering.
pub trait Resolver: Send + Sync {
    /// Provides the bytes of a source.
    ///
    /// # Errors
    /// If there are none, or the sink stopped it.
    fn resolve(&self, want: ResolveRequest<'_>, sink: &mut dyn Sink) -> Result<(), Error>;

    /// The upstream service, if any: concurrent calls to it are limited.
    fn upstream(&self, source: &Source) -> Option<String> {
        let _ = source;
        None
    }
}
