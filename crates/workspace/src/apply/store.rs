//! The content store: files by hash, so that equal files of read-only slots are one file.
//!
//! `cas/<aa>/<sha256>` with mode 0444, and `….x` with 0555 for executables; `<aa>` are the first
//! two digits. A file is hard-linked from the staging folder into the store, and from the store
//! into a slot, so the store never holds an extra copy. It is used only where hard links are safe:
//! in read-only slots, if the agent runs as a user who cannot write to this user's files.
//! Elsewhere, the file system shares the bytes if it can, or they are written.

use std::collections::BinaryHeap;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;

use super::state;
use crate::Error;
use crate::rooted::{Dir, Kind, Stat};

/// How many unused bytes the store keeps.
pub(super) const MAX_BYTES: u64 = 10 << 30;

/// The eviction candidates per sweep; more take more sweeps.
const SWEEP: usize = 64 * 1024;

/// The chunk size of comparisons.
const BLOCK: usize = 64 * 1024;

#[derive(Clone, Debug)]
pub(super) struct Store {
    dir: Dir,
    /// The subfolders, opened on first use.
    shards: Arc<[OnceLock<Dir>; 256]>,
}

/// The file name for a content.
fn name_of(sha256: &[u8], executable: bool) -> String {
    let mut name = String::with_capacity(66);
    canon::encoding::push_hex(&mut name, sha256);
    if executable {
        name.push_str(".x");
    }
    name
}

impl Store {
    pub(super) fn open(state: &Dir) -> Result<Self, Error> {
        let io = state::failed("open", state::STORE);
        state.make_dirs(state::STORE, 0o700).map_err(&io)?;
        let dir = state.open_dir(state::STORE).map_err(io)?;
        Ok(Self { dir, shards: Arc::new(std::array::from_fn(|_| OnceLock::new())) })
    }

