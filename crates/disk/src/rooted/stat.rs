//! File metadata in fixed-width integers.

use rustix::fs::{self, FileType};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Dir,
    Link,
    /// A device, pipe or socket.
    Other,
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Dir,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }
}

/// The metadata of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub kind: Kind,
    /// The permission bits, including setuid, setgid and sticky.
    pub mode: u32,
    /// The size in bytes.
    pub size: u64,
    /// The modification time, in nanoseconds.
    pub mtime_ns: i128,
    /// The status change time, in nanoseconds.
    pub ctime_ns: i128,
    pub ino: u64,
    pub dev: u64,
    /// The number of hard links.
    pub links: u64,
}

impl Stat {
    /// The modification time, in milliseconds.
    pub fn mtime_ms(&self) -> i64 {
        i64::try_from(self.mtime_ns.div_euclid(1_000_000)).unwrap_or_default()
    }
}

impl From<fs::Stat> for Stat {
    fn from(stat: fs::Stat) -> Self {
        let unsigned = |number: i128| u64::try_from(number).unwrap_or_default();
        let nanoseconds = |seconds: i128, rest: i128| seconds * 1_000_000_000 + rest;
        Self {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            mode: u32::try_from(number(stat.st_mode) & 0o7777).unwrap_or_default(),
            size: unsigned(number(stat.st_size)),
            mtime_ns: nanoseconds(number(stat.st_mtime), number(stat.st_mtime_nsec)),
            ctime_ns: nanoseconds(number(stat.st_ctime), number(stat.st_ctime_nsec)),
            ino: unsigned(number(stat.st_ino)),
            // It may be negative on some systems, and is only compared.
            dev: unsigned(number(stat.st_dev) & i128::from(u64::MAX)),
            links: unsigned(number(stat.st_nlink)),
        }
    }
}

/// The fields of `stat` have different widths on different systems.
fn number<T: TryInto<i128>>(member: T) -> i128 {
    member.try_into().unwrap_or_default()
}

/// Permission bits in the system's type.
pub(super) fn permissions(mode: u32) -> fs::Mode {
    fn narrowed<T: TryFrom<u32> + Default>(bits: u32) -> T {
        T::try_from(bits).unwrap_or_default()
    }
    fs::Mode::from_raw_mode(narrowed(mode))
}
