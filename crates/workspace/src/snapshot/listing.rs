//! `snapshot.json`: what is in a snapshot.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{MAX_MEMBERS, MAX_UNPACKED_BYTES, corrupt, tar};
use crate::drift::link::{Leads, leads};
use crate::slot::{Mode, Slot};
use crate::{Error, index};

/// The version that is written, and the only one that is read.
const SCHEMA: u32 = 1;

/// The latest time that a header can have.
const MAX_MTIME: u64 = (1 << 33) - 1;

/// What is in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Listing {
    /// The version of this form, 1.
    pub schema: u32,
    /// The plan that was applied.
    pub apply_id: String,
    /// The digest of that plan.
    pub plan_digest: String,
    /// When it was taken, as whoever took it said.
    pub created_at: String,
    /// The keys of the slots that it has, in table order.
    pub slots: Vec<String>,
    /// The members, in the byte order of their paths.
    pub files: Vec<Listed>,
    /// What was left out, in the same order.
    pub excluded: Vec<Excluded>,
    /// How much more was left out than is listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_excluded: u64,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// The path below the root of the workspace.
    pub path: String,
    /// What it is; a file unless it is said.
    #[serde(rename = "type", default, skip_serializing_if = "Type::is_file")]
    pub kind: Type,
    /// How many bytes, for a file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub size: u64,
    /// The permission bits.
    pub mode: u32,
    /// SHA-256 of the bytes of a file, as hexadecimal digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
    /// When the bytes of a file changed, in whole seconds since 1970.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mtime: u64,
    /// Where a link points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// What a member is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// A regular file.
    #[default]
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
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

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excluded {
    /// The path below the root. Bytes that are no UTF-8 are replaced.
    pub path: String,
    /// Why.
    pub why: Reason,
}

/// Why something was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// A device, a pipe or a socket.
    SpecialFile,
    /// A lock of git, which would outlive whoever holds it.
    GitLock,
    /// A path that no plan could have.
    UnsafePath,
    /// A link that leads out of its slot, or could.
    UnsafeLink,
    /// Whoever took the snapshot did not want it.
    Configured,
    /// A path to keep that is in no read-write slot.
    NotWritable,
}

impl Listing {
    /// Reads and checks a listing.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Error> {
        let listing: Self =
            serde_json::from_slice(text).map_err(|error| corrupt(format_args!("its listing: {error}")))?;
        listing.check()?;
        Ok(listing)
    }

    /// The slots that it has.
    pub fn slots(&self) -> Vec<Slot> {
        self.slots.iter().filter_map(|key| Slot::from_key(key)).collect()
    }

    /// How many bytes all members take in the archive.
    pub(super) fn unpacked(&self) -> u64 {
        self.files.iter().fold(0, |sum, member| sum.saturating_add(tar::length(member)))
    }

    fn check(&self) -> Result<(), Error> {
        if self.schema != SCHEMA {
            return Err(corrupt(format_args!(
                "it has schema {}, and this program reads {SCHEMA}",
                self.schema
            )));
        }
        let members = self.files.len() as u64;
        if members > MAX_MEMBERS {
            return Err(Error::limit("members of a snapshot", MAX_MEMBERS, members));
        }
        for key in &self.slots {
            if !Slot::from_key(key).is_some_and(|slot| slot.persists(Mode::ReadWrite)) {
                return Err(corrupt(format_args!("`{key}` is no slot that a snapshot can have")));
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
            // Everything is below directories that are members, so nothing is ever below a file or a link.
            let parent = member.path.rsplit_once('/').map_or("", |(parent, _)| parent);
            if member.path != slot.relative() && !directories.contains(parent) {
                return Err(member.refused("is in no directory of the snapshot"));
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
    /// Checks everything that can be said of one member, and returns its slot.
    fn check(&self) -> Result<Slot, Error> {
        if !is_safe(&self.path) {
            return Err(self.refused("is not a safe path"));
        }
        let slot = index::slot_of(&self.path).ok_or_else(|| self.refused("is in no slot"))?;
        if self.mode > 0o777 {
            return Err(self.refused("has a mode that is more than permissions"));
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
                    return Err(self.refused("is a link that leads out of its slot"));
                }
                bare && is_safe_text(target) && target.len() <= MAX_PATH
            }
            _ => false,
        };
        if !is_whole {
            return Err(self.refused("is not whole"));
        }
        if self.path == slot.relative() && self.kind != Type::Dir {
            return Err(self.refused("is a slot, and no directory"));
        }
        Ok(slot)
    }

    fn refused(&self, what: &str) -> Error {
        let shown: String = self.path.chars().take(200).collect();
        corrupt(format_args!("{shown:?} {what}")).detail("path", shown)
    }
}

/// The most bytes of a path, of the segments of one, and the most segments: those of a plan.
const MAX_PATH: usize = 1024;
const MAX_SEGMENT: usize = 255;
const MAX_SEGMENTS: usize = 64;

/// Whether a path is one that a plan could have.
pub(super) fn is_safe(path: &str) -> bool {
    path.len() <= MAX_PATH
        && is_safe_text(path)
        && path.split('/').count() <= MAX_SEGMENTS
        && path.split('/').all(|segment| !matches!(segment, "" | "." | "..") && segment.len() <= MAX_SEGMENT)
}

/// Whether a text has no NUL, control character or backslash.
pub(super) fn is_safe_text(text: &str) -> bool {
    !text.chars().any(|character| character.is_control() || character == '\\')
}
