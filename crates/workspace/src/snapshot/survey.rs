//! Collects the files to pack.

use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::listing::{self, Excluded, Listed, Listing, Reason, Type};
use super::pack::Request;
use super::{MAX_EXCLUDED, MAX_MEMBERS, MAX_UNPACKED_BYTES};
use crate::drift::link::{Leads, leads};
use crate::rooted::{self, Dir, Kind, Stat};
use crate::slot::Slot;
use crate::{Code, Error, index};

/// The chunk size.
pub(super) const BUFFER: usize = 128 * 1024;

/// The latest time that a header can represent.
const MAX_MTIME: i128 = (1 << 33) - 1;

/// Walks the slots and hashes every file.
pub(super) fn survey(root: &Dir, request: &Request<'_>) -> Result<Listing, Error> {
    let mut slots: Vec<Slot> = request
        .grants
        .iter()
        .filter(|grant| grant.slot.persists(grant.mode))
        .map(|grant| grant.slot)
        .collect();
    slots.sort_unstable();
    slots.dedup();
    let mut survey = Survey { request, files: Vec::new(), excluded: Vec::new(), more_excluded: 0, bytes: 0 };
    let mut present = Vec::new();
    for slot in slots {
        if survey.slot(root, slot)? {
            present.push(slot);
        }
    }
    for path in request.persistence {
        let kept = index::slot_of(path).is_some_and(|slot| present.contains(&slot));
        if !kept {
            survey.exclude(path.as_bytes(), Reason::NotWritable);
        }
    }
    survey.files.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    survey.excluded.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    Ok(Listing {
        schema: 1,
        apply_id: request.apply_id.to_owned(),
        plan_digest: request.plan_digest.to_owned(),
        created_at: request.created_at.to_owned(),
        slots: present.iter().map(|slot| slot.key().to_owned()).collect(),
        files: survey.files,
        excluded: survey.excluded,
        more_excluded: survey.more_excluded,
    })
}

struct Survey<'a> {
    request: &'a Request<'a>,
    files: Vec<Listed>,
    excluded: Vec<Excluded>,
    more_excluded: u64,
    bytes: u64,
}

