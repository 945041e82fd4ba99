//! The index of a workspace: the applied entries, in path order.
//!
//! One JSON line for each file, directory and link below the granted slots, sorted by path segments
//! as bytes (`/` before every other byte), between a [`Header`] and a last line with the number and
//! hash of the lines. It is written and read as a stream, so that memory does not grow with the
//! number of files.
//!
//! ```
//! use workspace::index::{Header, Line, LineKind, Reader, Writer};
//!
//! let header = Header { apply_id: "3863…".into(), generation: 1, written_at_ns: 1_700_000_000_000_000_000 };
//! let mut writer = Writer::new(Vec::new(), &header)?;
//! writer.push(&Line::directory("tmp", None, 0o755))?;
//! let (bytes, _) = writer.finish()?;
//!
//! let mut reader = Reader::new(bytes.as_slice())?;
//! assert_eq!(reader.header(), &header);
//! assert_eq!(reader.next_line()?.map(|line| line.kind), Some(LineKind::Dir));
//! assert_eq!(reader.next_line()?, None);
//! # Ok::<(), workspace::Error>(())
//! ```

mod digest;
mod order;
mod reader;
mod writer;

use serde::{Deserialize, Serialize};

pub use self::digest::{Digests, Summary, TreeSummary};
pub use self::order::{compare_paths, slot_of};
pub use self::reader::Reader;
pub use self::writer::Writer;
use crate::{Code, Error};

/// The only supported version.
pub const VERSION: u32 = 1;

/// The name of the index in the state folder.
pub const FILE_NAME: &str = "index.jsonl";

/// The longest line with its line feed. A path and a link target have at most 4,096 bytes each, as
/// in the kernel; a mount key is built from a path and a few ids; each byte can take six when
/// escaped.
pub const MAX_LINE_BYTES: usize = 128 * 1024;

/// The longest path that the kernel accepts.
pub const MAX_PATH_BYTES: usize = 4096;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The identity of the applied plan.
    pub apply_id: String,
    /// The generation of the lease.
    pub generation: u64,
    /// When the lines were last verified, in nanoseconds since 1970. A file with an mtime close to
    /// it, or later, may have changed again without a trace.
    pub written_at_ns: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineKind {
    File,
    Dir,
    Link,
}

impl LineKind {
    /// The name in the index.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Dir => "dir",
            Self::Link => "link",
        }
    }
}

/// One applied entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Line {
    /// The path below the workspace root, such as `inputs/inputs.json`.
    pub path: String,
    /// Its mount; `None` for a slot itself and for directories between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_key: Option<String>,
    pub kind: LineKind,
    /// The size of a file; 0 otherwise.
    pub size: u64,
    pub mode: u32,
    /// BLAKE3 of the bytes of a file or of the target of a link, in hexadecimal; empty for a
    /// directory.
    pub blake3: String,
    /// mtime, in nanoseconds.
    pub mtime_ns: i64,
    /// ctime, in nanoseconds.
    pub ctime_ns: i64,
    /// The inode number.
    pub ino: u64,
    /// Whether the file shares its inode with the content store, so that its ctime is meaningless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub linked: bool,
    /// The target of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl Line {
    /// The line of a directory. Its times are not recorded: every change below alters them.
    pub fn directory(path: impl Into<String>, mount_key: Option<String>, mode: u32) -> Self {
        Self {
            path: path.into(),
            mount_key,
            kind: LineKind::Dir,
            size: 0,
            mode,
            blake3: String::new(),
            mtime_ns: 0,
            ctime_ns: 0,
            ino: 0,
            linked: false,
            target: None,
        }
    }

    /// The problem of the line, if any. Reader and writer check the same rules, so that every
    /// readable line can be written again.
    fn problem(&self) -> Option<&'static str> {
        let hash_is_whole = match self.kind {
            LineKind::Dir => self.blake3.is_empty(),
            LineKind::File | LineKind::Link => {
                self.blake3.len() == 64
                    && self.blake3.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            }
        };
        if !order::is_plain(&self.path) {
            Some("the path is not a valid relative path")
        } else if !hash_is_whole {
            Some("the hash does not match the kind")
        } else if self.target.is_some() != (self.kind == LineKind::Link) {
            Some("only links must have a target")
        } else if self.mode > 0o7777 {
            Some("the mode has more than permission bits")
        } else {
            None
        }
    }
}

/// The refusal of a damaged index. Nothing in it is trusted, because missing lines cannot be
/// detected.
fn damaged(line: u64, what: &str) -> Error {
    let message =
        format!("the index is damaged at line {line}: {what}; apply the plan again to write a new one");
    Error::new(Code::ApplyIo, message).detail("line", line)
}

/// The refusal on a system error.
fn failed(doing: &str, error: &std::io::Error) -> Error {
    let code = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Code::ApplyNoSpace,
        _ => Code::ApplyIo,
    };
    Error::new(code, format!("{doing} the index: {error}"))
}