    /// The subfolder of a hash prefix; `None` if it does not exist and is not to be created.
    fn shard(&self, sha256: &[u8], make: bool) -> io::Result<Option<&Dir>> {
        let first = sha256.first().copied().unwrap_or_default();
        let shard = &self.shards[usize::from(first)];
        if let Some(open) = shard.get() {
            return Ok(Some(open));
        }
        let name = format!("{first:02x}");
        let opened = match self.dir.open_dir(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && make => {
                self.dir.make_dirs(&name, 0o700)?;
                self.dir.open_dir(&name)?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        Ok(Some(shard.get_or_init(|| opened)))
    }

    /// Links a file with these bytes, if the store has it.
    ///
    /// The bytes are compared: files are not synced individually, so after a power failure a name
    /// may exist without its bytes. Such a file is removed from the store.
    pub(super) fn link(
        &self,
        sha256: &[u8],
        bytes: &[u8],
        executable: bool,
        buffer: &mut Vec<u8>,
        (to, new): (&Dir, &str),
    ) -> io::Result<Option<Stat>> {
        let name = name_of(sha256, executable);
        let Some(shard) = self.shard(sha256, false)? else { return Ok(None) };
        let (file, stat) = match shard.open_file_with_stat(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        buffer.resize(bytes.len(), 0);
        let same =
            stat.size == bytes.len() as u64 && file.read_exact_at(buffer, 0).is_ok() && buffer == bytes;
        if !same {
            shard.remove_file(&name)?;
            return Ok(None);
        }
        match shard.link(&name, to, new) {
            // Another link changes only the ctime, which is ignored for files with several links.
            Ok(()) => Ok(Some(stat)),
            // The file system's link limit is reached.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::MLINK) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Unifies a staged file with the store: it is added to the store, or replaced by a link to the
    /// stored file. Has no effect if neither is possible.
    pub(super) fn adopt(
        &self,
        sha256: &[u8],
        executable: bool,
        from: &Dir,
        name: &str,
    ) -> io::Result<Option<Stat>> {
        let new = name_of(sha256, executable);
        let Some(directory) = self.shard(sha256, true)? else { return Ok(None) };
        let failure = match from.link(name, directory, &new) {
            Ok(()) => return from.stat(name),
            Err(error) => error,
        };
        match Errno::from_io_error(&failure) {
            Some(Errno::EXIST) if have_equal_bytes(directory, &new, from, name)? => {
                // Plan paths have no control characters, so this name is free.
                let (parent, _) = name.rsplit_once('/').unwrap_or_default();
                let between =
                    format!("{parent}{}\u{1}{}", if parent.is_empty() { "" } else { "/" }, &new[..32]);
                if directory.link(&new, from, &between).is_err() {
                    return Ok(None);
                }
                from.rename(&between, from, name)?;
                from.stat(name)
            }
            Some(Errno::EXIST) => {
                directory.remove_file(&new)?;
                Ok(from.link(name, directory, &new).is_ok().then(|| from.stat(name)).transpose()?.flatten())
            }
            // No hard links, or too many.
            Some(Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP) => Ok(None),
            _ => Err(failure),
        }
    }

    /// Removes the least recently used files, until at most `max` unused bytes remain.
    ///
    /// A file with a second link is in a slot and is kept. Removing the last other link set the
    /// ctime, which is therefore the time of last use.
    pub(super) fn evict(&self, max: u64) -> io::Result<()> {
        loop {
            let mut unused = 0_u64;
            let mut oldest: BinaryHeap<(i128, u64, String)> = BinaryHeap::new();
            for (shard, _) in self.dir.names()? {
                let Ok(directory) = self.dir.open_dir(&shard.0) else { continue };
                for (name, _) in directory.names()? {
                    let Some(stat) = directory.stat(&name.0)? else { continue };
                    if stat.kind != Kind::File || stat.links > 1 {
                        continue;
                    }
                    unused = unused.saturating_add(stat.size);
                    let path = format!("{}/{}", shard.0.to_string_lossy(), name.0.to_string_lossy());
                    oldest.push((stat.ctime_ns, stat.size, path));
                    if oldest.len() > SWEEP {
                        oldest.pop();
                    }
                }
            }
            if unused <= max {
                return Ok(());
            }
            let swept = oldest.len();
            for (_, size, path) in oldest.into_sorted_vec() {
                if unused <= max {
                    return Ok(());
                }
                self.dir.remove_file(&path)?;
                unused = unused.saturating_sub(size);
            }
            if swept < SWEEP {
                return Ok(());
            }
        }
    }
}

/// Whether two files have the same bytes.
fn have_equal_bytes(left: &Dir, left_name: &str, right: &Dir, right_name: &str) -> io::Result<bool> {
    let (mut left, mut right) = (left.open_file(left_name)?, right.open_file(right_name)?);
    if left.metadata()?.len() != right.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (vec![0; BLOCK], vec![0; BLOCK]);
    loop {
        let read = left.read(&mut one)?;
        if read == 0 {
            return Ok(right.read(&mut other)? == 0);
        }
        match right.read_exact(&mut other[..read]) {
            Ok(()) if one[..read] == other[..read] => {}
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            _ => return Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn used_files_are_never_evicted_and_others_oldest_first() {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open_root(temp.path()).unwrap();
        let store = Store::open(&root).unwrap();
        root.make_dir("slot", 0o755).unwrap();
        let slot = root.open_dir("slot").unwrap();
        for number in 0..4_u8 {
            let name = number.to_string();
            slot.create_file(&name, 0o444).unwrap().write_all(&[number; 100]).unwrap();
            assert!(store.adopt(&[number; 32], false, &slot, &name).unwrap().is_some());
        }
        // The last removed link makes a file unused: 2 first, then 0, then 3. The times must
        // differ.
        for name in ["2", "0", "3"] {
            slot.remove_file(name).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let kept = || -> Vec<u8> {
            let place = |number: &u8| format!("{number:02x}/{}", name_of(&[*number; 32], false));
            (0..4).filter(|number| store.dir.stat(place(number)).unwrap().is_some()).collect()
        };
        store.evict(300).unwrap();
        assert_eq!(kept(), [0, 1, 2, 3], "300 unused bytes are within the limit");
        store.evict(250).unwrap();
        assert_eq!(kept(), [0, 1, 3]);
        store.evict(0).unwrap();
        assert_eq!(kept(), [1], "the one that a slot uses");
    }
}
