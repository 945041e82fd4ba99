//! Checks whether a commit is in the object store of a repository, by reading loose objects and packs with their indexes
//! (version 2, the only one that `git` has written since 2007). Alternate object stores are not searched, because their
//! path could lead anywhere.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use flate2::read::ZlibDecoder;

use super::super::read::open_regular;

/// The maximum number of packs, and of objects with the same prefix, that are examined.
const MAX_ENTRIES: usize = 4096;
/// The maximum length of a delta chain. `git` creates chains of at most 50, or 250 on demand.
const MAX_DELTAS: usize = 4096;
/// The size of the magic number and the version of an index. 256 counts follow.
const HEADER: u64 = 8;
const FANOUT: u64 = 256 * 4;

/// Whether `objects` has a commit with this id or id prefix. `id` consists of lower-case hexadecimal digits.
pub(super) fn has_commit(objects: &Path, id: &str, id_bytes: usize) -> bool {
    let digits = 7..=2 * id_bytes;
    if !digits.contains(&id.len()) || !id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return false;
    }
    is_loose(objects, id) || is_packed(&objects.join("pack"), id, id_bytes)
}

fn is_loose(objects: &Path, id: &str) -> bool {
    let (folder, rest) = id.split_at(2);
    let Ok(entries) = fs::read_dir(objects.join(folder)) else { return false };
    entries.take(MAX_ENTRIES).flatten().any(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with(rest))
            && open_regular(&entry.path()).is_ok_and(|(file, _)| {
                let mut beginning = [0; 7];
                ZlibDecoder::new(file).read_exact(&mut beginning).is_ok() && &beginning == b"commit "
            })
    })
}

fn is_packed(packs: &Path, id: &str, id_bytes: usize) -> bool {
    let Ok(entries) = fs::read_dir(packs) else { return false };
    let indexes = entries.take(MAX_ENTRIES).flatten().map(|entry| entry.path());
    let mut indexes = indexes.filter(|path| path.extension().is_some_and(|extension| extension == "idx"));
    indexes.any(|path| {
        let opened = open_regular(&path).ok().zip(open_regular(&path.with_extension("pack")).ok());
        opened
            .and_then(|((index, _), (pack, _))| Pack { index, pack, id_bytes }.has_commit(id))
            .unwrap_or(false)
    })
}

/// A pack and its index. A damaged pack or index is treated as empty.
struct Pack {
    index: File,
    pack: File,
    id_bytes: usize,
}

impl Pack {
    fn has_commit(&self, prefix: &str) -> Option<bool> {
        let mut header = [0; 8];
        self.index.read_exact_at(&mut header, 0).ok()?;
        if header != *b"\xfftOc\0\0\0\x02" {
            return None;
        }
        let count = self.number(HEADER + FANOUT - 4)?;
        let first = u64::from(u8::from_str_radix(prefix.get(..2)?, 16).ok()?);
        let mut low = if first == 0 { 0 } else { self.number(HEADER + (first - 1) * 4)? };
        let mut high = self.number(HEADER + first * 4)?;
        if low > high || high > count {
            return None;
        }
        // Find the first id that is not less than the prefix.
        while low < high {
            let middle = low + (high - low) / 2;
            if *self.name(middle)? < *prefix { low = middle + 1 } else { high = middle }
        }
        let end = count.min(low.saturating_add(MAX_ENTRIES as u64));
        let mut same =
            (low..end).map_while(|at| self.name(at).filter(|name| name.starts_with(prefix)).map(|_| at));
        Some(same.any(|at| {
            self.offset(at, count).and_then(|offset| self.is_commit(offset, count)).unwrap_or(false)
        }))
    }

    /// Reads a big-endian 32-bit number of the index.
    fn number(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 4];
        self.index.read_exact_at(&mut bytes, at).ok()?;
        Some(u64::from(u32::from_be_bytes(bytes)))
    }

    fn name(&self, at: u64) -> Option<String> {
        let mut bytes = [0; 32];
        let bytes = bytes.get_mut(..self.id_bytes)?;
        self.index.read_exact_at(bytes, HEADER + FANOUT + at * self.id_bytes as u64).ok()?;
        Some(canon::encoding::hex(bytes))
    }

    /// The offset of an object in the pack. Offsets beyond 2 GiB are in a separate table.
    fn offset(&self, at: u64, count: u64) -> Option<u64> {
        let offsets = HEADER + FANOUT + count * (self.id_bytes as u64 + 4);
        let offset = self.number(offsets + at * 4)?;
        let Some(large) = offset.checked_sub(1 << 31) else { return Some(offset) };
        let mut bytes = [0; 8];
        self.index.read_exact_at(&mut bytes, offsets + count * 4 + large * 8).ok()?;
        Some(u64::from_be_bytes(bytes))
    }

    /// Whether the object at an offset is a commit, or a delta whose base is one.
    fn is_commit(&self, mut offset: u64, count: u64) -> Option<bool> {
        for _ in 0..MAX_DELTAS {
            let mut bytes = [0; 64];
            let read = self.pack.read_at(&mut bytes, offset).ok()?;
            let bytes = &bytes[..read];
            let size = bytes.iter().position(|byte| byte & 0x80 == 0)? + 1;
            let base = bytes.get(size..)?;
            offset = match bytes.first()? >> 4 & 7 {
                1 => return Some(true),
                6 => offset.checked_sub(distance(base)?)?,
                7 => self.find(base.get(..self.id_bytes)?, count)?,
                _ => return Some(false),
            };
        }
        None
    }

    /// The offset of the object with an id.
    fn find(&self, id: &[u8], count: u64) -> Option<u64> {
        let wanted = canon::encoding::hex(id);
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.name(middle)? < wanted { low = middle + 1 } else { high = middle }
        }
        (self.name(low)? == wanted).then(|| self.offset(low, count)).flatten()
    }
}

/// Decodes the distance from a delta to its base: seven bits per byte, with an offset of one for each further byte.
fn distance(bytes: &[u8]) -> Option<u64> {
    let mut bytes = bytes.iter();
    let first = bytes.next()?;
    let (mut distance, mut more) = (u64::from(first & 0x7f), first & 0x80 != 0);
    while more {
        let next = bytes.next()?;
        distance = (distance + 1).checked_mul(128)?.checked_add(u64::from(next & 0x7f))?;
        more = next & 0x80 != 0;
    }
    Some(distance)
}
