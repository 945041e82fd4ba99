//! Reads an archive in one pass.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::Read;

use tar::EntryType;

use super::bounded::{Bounded, StopReason};
use super::{Archive, Entry, Limits};
use crate::path::{EntryPath, PathError};

/// The maximum size of an extension header, in bytes.
const MAX_EXTENSION_BYTES: u64 = 8 * 1024;

/// Why an archive is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    #[error("the archive is not a gzip stream, is damaged, or has trailing bytes")]
    Gzip,
    /// A limit is exceeded.
    #[error("the archive is too large: the limit for {what} is {bound}")]
    TooLarge { what: &'static str, bound: usize },
    /// The unpacked data is not a tar archive.
    #[error("the archive is not a supported tar archive: {0}")]
    Tar(String),
    /// An entry path could leave the pack.
    #[error("the entry `{path}` is not allowed: {why}")]
    Traversal { path: String, why: String },
    /// Two entries have the same name, or names that are the same on some file systems.
    #[error("the entries `{first}` and `{second}` are the same file on some systems")]
    Collision { first: String, second: String },
}

impl Archive {
    /// Reads an archive.
    ///
    /// # Errors
    /// The first problem.
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, ArchiveError> {
        if bytes.len() > limits.packed_bytes {
            return Err(ArchiveError::TooLarge { what: "packed bytes", bound: limits.packed_bytes });
        }
        let (consumed, stopped) = (Cell::new(0), Cell::new(None));
        let reader = Bounded::new(bytes, *limits, &consumed, &stopped);
        let outcome = read_tar(reader, limits);
        match stopped.get() {
            // This is the actual reason, whatever the tar reader reported.
            Some(StopReason::Gzip) => return Err(ArchiveError::Gzip),
            Some(StopReason::TooLarge) => {
                return Err(ArchiveError::TooLarge { what: "unpacked bytes", bound: limits.unpacked_bytes });
            }
            Some(StopReason::Ratio) => {
                return Err(ArchiveError::TooLarge {
                    what: "the ratio of unpacked to packed bytes",
                    bound: limits.ratio,
                });
            }
            None => {}
        }
        let archive = outcome?;
        if consumed.get() != bytes.len() {
            return Err(ArchiveError::Gzip);
        }
        Ok(archive)
    }
}

fn read_tar(reader: Bounded<'_>, limits: &Limits) -> Result<Archive, ArchiveError> {
    let mut tar = tar::Archive::new(reader);
    let mut listing = Listing::default();
    let mut archive = Archive::default();
    let mut named: Option<String> = None;
    let mut count = 0;
    let entries = tar.entries().map_err(|error| no_tar(&error))?.raw(true);
    for entry in entries {
        let mut entry = entry.map_err(|error| no_tar(&error))?;
        count += 1;
        if count > limits.entries {
            return Err(ArchiveError::TooLarge { what: "the number of entries", bound: limits.entries });
        }
        let size = entry.header().entry_size().map_err(|error| no_tar(&error))?;
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::XHeader | EntryType::XGlobalHeader | EntryType::GNULongName) {
            let bytes = extension(&mut entry, size)?;
            match kind {
                EntryType::XGlobalHeader => refuse_global(&bytes)?,
                EntryType::XHeader => named = pax_path(&bytes)?.or(named),
                _ => named = Some(text(bytes.split(|byte| *byte == 0).next().unwrap_or_default())?),
            }
            continue;
        }
        let written = match named.take() {
            Some(path) => path,
            None => text(&entry.path_bytes())?,
        };
        match kind {
            EntryType::Regular | EntryType::Continuous => {
                let path = checked(&written)?;
                listing.file(&path)?;
                let start = archive.contents.len();
                entry.read_to_end(&mut archive.contents).map_err(|error| no_tar(&error))?;
                let end = archive.contents.len();
                if u64::try_from(end - start) != Ok(size) {
                    return Err(ArchiveError::Tar(format!("`{path}` is truncated")));
                }
                let executable = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
                archive.entries.push(Entry { path, executable, start, end });
            }
            EntryType::Directory => {
                let folder = written.trim_end_matches('/');
                if size != 0 {
                    return Err(ArchiveError::Tar(format!(
                        "the folder `{}` has content",
                        crate::name::shown(folder)
                    )));
                }
                // The root itself, as written by `tar -C folder .`.
                if !matches!(folder, "" | ".") || written.starts_with('/') {
                    listing.folder(&checked(folder)?)?;
                }
            }
            _ => {
                let why = match kind {
                    EntryType::Symlink | EntryType::Link => "links are not supported",
                    _ => "only files and folders are supported",
                };
                return Err(ArchiveError::Traversal {
                    path: crate::name::shown(&written),
                    why: why.to_owned(),
                });
            }
        }
    }
    if named.is_some() {
        return Err(ArchiveError::Tar("the last entry is missing".to_owned()));
    }
    if !tar.into_inner().drain_zeros().map_err(|error| no_tar(&error))? {
        return Err(ArchiveError::Tar("there are bytes after the end of the archive".to_owned()));
    }
    // Checked after the end: a stream of only zeros is reported as too large before empty.
    if count == 0 {
        return Err(ArchiveError::Tar("the archive is empty".to_owned()));
    }
    archive.entries.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(archive)
}

