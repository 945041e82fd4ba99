//! Tenant folders: paths are resolved relative to a handle, and links are not followed.

use std::fs::File;
use std::io;
use std::path::Path;

use disk::rooted::{self, Dir};
use rustix::io::Errno;

use super::{Kind, Stat};

#[derive(Debug)]
pub(super) struct Folder(Dir);

impl Folder {
    /// Opens a host folder. Links in the path are followed.
    pub(super) fn open_root(path: &Path) -> io::Result<Self> {
        Ok(Self(Dir::open_root(path)?))
    }

    /// Opens a subfolder; an empty path is this folder.
    pub(super) fn folder(&self, path: &str) -> io::Result<Self> {
        Ok(Self(self.0.open_dir(path)?))
    }

    /// Opens a subfolder and creates missing ones. Returns how many were created.
    pub(super) fn make_folders(&self, path: &str) -> io::Result<(Self, u64)> {
        let (folder, made) = self.0.open_or_make_dirs(path)?;
        Ok((Self(folder), made))
    }

    pub(super) fn open_file(&self, path: &str) -> io::Result<(File, Stat)> {
        match self.0.open_file_with_stat(path) {
            Ok((file, stat)) => Ok((file, stat_of(&stat))),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let kind = self.0.stat(path)?.map(|stat| stat.kind);
                Err(if kind == Some(rooted::Kind::Dir) { Errno::ISDIR } else { Errno::ACCESS }.into())
            }
            Err(error) => Err(error),
        }
    }

    /// Creates an owner-only file, or truncates a leftover one.
    pub(super) fn make_file(&self, name: &str) -> io::Result<File> {
        self.0.open_truncated(name)
    }

    /// Sets the modification time.
    pub(super) fn set_mtime(&self, file: &File, ms: i64) -> io::Result<()> {
        self.0.set_mtime(file, i128::from(ms) * 1_000_000)
    }

    /// The metadata of an entry. Links are not followed.
    pub(super) fn stat(&self, name: &str) -> io::Result<Option<Stat>> {
        Ok(self.0.stat(name)?.as_ref().map(stat_of))
    }

    /// Moves an entry to another folder and replaces an existing one.
    pub(super) fn rename(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        self.0.rename(name, &to.0, new)
    }

    /// Moves an entry to another folder unless the name exists.
    pub(super) fn rename_new(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        self.0.rename_new(name, &to.0, new)
    }

    /// Removes a file or an empty folder.
    pub(super) fn remove(&self, name: &str, kind: Kind) -> io::Result<()> {
        match kind {
            Kind::Folder => self.0.remove_dir(name),
            Kind::File | Kind::Other => self.0.remove_file(name),
        }
    }

    /// All UTF-8 names with their types, up to a limit. Other names were not created through this surface, and no call
    /// can name them.
    pub(super) fn names(&self, most: usize) -> io::Result<Vec<(String, Kind)>> {
        let mut names = Vec::new();
        for (name, kind) in self.0.names_up_to(most)? {
            let Ok(name) = name.0.into_string() else { continue };
            let kind = match kind {
                Some(kind) => kind_of(kind),
                None => self.stat(&name)?.map_or(Kind::Other, |stat| stat.kind),
            };
            names.push((name, kind));
        }
        Ok(names)
    }

    /// Makes the entries of this folder durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

fn kind_of(kind: rooted::Kind) -> Kind {
    match kind {
        rooted::Kind::File => Kind::File,
        rooted::Kind::Dir => Kind::Folder,
        rooted::Kind::Link | rooted::Kind::Other => Kind::Other,
    }
}

fn stat_of(stat: &rooted::Stat) -> Stat {
    let kind = kind_of(stat.kind);
    // The size of a folder depends on the file system and is not the tenant's data.
    let size = if kind == Kind::File { stat.size } else { 0 };
    Stat { size, kind, mtime_ms: stat.mtime_ms() }
}
