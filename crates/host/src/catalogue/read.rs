//! Reading what somebody else may have put there: regular files only, never more than a bound.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a regular file. A link is not followed, and a pipe or a device is refused without waiting for it.
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    // Without `NONBLOCK`, opening a pipe that somebody put here would wait forever.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
        rustix::io::Errno::LOOP => io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link"),
        other => other.into(),
    })?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok((file, metadata.len()))
}

/// The bytes of a regular file that has at most `max` of them.
pub(super) fn regular(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let (file, length) = open_regular(path)?;
    let too_large = |length: u64| {
        let message = format!("it has {length} bytes, and at most {max} are read");
        io::Error::new(io::ErrorKind::FileTooLarge, message)
    };
    if length > max {
        return Err(too_large(length));
    }
    let mut bytes = Vec::new();
    // The length of a file that is being written, or of one that the system makes up, is only a hint.
    file.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max { Err(too_large(bytes.len() as u64)) } else { Ok(bytes) }
}