/// The names so far, case-folded and normalized.
#[derive(Default)]
struct Listing(HashMap<String, (String, Kind)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
}

impl Listing {
    fn file(&mut self, path: &EntryPath) -> Result<(), ArchiveError> {
        self.above(path)?;
        self.add(path.folded(), path.as_str(), Kind::File)
    }

    fn folder(&mut self, path: &EntryPath) -> Result<(), ArchiveError> {
        self.above(path)?;
        self.add(path.folded(), path.as_str(), Kind::Folder)
    }

    fn above(&mut self, path: &EntryPath) -> Result<(), ArchiveError> {
        for folder in path.folders() {
            self.add(crate::path::folded(folder), folder, Kind::Folder)?;
        }
        Ok(())
    }

    fn add(&mut self, folded: String, path: &str, kind: Kind) -> Result<(), ArchiveError> {
        match self.0.get(&folded) {
            // A folder may be listed once for each of its files.
            Some((first, Kind::Folder)) if kind == Kind::Folder && first == path => Ok(()),
            Some((first, _)) => {
                Err(ArchiveError::Collision { first: first.clone(), second: path.to_owned() })
            }
            None => {
                self.0.insert(folded, (path.to_owned(), kind));
                Ok(())
            }
        }
    }
}

fn checked(path: &str) -> Result<EntryPath, ArchiveError> {
    EntryPath::parse(path).map_err(|error| match error {
        PathError::TooLong => {
            ArchiveError::TooLarge { what: "the length of an entry path", bound: crate::path::MAX_PATH_BYTES }
        }
        PathError::Outside | PathError::Empty | PathError::Unprintable | PathError::Reserved => {
            ArchiveError::Traversal { path: crate::name::shown(path), why: error.to_string() }
        }
    })
}

fn extension(entry: &mut impl Read, size: u64) -> Result<Vec<u8>, ArchiveError> {
    if size > MAX_EXTENSION_BYTES {
        return Err(ArchiveError::Tar("an extension header is larger than 8 KiB".to_owned()));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(|error| no_tar(&error))?;
    Ok(bytes)
}

/// The path that an extended header sets for the next entry.
fn pax_path(bytes: &[u8]) -> Result<Option<String>, ArchiveError> {
    let mut path = None;
    for record in tar::PaxExtensions::new(bytes) {
        let record = record.map_err(|error| no_tar(&error))?;
        match record.key_bytes() {
            b"path" => path = Some(text(record.value_bytes())?),
            // These change the next entry, and readers interpret them differently.
            b"size" | b"linkpath" | b"GNU.sparse.name" | b"GNU.sparse.map" => {
                return Err(ArchiveError::Tar(
                    "an extended header changes the size or target of an entry".to_owned(),
                ));
            }
            _ => {}
        }
    }
    Ok(path)
}

/// A global header may describe the archive, such as its commit, but not its entries.
fn refuse_global(bytes: &[u8]) -> Result<(), ArchiveError> {
    match pax_path(bytes)? {
        Some(_) => Err(ArchiveError::Tar("a global header sets a path".to_owned())),
        None => Ok(()),
    }
}

fn text(bytes: &[u8]) -> Result<String, ArchiveError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| ArchiveError::Traversal {
        path: String::from_utf8_lossy(bytes).chars().take(128).collect(),
        why: PathError::Unprintable.to_string(),
    })
}

fn no_tar(error: &std::io::Error) -> ArchiveError {
    ArchiveError::Tar(crate::name::shown(&error.to_string()))
}
