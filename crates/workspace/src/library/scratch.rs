//! A private folder that is removed with its owner.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// How many names are tried: killed processes with the same number may have left some.
const MAX_TRIES: u32 = 1_000;

/// A folder with owner-only access, removed on drop.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates a folder. Guessing its name is harmless: creation fails if it exists.
    pub(super) fn new(within: &Path) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let within = std::path::absolute(within)?;
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..MAX_TRIES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = within.join(format!("interlock-fetch-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's cleanup of temporary files.
        let _ = fs::remove_dir_all(&self.path);
    }
}
