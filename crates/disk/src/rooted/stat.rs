//! What the file system knows of a name, in numbers of one width on every system.

use rustix::fs::{self, FileType};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Link,
    /// A device, a pipe, a socket.
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

/// What the file system knows of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// The permission bits, with those for setuid, setgid and sticky.
    pub mode: u32,
    /// How many bytes it has.
    pub size: u64,
    /// When its content changed, in nanoseconds.
    pub mtime_ns: i128,
    /// When anything of it changed, in nanoseconds.
    pub ctime_ns: i128,
    /// Its number on the device.
    pub ino: u64,
    /// The device.
    pub dev: u64,
    /// How many names it has.
    pub links: u64,
}

impl Stat {
    /// When its content changed, in milliseconds.
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
            // Where it is signed it may be negative, and is only ever compared.
            dev: unsigned(number(stat.st_dev) & i128::from(u64::MAX)),
            links: unsigned(number(stat.st_nlink)),
        }
    }
}

/// The members of a `stat` have other widths on other systems.
fn number<T: TryInto<i128>>(member: T) -> i128 {
    member.try_into().unwrap_or_default()
}

/// Permission bits as the system takes them.
pub(super) fn permissions(mode: u32) -> fs::Mode {
    fn narrowed<T: TryFrom<u32> + Default>(bits: u32) -> T {
        T::try_from(bits).unwrap_or_default()
    }
    fs::Mode::from_raw_mode(narrowed(mode))
}
