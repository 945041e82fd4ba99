//! Snapshots: the agent's files in one archive.
//!
//! [`save`] packs the read-write slots of a workspace; [`Snapshot`] validates such a file and
//! returns its members. The format is a pax tar in zstd, which every tar can read, and exactly one
//! archive of a tree is accepted: the first member, `snapshot.json`, lists the others, and every
//! further byte follows from it and from the contents that it has hashes of. Nothing in an archive
//! needs interpretation: a device, a hard link, a duplicate name, a wrong size or trailing data is
//! simply a wrong byte.
//!
//! # Invariants
//! * The same tree, request and compressor give the same bytes.
//! * Nothing is returned before the hash of the whole file is checked, and no file before its own.
//! * A path from a snapshot is safe, in a read-write slot, and below directories that are members
//!   too.

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

/// The largest packed snapshot, in bytes.
pub const MAX_PACKED_BYTES: u64 = 4 << 30;

/// The largest unpacked snapshot in bytes, including headers.
pub const MAX_UNPACKED_BYTES: u64 = 16 << 30;

/// The most members of a snapshot.
pub const MAX_MEMBERS: u64 = 500_000;

/// The largest compression ratio.
pub const MAX_RATIO: u64 = 200;

/// Up to this size the ratio is ignored: small files are mostly headers, which compress well.
pub const RATIO_FREE_BYTES: u64 = 16 << 20;

/// The largest `snapshot.json`, in bytes: the maximum of members, with long names.
pub const MAX_LISTING_BYTES: u64 = 256 << 20;

/// The most listed exclusions; the rest is counted.
pub const MAX_EXCLUDED: usize = 10_000;

/// Refuses too large compression ratios.
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

/// The refusal of an invalid snapshot.
fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::new(Code::SnapshotCorrupt, format!("the snapshot is invalid: {what}"))
}

/// The refusal of an unreadable snapshot.
fn unreadable(error: &io::Error) -> Error {
    Error::new(Code::SnapshotRestoreFailed, format!("the snapshot cannot be read: {error}"))
}
