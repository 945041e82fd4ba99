//! Reads a session from its manifest and validates every byte.

use guide::plan::pins_of;
use guide::record::budgets::PLAN_BYTES;
use guide::record::{Event, EventIndex, ManifestIndex, ManifestRecord, SegmentRecord, SessionId};

use ports::sessions::{DamageReason, SessionHealth, StoreError};
use sessionlog::manifest::{Comparison, Expected, MANIFEST_BYTES, Mismatch, decode_segment, group};

use super::layout;
use crate::disk::{self, Disk, DiskPath};

/// The length of an encoded cursor position: four numbers and a flag.
const POSITION_BYTES: usize = 4 * 8 + 1;

/// The content of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The events in order: all of them, or those after the given cursor.
    pub events: Vec<Event>,
    /// The manifest records, likewise.
    pub manifest: Vec<ManifestRecord>,
    /// The position after the last event.
    pub cursor: Cursor,
}

/// How far a session was read and validated. A cache keeps it to read only new events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    session_id: SessionId,
    /// The inode of the manifest. It distinguishes the session from a later one with the same id.
    file: u64,
    next_event: EventIndex,
    next_record: ManifestIndex,
    /// The offset of the end of the last complete group, without its last line end.
    end: u64,
    /// The length of the file. If it exceeds `end` and a line end, an append was interrupted.
    length: u64,
    /// Whether the file ends with the line end of the last complete group.
    clean: bool,
}

impl Cursor {
    /// The position before the first event.
    pub const fn start(session_id: SessionId) -> Self {
        Self {
            session_id,
            file: 0,
            next_event: EventIndex::FIRST,
            next_record: ManifestIndex::FIRST,
            end: 0,
            length: 0,
            clean: true,
        }
    }

    pub const fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    pub const fn next_event(&self) -> EventIndex {
        self.next_event
    }

    /// The index of the next manifest record.
    pub const fn next_record(&self) -> ManifestIndex {
        self.next_record
    }

    /// The length of the manifest up to this position. Derived data uses it to detect staleness.
    pub const fn manifest_bytes(&self) -> u64 {
        self.end
    }

    pub(super) const fn file(&self) -> u64 {
        self.file
    }

    pub(super) const fn set_file(&mut self, file: u64) {
        self.file = file;
    }

    pub(super) const fn is_clean(&self) -> bool {
        self.clean
    }

    /// The cursor after an append of `records` records and `bytes` bytes.
    pub(super) fn after(&self, records: u64, last: EventIndex, bytes: u64, file: u64) -> Self {
        let line_end = u64::from(self.end > 0);
        Self {
            session_id: self.session_id.clone(),
            file,
            next_event: last.next(),
            next_record: ManifestIndex(self.next_record.0 + records),
            end: self.end + line_end + bytes - 1,
            length: self.end + line_end + bytes,
            clean: true,
        }
    }

    /// Converts to the opaque cursor of the port.
    pub(super) fn to_port(&self) -> ports::sessions::Cursor {
        let mut position = [0; POSITION_BYTES];
        let numbers = [self.file, self.next_record.0, self.end, self.length];
        for (bytes, number) in position.chunks_exact_mut(8).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        position[POSITION_BYTES - 1] = u8::from(self.clean);
        ports::sessions::Cursor::new(self.session_id.clone(), self.next_event, &position)
    }

