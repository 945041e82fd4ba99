//! `snapshot.json`: the contents of a snapshot.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{MAX_MEMBERS, MAX_UNPACKED_BYTES, corrupt, tar};
use crate::drift::link::{Leads, leads};
use crate::slot::{Mode, Slot};
use crate::{Error, index};

/// The only supported version.
const SCHEMA: u32 = 1;

/// The latest time that a header can represent.
const MAX_MTIME: u64 = (1 << 33) - 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Listing {
    /// The version of this format, 1.
    pub schema: u32,
    /// The applied plan.
    pub apply_id: String,
    pub plan_digest: String,
    /// When it was taken, as given by the caller.
    pub created_at: String,
    /// The keys of its slots, in table order.
    pub slots: Vec<String>,
    /// The members, in byte order of their paths.
    pub files: Vec<Listed>,
    /// What was excluded, in the same order.
    pub excluded: Vec<Excluded>,
    /// How many more were excluded than listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_excluded: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// The path below the workspace root.
    pub path: String,
    /// Its type; a file if not given.
    #[serde(rename = "type", default, skip_serializing_if = "Type::is_file")]
    pub kind: Type,
    /// The size of a file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub size: u64,
    pub mode: u32,
    /// SHA-256 of the bytes of a file, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
    /// The mtime of a file, in whole seconds since 1970.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mtime: u64,
    /// The target of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    #[default]
    File,
    Dir,
    Link,
}

impl Type {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    fn is_file(&self) -> bool {
        *self == Self::File
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excluded {
    /// The path below the root. Bytes that are not UTF-8 are replaced.
    pub path: String,
    pub why: Reason,
}

/// Why it was excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// A device, pipe or socket.
    SpecialFile,
    /// A git lock file, which would outlive its holder.
    GitLock,
    /// A path that is not valid in a plan.
    UnsafePath,
    /// A link that leaves its slot, or could.
    UnsafeLink,
    /// Excluded by the caller.
    Configured,
    /// A path to keep that is not in a read-write slot.
    NotWritable,
}

impl Listing {
    /// Reads and validates a listing.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Error> {
        let listing: Self =
            serde_json::from_slice(text).map_err(|error| corrupt(format_args!("its listing: {error}")))?;
        listing.check()?;
        Ok(listing)
    }

    pub fn slots(&self) -> Vec<Slot> {
        self.slots.iter().filter_map(|key| Slot::from_key(key)).collect()
    }

    /// The size of all members in the archive.
    pub(super) fn unpacked(&self) -> u64 {
        self.files.iter().fold(0, |sum, member| sum.saturating_add(tar::length(member)))
    }

    fn check(&self) -> Result<(), Error> {
        if self.schema != SCHEMA {
            return Err(corrupt(format_args!(
                "its schema is {}, but this program supports {SCHEMA}",
                self.schema
            )));
        }
        let members = self.files.len() as u64;
        if members > MAX_MEMBERS {
            return Err(Error::limit("members of a snapshot", MAX_MEMBERS, members));
        }
        for key in &self.slots {
            if !Slot::from_key(key).is_some_and(|slot| slot.persists(Mode::ReadWrite)) {
                return Err(corrupt(format_args!("`{key}` is not a slot of snapshots")));
            }
        }
        let slots = self.slots();
        let mut directories = BTreeSet::new();
        let mut before: Option<&str> = None;
        for member in &self.files {
            if before.is_some_and(|before| before >= member.path.as_str()) {
                return Err(member.refused("is not in order"));
            }
            before = Some(&member.path);
            let slot = member.check()?;
            if !slots.contains(&slot) {
                return Err(member.refused("is not in one of its slots"));
            }
            // Everything is below directories that are members, so nothing is below a file or link.
            let parent = member.path.rsplit_once('/').map_or("", |(parent, _)| parent);
            if member.path != slot.relative() && !directories.contains(parent) {
                return Err(member.refused("is not in a directory of the snapshot"));
            }
            if member.kind == Type::Dir {
                directories.insert(member.path.as_str());
            }
        }
        let unpacked = self.unpacked();
        if unpacked > MAX_UNPACKED_BYTES {
            return Err(Error::limit("bytes of an unpacked snapshot", MAX_UNPACKED_BYTES, unpacked));
        }
        Ok(())
    }
}

impl Listed {
    /// Validates one member and returns its slot.
    fn check(&self) -> Result<Slot, Error> {
        if !is_safe(&self.path) {
            return Err(self.refused("is not a safe path"));
        }
        let slot = index::slot_of(&self.path).ok_or_else(|| self.refused("is not in a slot"))?;
        if self.mode > 0o777 {
            return Err(self.refused("has a mode with more than permission bits"));
        }
        let has_hash =
            self.sha256.len() == 64 && self.sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let bare = self.size == 0 && self.mtime == 0 && self.sha256.is_empty();
        let is_whole = match (self.kind, &self.target) {
            (Type::File, None) => has_hash && self.mtime <= MAX_MTIME,
            (Type::Dir, None) => bare,
            (Type::Link, Some(target)) => {
                let below = self.path.get(slot.relative().len() + 1..).unwrap_or_default();
                if leads(below.as_bytes(), target.as_bytes()) != Leads::Inside {
                    return Err(self.refused("is a link that leaves its slot"));
                }
                bare && is_safe_text(target) && target.len() <= MAX_PATH
            }
            _ => false,
        };
        if !is_whole {
            return Err(self.refused("is incomplete"));
        }
        if self.path == slot.relative() && self.kind != Type::Dir {
            return Err(self.refused("is a slot, but not a directory"));
        }
        Ok(slot)
    }

    fn refused(&self, what: &str) -> Error {
        let shown: String = self.path.chars().take(200).collect();
        corrupt(format_args!("{shown:?} {what}")).detail("path", shown)
    }
}

/// The limits of a path: bytes, bytes per segment, and segments, as in a plan.
const MAX_PATH: usize = 1024;
const MAX_SEGMENT: usize = 255;
const MAX_SEGMENTS: usize = 64;

/// Whether a path is valid in a plan.
pub(super) fn is_safe(path: &str) -> bool {
    path.len() <= MAX_PATH
        && is_safe_text(path)
        && path.split('/').count() <= MAX_SEGMENTS
        && path.split('/').all(|segment| !matches!(segment, "" | "." | "..") && segment.len() <= MAX_SEGMENT)
}

/// Whether a string has no NUL, control character or backslash.
pub(super) fn is_safe_text(text: &str) -> bool {
    !text.chars().any(|character| character.is_control() || character == '\\')
}
