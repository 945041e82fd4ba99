//! The library: each kind of source with valid, missing and hostile content.

#![expect(clippy::unwrap_used, reason = "a failed setup should stop the test")]

mod kinds;
mod repositories;
mod skills;
mod templates;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use workspace::library::Library;
use workspace::plan::Source;
use workspace::resolve::{Content, Item, ResolveRequest, Resolver as _, Sink, Stopped};
use workspace::slot::Mode;
use workspace::{Code, Error};

/// A folder with a library, and a secret file next to it that must not be readable.
pub(crate) struct TestLibrary {
    folder: tempfile::TempDir,
}

impl TestLibrary {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("library")).unwrap();
        fs::write(folder.path().join("secret.md"), SECRET).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("library")
    }

    pub(crate) fn outside(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn library(&self) -> Library {
        Library::open(&self.path()).unwrap()
    }

    pub(crate) fn resolve(&self, source: &Source) -> Result<Collected, Error> {
        resolve(&self.library(), source, Mode::ReadOnly)
    }
}

/// The secret file outside of the library.
pub(crate) const SECRET: &str = "the secret content";

pub(crate) fn resolve(library: &Library, source: &Source, mode: Mode) -> Result<Collected, Error> {
    let mut collected = Collected::default();
    library.resolve(ResolveRequest { source, mode }, &mut collected).map(|()| collected)
}

/// A sink that stores everything.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) items: Vec<(String, Kept)>,
    pub(crate) executable: Vec<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) pinned: Vec<String>,
    /// The number of items before the sink stops.
    pub(crate) room: Option<usize>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    File(Vec<u8>),
    Link(String),
    Directory,
}

impl Collected {
    /// Paths and texts, for table comparison.
    pub(crate) fn texts(&self) -> Vec<(&str, String)> {
        let text = |kept: &Kept| match kept {
            Kept::File(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Kept::Link(target) => format!("-> {target}"),
            Kept::Directory => "/".to_owned(),
        };
        self.items.iter().map(|(path, kept)| (path.as_str(), text(kept))).collect()
    }

    pub(crate) fn paths(&self) -> Vec<&str> {
        self.items.iter().map(|(path, _)| path.as_str()).collect()
    }

    pub(crate) fn text(&self, path: &str) -> String {
        let found = self.texts().into_iter().find(|(found, _)| *found == path);
        found.unwrap_or_else(|| panic!("{path} is not among {:?}", self.paths())).1
    }
}

impl Sink for Collected {
    fn put(&mut self, item: Item) -> Result<(), Stopped> {
        self.check()?;
        let kept = match item.content {
            Content::Bytes(bytes) => Kept::File(bytes),
            Content::File(file) => {
                let mut bytes = Vec::new();
                file.take(1 << 20).read_to_end(&mut bytes).unwrap();
                Kept::File(bytes)
            }
            Content::Link(target) => Kept::Link(target),
            Content::Directory => Kept::Directory,
        };
        if item.executable {
            self.executable.push(item.rel_path.clone());
        }
        self.items.push((item.rel_path, kept));
        Ok(())
    }

    fn check(&self) -> Result<(), Stopped> {
        match self.room {
            Some(room) if self.items.len() >= room => Err(Stopped(Error::new(Code::ApplyIo, "enough"))),
            _ => Ok(()),
        }
    }

    fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    fn pinned(&mut self, revision: &str) {
        self.pinned.push(revision.to_owned());
    }
}

/// The example in the documentation.
pub(crate) fn example() -> Library {
    Library::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workspace/library")).unwrap()
}
