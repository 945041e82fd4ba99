//! The port through which bytes arrive.
//!
//! A [`Resolver`] turns one [`Source`] into files. It pushes them into a [`Sink`], which may stop
//! it at any item: because a limit is reached, a time-out has passed, or another mount failed.
//! Where the bytes come from is the resolver's business; a library on one machine is one
//! ([`crate::library`]), a host with stores of its own another.

use std::fs::File;

use crate::Error;
use crate::plan::Source;
use crate::slot::Mode;

/// Something to put into a workspace.
#[derive(Debug)]
pub struct Item {
    /// The path below the entry: empty for a kind that yields one file, never empty for one that yields a tree.
    pub rel_path: String,
    /// Whether it may be executed.
    pub executable: bool,
    /// What it is.
    pub content: Content,
}

/// What an [`Item`] is.
#[derive(Debug)]
pub enum Content {
    /// A file of these bytes.
    Bytes(Vec<u8>),
    /// A file with the bytes of this open file, from its beginning. The sink reads it with its limits, and clones
    /// it in the file system where that is possible.
    File(File),
    /// A symbolic link. Only repositories may have them; relative, and inside their mount.
    Link(String),
    /// A directory. Only needed where it would otherwise be empty.
    Directory,
}

/// Why a sink takes no more. A resolver returns at once, with `?`.
#[derive(Clone, Debug, PartialEq)]
pub struct Stopped(pub Error);

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Self {
        stopped.0
    }
}

/// Where a resolver puts what it finds.
pub trait Sink {
    /// Takes one item.
    ///
    /// # Errors
    /// When nothing more is wanted.
    fn put(&mut self, item: Item) -> Result<(), Stopped>;

    /// Whether nothing more is wanted. A resolver that waits for something asks now and then.
    ///
    /// # Errors
    /// When nothing more is wanted.
    fn check(&self) -> Result<(), Stopped>;

    /// Notes something worth telling, such as a skill whose name is not that of its folder.
    fn warn(&mut self, warning: String);

    /// Notes what a source without a fixed revision turned out to be, such as the commit of a branch.
    fn pinned(&mut self, revision: &str) {
        let _ = revision;
    }
}

/// What is asked of a resolver.
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    /// Where the bytes come from.
    pub source: &'a Source,
    /// What the agent may do with them. A repository has its `.git` only where it can be worked in.
    pub mode: Mode,
}

/// A source of bytes.
///
/// # Contract
/// * Items come in a fixed order for the same content.
/// * A kind that yields one file puts exactly one item with an empty path; one that yields a tree puts
///   items with paths, or none.
/// * Nothing is written, but for private caches.
/// * A refusal has a code of the `RESOLVE_…`, `SKILL_…` or `LIMIT_EXCEEDED` family.
/// * The three rendered kinds of equal parameters come from one rendering.
pub trait Resolver: Send + Sync {
    /// Finds the bytes of a source.
    ///
    /// # Errors
    /// When there are none, or the sink stopped it.
    fn resolve(&self, want: Want<'_>, sink: &mut dyn Sink) -> Result<(), Error>;

    /// The service that answers, where there is one: calls to it are limited.
    fn upstream(&self, source: &Source) -> Option<String> {
        let _ = source;
        None
    }
}