impl Survey<'_> {
    /// Walks one slot; returns whether it exists.
    fn slot(&mut self, root: &Dir, slot: Slot) -> Result<bool, Error> {
        let path = slot.relative();
        let failed = |error: &io::Error| rooted::refusal(error, "read", Path::new(path));
        let Some(stat) = root.stat(path).map_err(|error| failed(&error))? else { return Ok(false) };
        if stat.kind != Kind::Dir {
            let message = format!("{path} is not a directory, so it cannot be packed");
            return Err(Error::new(Code::ApplyUnsafeSymlink, message).detail("path", path));
        }
        self.add(Listed { kind: Type::Dir, mode: stat.mode & 0o777, ..empty(path) })?;
        // Opened by path when needed: a wide tree would otherwise keep too many directories open.
        let mut waiting = vec![path.to_owned()];
        while let Some(path) = waiting.pop() {
            let listed = root.open_dir(&path).and_then(|dir| Ok((dir.names()?, dir)));
            let (names, dir) = listed.map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => changed(&path),
                _ => rooted::refusal(&error, "list", Path::new(&path)),
            })?;
            for (name, _) in names {
                let mut child = path.clone().into_bytes();
                child.push(b'/');
                child.extend_from_slice(name.0.as_bytes());
                let failed = |error: &io::Error| {
                    rooted::refusal(error, "read", Path::new(&*String::from_utf8_lossy(&child)))
                };
                // An entry that has disappeared is ignored.
                let Some(stat) = dir.stat(&name.0).map_err(|error| failed(&error))? else { continue };
                let child = match self.judge(&child, &stat) {
                    Ok(text) => text.to_owned(),
                    Err(reason) => {
                        self.exclude(&child, reason);
                        continue;
                    }
                };
                match stat.kind {
                    Kind::Dir => {
                        self.add(Listed { kind: Type::Dir, mode: stat.mode & 0o777, ..empty(&child) })?;
                        waiting.push(child);
                    }
                    Kind::Link => self.link(&dir, &child, slot)?,
                    Kind::File => self.file(&dir, &child, &stat)?,
                    Kind::Other => self.exclude(child.as_bytes(), Reason::SpecialFile),
                }
            }
        }
        Ok(true)
    }

    /// The path as a string, or why it is excluded.
    fn judge<'p>(&self, path: &'p [u8], stat: &Stat) -> Result<&'p str, Reason> {
        let text =
            std::str::from_utf8(path).ok().filter(|text| listing::is_safe(text)).ok_or(Reason::UnsafePath)?;
        let below = |top: &String| {
            text.strip_prefix(top.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if self.request.excludes.iter().any(below) {
            Err(Reason::Configured)
        } else if stat.kind == Kind::Other {
            Err(Reason::SpecialFile)
        } else if stat.kind != Kind::Dir && is_git_lock(text) {
            Err(Reason::GitLock)
        } else {
            Ok(text)
        }
    }

    fn link(&mut self, dir: &Dir, path: &str, slot: Slot) -> Result<(), Error> {
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        let Ok(target) = dir.read_link(name) else {
            return Err(changed(path));
        };
        let inside = path.get(slot.relative().len() + 1..).unwrap_or_default();
        match target.to_str() {
            Some(target)
                if listing::is_safe_text(target)
                    && target.len() <= 1024
                    && leads(inside.as_bytes(), target.as_bytes()) == Leads::Inside =>
            {
                self.add(Listed {
                    kind: Type::Link,
                    mode: 0o777,
                    target: Some(target.to_owned()),
                    ..empty(path)
                })
            }
            _ => {
                self.exclude(path.as_bytes(), Reason::UnsafeLink);
                Ok(())
            }
        }
    }

    fn file(&mut self, dir: &Dir, path: &str, stat: &Stat) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(stat.size);
        if self.bytes > MAX_UNPACKED_BYTES {
            return Err(Error::limit("bytes of an unpacked snapshot", MAX_UNPACKED_BYTES, self.bytes));
        }
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        let mut hasher = Sha256::new();
        copy_exactly(dir, name, path, stat.size, |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        let seconds = stat.mtime_ns.div_euclid(1_000_000_000).clamp(0, MAX_MTIME);
        self.add(Listed {
            size: stat.size,
            mode: stat.mode & 0o777,
            sha256: canon::encoding::hex(&hasher.finalize()),
            mtime: u64::try_from(seconds).unwrap_or(0),
            ..empty(path)
        })
    }

    fn add(&mut self, member: Listed) -> Result<(), Error> {
        self.files.push(member);
        let members = self.files.len() as u64;
        if members > MAX_MEMBERS {
            return Err(Error::limit("members of a snapshot", MAX_MEMBERS, members));
        }
        Ok(())
    }

    fn exclude(&mut self, path: &[u8], why: Reason) {
        if self.excluded.len() < MAX_EXCLUDED {
            self.excluded.push(Excluded { path: String::from_utf8_lossy(path).into_owned(), why });
        } else {
            self.more_excluded += 1;
        }
    }
}

fn empty(path: &str) -> Listed {
    Listed {
        path: path.to_owned(),
        kind: Type::File,
        size: 0,
        mode: 0,
        sha256: String::new(),
        mtime: 0,
        target: None,
    }
}

/// Whether a path is a lock below `.git`.
fn is_git_lock(path: &str) -> bool {
    path.ends_with(".lock") && path.split('/').rev().skip(1).any(|segment| segment == ".git")
}

/// Reads a file that must have exactly this size.
pub(super) fn copy_exactly(
    dir: &Dir,
    name: &str,
    path: &str,
    size: u64,
    mut each: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |error: &io::Error| rooted::refusal(error, "read", Path::new(path));
    let mut file = match dir.open_file(name) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
            return Err(changed(path));
        }
        Err(error) => return Err(failed(&error)),
    };
    let mut buffer = vec![0; BUFFER];
    let mut total = 0;
    loop {
        let read = match file.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(&error)),
        };
        total += read as u64;
        if total > size || (read == 0 && total < size) {
            return Err(changed(path));
        }
        if read == 0 {
            return Ok(());
        }
        each(&buffer[..read])?;
    }
}

/// The refusal of a file that changed meanwhile.
pub(super) fn changed(path: &str) -> Error {
    Error::new(Code::SnapshotFileChanged, format!("{path} changed while it was being packed"))
        .detail("path", path)
}