    /// Converts from a cursor of the port. A cursor of another store is treated as the start, so that everything is read.
    pub(super) fn from_port(cursor: &ports::sessions::Cursor) -> Self {
        let start = Self::start(cursor.session_id().clone());
        let Ok(position) = <[u8; POSITION_BYTES]>::try_from(cursor.position()) else { return start };
        let mut numbers = [0; 4];
        for (number, bytes) in numbers.iter_mut().zip(position.chunks_exact(8)) {
            *number = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        let [file, next_record, end, length] = numbers;
        Self {
            file,
            next_event: cursor.next_event(),
            next_record: ManifestIndex(next_record),
            end,
            length,
            clean: position[POSITION_BYTES - 1] == 1,
            ..start
        }
    }

    pub(super) const fn repaired(&mut self) {
        self.clean = true;
        self.length = if self.end == 0 { 0 } else { self.end + 1 };
    }
}

/// The result of a scan: the validated part, and what stopped it.
pub(super) struct Scan {
    pub(super) loaded: Loaded,
    pub(super) health: SessionHealth,
}

/// Reads everything after `from`.
///
/// Writers are not locked out. A writer that repairs the manifest, or a deletion of the session, can look like damage to
/// a reader that sees files of different times. Damage is therefore reported only if the manifest did not change during
/// the scan.
pub(super) fn scan(disk: &dyn Disk, session: &DiskPath, from: &Cursor) -> Result<Scan, StoreError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let scan = scan_once(disk, session, from)?;
        if scan.health.is_healthy() || attempts == SCAN_ATTEMPTS {
            return Ok(scan);
        }
        let manifest = layout::manifest(session);
        let stat = disk.stat(&manifest).map_err(StoreError::disk("read", &manifest))?;
        if stat
            .is_some_and(|stat| stat.id == scan.loaded.cursor.file && stat.len == scan.loaded.cursor.length)
        {
            return Ok(scan);
        }
    }
}

/// How many times a session is read again because it changed during the scan.
const SCAN_ATTEMPTS: usize = 4;

fn scan_once(disk: &dyn Disk, session: &DiskPath, from: &Cursor) -> Result<Scan, StoreError> {
    let manifest = layout::manifest(session);
    let unknown = || StoreError::Unknown { session: from.session_id.clone() };
    let reading = || StoreError::disk("read", &manifest);
    let stat = disk.stat(&manifest).map_err(reading())?.ok_or_else(unknown)?;
    let mut cursor = from.clone();
    if from.end > 0 {
        if stat.id != from.file {
            // The session was deleted and created again, so everything that was read before is invalid.
            return scan_once(disk, session, &Cursor::start(from.session_id.clone()));
        }
        // The append that follows an interrupted one can have the same length, so the length is compared only for a clean
        // end.
        if from.clean && stat.len == from.length {
            let loaded = Loaded { events: Vec::new(), manifest: Vec::new(), cursor };
            return Ok(Scan { loaded, health: SessionHealth::Healthy });
        }
    }
    let bytes = match disk.read_from(&manifest, from.end, MANIFEST_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(unknown()),
        Err(error) => return Err(reading()(error)),
    };
    cursor.file = stat.id;
    cursor.length = from.end + bytes.len() as u64;
    let mut walk = LogReader { disk, session, events: Vec::new(), manifest: Vec::new(), cursor };
    let mismatch = if stat.len < from.end {
        let problem = format!("it has {} bytes, and had at least {}", stat.len, from.end);
        Some(("manifest.jsonl".to_owned(), Mismatch::new(DamageReason::ManifestTruncated, problem)))
    } else {
        walk.all(&bytes)?
    };
    let LogReader { events, manifest, cursor, .. } = walk;
    let health = match mismatch {
        None if cursor.end == 0 => return Err(unknown()),
        None => SessionHealth::Healthy,
        Some((file, mismatch)) => mismatch.health(file, cursor.next_event),
    };
    Ok(Scan { loaded: Loaded { events, manifest, cursor }, health })
}

struct LogReader<'d> {
    disk: &'d dyn Disk,
    session: &'d DiskPath,
    events: Vec<Event>,
    manifest: Vec<ManifestRecord>,
    cursor: Cursor,
}

/// The file, and its first mismatch.
type Wrong = Option<(String, Mismatch)>;

