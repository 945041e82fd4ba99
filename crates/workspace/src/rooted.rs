//! Directories with paths resolved relative to a handle, and their errors.

use std::io;
use std::path::Path;

pub use disk::rooted::{Dir, Gate, Kind, Name, Operation, Sharing, Stat};
use rustix::io::Errno;

use crate::{Code, Error};

/// A system error for the caller.
pub fn refusal(error: &io::Error, doing: &str, path: &Path) -> Error {
    let errno = Errno::from_io_error(error);
    let code = match errno {
        Some(Errno::LOOP | Errno::XDEV) => Code::ApplyUnsafeSymlink,
        Some(Errno::NOSPC | Errno::DQUOT) => Code::ApplyNoSpace,
        _ => Code::ApplyIo,
    };
    let shown = path.display().to_string();
    Error::new(code, format!("{doing} {shown}: {error}")).detail("path", shown)
}
