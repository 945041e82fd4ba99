//! What helpers do: list a directory, hash some files.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};

use rustix::io::Errno;

use super::pool::Work;
use super::walk::{self, Listing};
use crate::index::Line;
use crate::rooted::{Dir, Stat};

/// Something to do.
pub(super) enum Job {
    /// Lists a directory.
    List { parent: Dir, name: OsString },
    /// Hashes files.
    Hash(Vec<Suspect>),
}

/// What came of it.
pub(super) enum Outcome {
    Listing(Listing),
    Hashes(Vec<(Suspect, Hashed)>),
}

/// A file whose bytes have to be looked at.
pub(super) struct Suspect {
    pub(super) dir: Dir,
    pub(super) name: OsString,
    pub(super) line: Line,
    pub(super) stat: Stat,
}

/// What its bytes are.
pub(super) enum Hashed {
    Bytes(blake3::Hash),
    /// More bytes than a moment ago.
    Grown,
    Gone,
    Unreadable(String),
    Broken(io::Error),
}

impl Work for Job {
    type Output = Outcome;

    fn run(self) -> Outcome {
        match self {
            Self::List { parent, name } => Outcome::Listing(walk::list(&parent, &name)),
            Self::Hash(suspects) => {
                let mut buffer = vec![0; BUFFER];
                let hashed = |suspect: Suspect| {
                    let hashed = hash(&suspect.dir, &suspect.name, suspect.stat.size, &mut buffer);
                    (suspect, hashed)
                };
                Outcome::Hashes(suspects.into_iter().map(hashed).collect())
            }
        }
    }
}

/// How many bytes are read at once. Most files of a workspace fit, and hashing is at its full speed.
const BUFFER: usize = 128 * 1024;

fn hash(dir: &Dir, name: &OsStr, size: u64, buffer: &mut [u8]) -> Hashed {
    let hashed = dir.open_file(name).and_then(|file| hash_at_most(file, size, buffer));
    match hashed {
        Ok(Some(hash)) => Hashed::Bytes(hash),
        Ok(None) => Hashed::Grown,
        Err(error) if walk::is_broken(&error) => Hashed::Broken(error),
        // Something that is no file has taken its place.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Hashed::Gone,
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Hashed::Gone,
            _ => Hashed::Unreadable(error.to_string()),
        },
    }
}

/// The hash of a file, or nothing when it has more bytes than that: somebody may be appending faster than they are read.
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