impl LogReader<'_> {
    /// Reads groups until the end, or until the bytes are invalid.
    fn all(&mut self, bytes: &[u8]) -> Result<Wrong, StoreError> {
        let base = self.cursor.end;
        // Records contain no NULs, so trailing NULs are space that was allocated but never written.
        let written = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
        let bytes = &bytes[..written];
        let mut position = 0;
        loop {
            let mut rest = &bytes[position..];
            if self.cursor.end > 0 {
                match rest.strip_prefix(b"\n") {
                    Some(behind) => rest = behind,
                    None if rest.is_empty() => break,
                    None => {
                        let problem = "something follows the last record on its line";
                        let mismatch = Mismatch::new(DamageReason::SchemaValidationFailed, problem);
                        return Ok(Some(("manifest.jsonl".to_owned(), mismatch)));
                    }
                }
            }
            if rest.is_empty() {
                break;
            }
            match self.group(rest)? {
                FoundGroup::Whole(length) => position = bytes.len() - rest.len() + length,
                FoundGroup::Beginning => break,
                FoundGroup::Other(wrong) => return Ok(Some(wrong)),
            }
            self.cursor.end = base + position as u64;
        }
        let tidy = if self.cursor.end == 0 { 0 } else { self.cursor.end + 1 };
        // The length alone does not distinguish a NUL from a line end.
        self.cursor.clean = self.cursor.length == tidy && base + written as u64 == tidy;
        Ok(None)
    }

    /// Reads one group.
    fn group(&mut self, bytes: &[u8]) -> Result<FoundGroup, StoreError> {
        let session_id = self.cursor.session_id.clone();
        let expected =
            Expected { session: &session_id, at: self.cursor.next_record, first: self.cursor.next_event };
        let in_manifest = |mismatch| Ok(FoundGroup::Other(("manifest.jsonl".to_owned(), mismatch)));
        let (record, length) = match expected.segment(bytes) {
            Comparison::Whole(found) => found,
            Comparison::Beginning => return Ok(FoundGroup::Beginning),
            Comparison::Other(mismatch) => return in_manifest(mismatch),
        };
        // The segment was durable before the manifest referred to it. A different digest is therefore damage, even if the
        // group itself is incomplete.
        let events = match self.segment(&record)? {
            Ok(events) => events,
            Err(mismatch) => return Ok(FoundGroup::Other((record.segment_rel_path, mismatch))),
        };
        let records = group(&session_id, expected.at, record, &pins_of(&events));
        match expected.pins(&bytes[length..], &records[1..]) {
            Comparison::Beginning => Ok(FoundGroup::Beginning),
            Comparison::Other(mismatch) => in_manifest(mismatch),
            Comparison::Whole(pins) => {
                self.cursor.next_event =
                    events.last().map_or(expected.first, |event| event.event_index.next());
                self.cursor.next_record = ManifestIndex(expected.at.0 + records.len() as u64);
                self.events.extend(events);
                self.manifest.extend(records);
                Ok(FoundGroup::Whole(length + pins))
            }
        }
    }

    /// Reads the segment of a record.
    fn segment(&self, record: &SegmentRecord) -> Result<Result<Vec<Event>, Mismatch>, StoreError> {
        let path = DiskPath::parse(&format!("{}/{}", self.session, record.segment_rel_path))
            .expect("the path of a segment is made of numbers");
        let bytes = match disk::read(self.disk, &path, PLAN_BYTES as u64) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                let problem = "the manifest attests it, and it is not there";
                return Ok(Err(Mismatch::new(DamageReason::MissingAttestedSegment, problem)));
            }
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                return Ok(Err(Mismatch::new(DamageReason::DigestMismatch, error.to_string())));
            }
            Err(error) => return Err(StoreError::disk("read", &path)(error)),
        };
        Ok(decode_segment(&bytes, record))
    }
}

/// A group, or the file with the damage.
enum FoundGroup {
    Whole(usize),
    Beginning,
    Other((String, Mismatch)),
}
