//! Asked before everything that changes a disk, so that tests can let the machine die there.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Something that changes a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A folder is made.
    MakeFolder,
    /// An empty file is made.
    CreateFile,
    /// A file gets its content.
    WriteFile,
    /// Something gets another name or another place.
    Rename,
    /// A file is removed.
    RemoveFile,
    /// An empty folder is removed.
    RemoveFolder,
    /// What was done is made durable.
    Sync,
}

/// Asked before everything that changes a disk.
pub trait Gate: fmt::Debug + Send + Sync {
    /// Lets the operation happen, or not.
    ///
    /// # Errors
    /// The one that the operation then fails with.
    fn before(&self, operation: Operation) -> io::Result<()>;
}

/// A gate that somebody may stand at. Nobody does outside of tests.
pub(crate) type Watched = Option<Arc<dyn Gate>>;
