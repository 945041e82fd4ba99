//! What the agent wrote, in one file.
//!
//! [`save`] packs the read-write slots of a workspace; [`Snapshot`] checks such a file and hands out what is
//! in it. The form is a pax tar in zstd, which every tar reads, and of all archives of one tree there is exactly one
//! that is accepted: the first member, `snapshot.json`, lists the others, and every further byte follows from it
//! and from the contents that it has the hashes of. So there is nothing to interpret in an archive: a
//! device, a hard link, a second member of one name, a size that is a lie or a byte after the end is not the byte that
//! has to be there.
//!
//! # Invariants
//! * The same tree, request and compressor give the same bytes.
//! * Nothing is handed out before the hash of the whole file was checked, and no file before its own was.
//! * A path out of a snapshot is safe, in a read-write slot, and below directories that are members too.

mod listing;
mod open;
mod pack;
mod restore;
mod survey;
mod tar;

use std::io;

pub use self::listing::{Excluded, Listed, Listing, Reason, Type};
pub use self::open::{Member, Snapshot};
pub use self::pack::{Packed, Request, pack, save, sidecar};
use crate::{Code, Error};

/// The most bytes of a packed snapshot.
pub const MAX_PACKED_BYTES: u64 = 4 << 30;

/// The most bytes of what is in a snapshot, headers and all.
pub const MAX_UNPACKED_BYTES: u64 = 16 << 30;

/// The most members of a snapshot.
pub const MAX_MEMBERS: u64 = 500_000;

/// How many times larger a snapshot may become when it is unpacked.
pub const MAX_RATIO: u64 = 200;

/// Up to this size nobody is harmed, whatever the ratio: a tree of small files is mostly headers, which pack well.
pub const RATIO_FREE_BYTES: u64 = 16 << 20;

/// The most bytes of `snapshot.json`: as many members as there may be, with long names.
pub const MAX_LISTING_BYTES: u64 = 256 << 20;

/// The most exclusions that are listed; the number of the rest is told.
pub const MAX_EXCLUDED: usize = 10_000;

/// Refuses what would grow too much.
fn check_ratio(packed: u64, unpacked: u64) -> Result<(), Error> {
    if unpacked > RATIO_FREE_BYTES && unpacked / MAX_RATIO > packed {
        return Err(Error::limit(
            "ratio of unpacked to packed bytes of a snapshot",
            MAX_RATIO,
            unpacked / packed.max(1),
        ));
    }
    Ok(())
}

/// The refusal of a snapshot that is not as it has to be.
fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::new(Code::SnapshotCorrupt, format!("the snapshot cannot be used: {what}"))
}

/// The refusal when the system does not let a snapshot be read.
fn unreadable(error: &io::Error) -> Error {
    Error::new(Code::SnapshotRestoreFailed, format!("the snapshot cannot be read: {error}"))
}
