//! The tasks of helpers: list a directory, hash files.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};

use rustix::io::Errno;

use super::pool::Work;
use super::walk::{self, Listing};
use crate::index::Line;
use crate::rooted::{Dir, Stat};

pub(super) enum Job {
    List { parent: Dir, name: OsString },
    Hash(Vec<Suspect>),
}

pub(super) enum TaskResult {
    Listing(Listing),
    Hashes(Vec<(Suspect, Hashed)>),
}

/// A file to hash.
pub(super) struct Suspect {
    pub(super) dir: Dir,
    pub(super) name: OsString,
    pub(super) line: Line,
    pub(super) stat: Stat,
}

pub(super) enum Hashed {
    Bytes(blake3::Hash),
    /// It has grown meanwhile.
    Grown,
    Gone,
    Unreadable(String),
    Broken(io::Error),
}

impl Work for Job {
    type Output = TaskResult;

    fn run(self) -> TaskResult {
        match self {
            Self::List { parent, name } => TaskResult::Listing(walk::list(&parent, &name)),
            Self::Hash(suspects) => {
                let mut buffer = vec![0; BUFFER];
                let hashed = |suspect: Suspect| {
                    let hashed = hash(&suspect.dir, &suspect.name, suspect.stat.size, &mut buffer);
                    (suspect, hashed)
                };
                TaskResult::Hashes(suspects.into_iter().map(hashed).collect())
            }
        }
    }
}

/// The chunk size. Most files of a workspace fit, and hashing runs at full speed.
const BUFFER: usize = 128 * 1024;

fn hash(dir: &Dir, name: &OsStr, size: u64, buffer: &mut [u8]) -> Hashed {
    let hashed = dir.open_file(name).and_then(|file| hash_at_most(file, size, buffer));
    match hashed {
        Ok(Some(hash)) => Hashed::Bytes(hash),
        Ok(None) => Hashed::Grown,
        Err(error) if walk::is_broken(&error) => Hashed::Broken(error),
        // It was replaced by something that is not a file.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Hashed::Gone,
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Hashed::Gone,
            _ => Hashed::Unreadable(error.to_string()),
        },
    }
}

/// The hash of a file; `None` if it has more bytes than expected, because it may grow faster than
/// it is read.
fn hash_at_most(mut file: File, size: u64, buffer: &mut [u8]) -> io::Result<Option<blake3::Hash>> {
    let mut hasher = blake3::Hasher::new();
    let mut total = 0_u64;
    loop {
        let read = match file.read(buffer) {
            Ok(0) => return Ok(Some(hasher.finalize())),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        total += read as u64;
        if total > size {
            return Ok(None);
        }
        hasher.update(&buffer[..read]);
    }
}
