//! Reads files of the library, with errors that name the file.

use std::fs::File;
use std::io;

use rustix::io::Errno;

use super::limits::Limit;
use crate::rooted::{Dir, Kind};
use crate::{Code, Error};

pub(super) fn file(root: &Dir, path: &str) -> Result<File, Error> {
    root.open_file(path).map_err(|error| refusal(&error, path))
}

pub(super) fn folder(root: &Dir, path: &str) -> Result<Dir, Error> {
    root.open_dir(path).map_err(|error| refusal(&error, path))
}

/// Opens a folder, if it exists.
pub(super) fn folder_if_any(root: &Dir, path: &str) -> Result<Option<Dir>, Error> {
    match root.open_dir(path) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refusal(&error, path)),
    }
}

pub(super) fn kind(root: &Dir, path: &str) -> Result<Option<Kind>, Error> {
    let stat = root.stat(path).map_err(|error| refusal(&error, path))?;
    Ok(stat.map(|stat| stat.kind))
}

pub(super) fn text(root: &Dir, path: &str, limit: Limit) -> Result<String, Error> {
    let bytes = limit.read(&mut file(root, path)?, path)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("{path} in the library must be text, but byte {at} is not UTF-8");
        Error::new(Code::ResolveBadResponse, message).detail("path", path)
    })
}

/// Reads a text file, if it exists.
pub(super) fn text_if_any(root: &Dir, path: &str, limit: Limit) -> Result<Option<String>, Error> {
    match text(root, path, limit) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.code() == Code::ResolveNotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// An invalid file.
pub(super) fn bad(path: &str, problem: &str) -> Error {
    Error::new(Code::ResolveBadResponse, format!("{path} in the library {problem}")).detail("path", path)
}

/// A missing file.
pub(super) fn absent(path: &str) -> Error {
    Error::new(Code::ResolveNotFound, format!("the library has no {path}")).detail("path", path)
}

/// A missing file, with a suggestion.
pub(super) fn missing(root: &Dir, path: &str) -> Error {
    let near = path.rsplit_once('/').and_then(|(above, name)| {
        let names = root.open_dir(above).and_then(|folder| folder.names()).ok()?;
        let names = names.into_iter().filter_map(|(name, _)| name.0.into_string().ok());
        let near = canon::nearest::nearest(name, names, 1).pop()?;
        Some(format!("{above}/{near}"))
    });
    let Some(near) = near else { return absent(path) };
    let message = format!("the library has no {path}; it has {near}");
    Error::new(Code::ResolveNotFound, message).detail("path", path).detail("nearest", near)
}

/// A system error as a refusal.
pub(super) fn refusal(error: &io::Error, path: &str) -> Error {
    if error.kind() == io::ErrorKind::InvalidData {
        return bad(path, "is not a regular file");
    }
    match Errno::from_io_error(error) {
        // A name that no file system accepts cannot exist.
        Some(Errno::NOENT | Errno::NAMETOOLONG | Errno::INVAL) => absent(path),
        Some(Errno::LOOP | Errno::XDEV) => bad(path, "is behind a link, and links are not followed"),
        // Without `openat2`, a link to a folder gives the same error.
        Some(Errno::NOTDIR) => bad(path, "is below something that is not a folder"),
        Some(Errno::ISDIR) => bad(path, "is a folder, but must be a file"),
        Some(Errno::NXIO) => bad(path, "is not a regular file"),
        Some(Errno::ACCESS | Errno::PERM) => {
            let message = format!("no permission to read {path} in the library: {error}");
            Error::new(Code::ResolveDenied, message).detail("path", path)
        }
        _ => {
            let message = format!("{path} in the library cannot be read: {error}");
            Error::new(Code::ResolveUpstream, message).detail("path", path)
        }
    }
}
