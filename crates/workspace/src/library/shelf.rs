//! Reading below the library, with refusals that say which file was looked for.

use std::fs::File;
use std::io;

use rustix::io::Errno;

use super::limits::Limit;
use crate::rooted::{Dir, Kind};
use crate::{Code, Error};

/// Opens a file.
pub(super) fn file(root: &Dir, path: &str) -> Result<File, Error> {
    root.open_file(path).map_err(|error| refusal(&error, path))
}

/// Opens a folder.
pub(super) fn folder(root: &Dir, path: &str) -> Result<Dir, Error> {
    root.open_dir(path).map_err(|error| refusal(&error, path))
}

/// Opens a folder, where there is one.
pub(super) fn folder_if_any(root: &Dir, path: &str) -> Result<Option<Dir>, Error> {
    match root.open_dir(path) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refusal(&error, path)),
    }
}

/// What stands at a path.
pub(super) fn kind(root: &Dir, path: &str) -> Result<Option<Kind>, Error> {
    let stat = root.stat(path).map_err(|error| refusal(&error, path))?;
    Ok(stat.map(|stat| stat.kind))
}

/// Reads a text file.
pub(super) fn text(root: &Dir, path: &str, limit: Limit) -> Result<String, Error> {
    let bytes = limit.read(&mut file(root, path)?, path)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("{path} in the library has to be text, and its byte {at} is not UTF-8");
        Error::new(Code::ResolveBadResponse, message).detail("path", path)
    })
}

/// Reads a text file, where there is one.
pub(super) fn text_if_any(root: &Dir, path: &str, limit: Limit) -> Result<Option<String>, Error> {
    match text(root, path, limit) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.code() == Code::ResolveNotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Something in the library is not as it has to be.
pub(super) fn bad(path: &str, problem: &str) -> Error {
    Error::new(Code::ResolveBadResponse, format!("{path} in the library {problem}")).detail("path", path)
}

/// Something is not in the library.
pub(super) fn absent(path: &str) -> Error {
    Error::new(Code::ResolveNotFound, format!("the library has no {path}")).detail("path", path)
}

/// Something is not in the library, and perhaps something is that was meant.
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

/// What the system said, as a refusal.
pub(super) fn refusal(error: &io::Error, path: &str) -> Error {
    if error.kind() == io::ErrorKind::InvalidData {
        return bad(path, "is no regular file");
    }
    match Errno::from_io_error(error) {
        // A name that no file system takes is a name that nothing has.
        Some(Errno::NOENT | Errno::NAMETOOLONG | Errno::INVAL) => absent(path),
        Some(Errno::LOOP | Errno::XDEV) => bad(path, "leads through a link, and a library follows none"),
        // Without `openat2`, this is also what a link to a folder looks like.
        Some(Errno::NOTDIR) => bad(path, "leads through something that is no folder"),
        Some(Errno::ISDIR) => bad(path, "is a folder and has to be a file"),
        Some(Errno::NXIO) => bad(path, "is no regular file"),
        Some(Errno::ACCESS | Errno::PERM) => {
            let message = format!("{path} in the library may not be read: {error}");
            Error::new(Code::ResolveDenied, message).detail("path", path)
        }
        _ => {
            let message = format!("{path} in the library cannot be read: {error}");
            Error::new(Code::ResolveUpstream, message).detail("path", path)
        }
    }
}
