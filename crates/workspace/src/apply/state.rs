//! The state folder: opened safely, with small files written atomically.

use std::io::{Read as _, Write as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::rooted::{Dir, Kind, refusal};
use crate::slot::STATE_DIR;
use crate::{Code, Error};

/// The version of lease and journal.
pub(super) const VERSION: u32 = 1;

/// Where trees are prepared.
pub(super) const STAGING: &str = "staging";

/// Where trees wait for removal.
pub(super) const TRASH: &str = "trash";

/// Displaced entries that must not be deleted.
pub(super) const DISPLACED: &str = "displaced";

/// Where local resolvers store what they fetch, such as clones.
pub(super) const SCRATCH: &str = "scratch";

/// The content store.
pub(super) const STORE: &str = "cas";

/// Whether a write must survive a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durable {
    Yes,
    No,
}

/// Opens the state folder, if it exists.
pub(super) fn open(root: &Dir) -> Result<Option<Dir>, Error> {
    let io = |error| refusal(&error, "open", Path::new(STATE_DIR));
    let Some(found) = root.stat(STATE_DIR).map_err(io)? else {
        return Ok(None);
    };
    match found.kind {
        Kind::Dir => {}
        Kind::Link => return Err(unsafe_link(STATE_DIR)),
        Kind::File | Kind::Other => {
            let message = format!("{STATE_DIR} is not a directory; move it away and apply again");
            return Err(Error::new(Code::ApplyIo, message).detail("path", STATE_DIR));
        }
    }
    let above = root.stat("").map_err(io)?;
    // Renames between the two require one file system and one mount.
    if above.is_some_and(|above| above.dev != found.dev) || root.is_mount_point(STATE_DIR).map_err(io)? {
        let message =
            format!("{STATE_DIR} is a mount point or on a different file system than the workspace");
        return Err(Error::new(Code::ApplyStateDirOtherFs, message).detail("path", STATE_DIR));
    }
    Ok(Some(root.open_dir(STATE_DIR).map_err(io)?))
}

/// Opens the state folder, and creates it if missing.
pub(super) fn open_or_create(root: &Dir) -> Result<Dir, Error> {
    let io = |error| refusal(&error, "make", Path::new(STATE_DIR));
    if let Some(state) = open(root)? {
        return Ok(state);
    }
    match root.make_dir(STATE_DIR, 0o700) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        made => made.map_err(io)?,
    }
    open(root)?.ok_or_else(|| io(std::io::ErrorKind::NotFound.into()))
}

/// The error for a forbidden link.
pub(super) fn unsafe_link(path: &str) -> Error {
    let message = format!("{path} is a symbolic link; workspaces are never written through links");
    Error::new(Code::ApplyUnsafeSymlink, message).detail("path", path)
}

/// A system error below the state folder.
pub(super) fn failed(doing: &'static str, path: impl AsRef<Path>) -> impl Fn(std::io::Error) -> Error {
    let shown = Path::new(STATE_DIR).join(path);
    move |error| refusal(&error, doing, &shown)
}

/// A value as a JSON line.
pub(super) fn json<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(value).expect("the types of the state folder have string keys only");
    bytes.push(b'\n');
    bytes
}

/// Replaces a file atomically: at every moment its name refers to the old or the new bytes.
pub(super) fn write(state: &Dir, name: &str, bytes: &[u8], durable: Durable) -> Result<(), Error> {
    let temporary = format!("{name}.tmp");
    let io = failed("write", name);
    if state.stat(&temporary).map_err(&io)?.is_some() {
        state.remove_tree(&temporary).map_err(&io)?;
    }
    let mut file = state.create_file(&temporary, 0o600).map_err(&io)?;
    file.write_all(bytes).map_err(&io)?;
    if durable == Durable::Yes {
        state.sync_file(&file).map_err(&io)?;
    }
    state.rename(&temporary, state, name).map_err(&io)?;
    if durable == Durable::Yes {
        state.sync().map_err(&io)?;
    }
    Ok(())
}

/// Reads a small file; `None` if it does not exist.
pub(super) fn read_json<T: DeserializeOwned>(state: &Dir, name: &str, max: u64) -> Result<Option<T>, Error> {
    let file = match state.open_file(name) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", name)(error)),
    };
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes).map_err(failed("read", name))?;
    if bytes.len() as u64 > max {
        return Err(damaged(name, "it is too large"));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|error| damaged(name, &error.to_string()))
}

/// Refuses a file of another version.
pub(super) fn check_version(name: &str, version: u32) -> Result<(), Error> {
    if version == VERSION {
        return Ok(());
    }
    let path = format!("{STATE_DIR}/{name}");
    let message = format!(
        "{path} has version {version}, but this program supports {VERSION}; use the version of interlock that wrote it"
    );
    Err(Error::new(Code::ApplyIo, message).detail("path", path))
}

/// The refusal of a damaged state file.
pub(super) fn damaged(name: &str, what: &str) -> Error {
    let path = format!("{STATE_DIR}/{name}");
    let message = format!("{path} is damaged: {what}; move it away and apply again");
    Error::new(Code::ApplyIo, message).detail("path", path)
}
