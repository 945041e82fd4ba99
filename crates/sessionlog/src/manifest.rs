//! The byte format of the manifest.
//!
//! A manifest is a sequence of groups, one for each append: a `segment_closed` record, then one `snapshot_pinned` record
//! for each node in that segment, in the order of the events. Every record is on its own line. Each record has exactly
//! one encoding, so the bytes of a group are determined by three numbers, a digest and the segment. A reader can
//! therefore distinguish an interrupted append, whose bytes are the prefix of a possible group, from damage.

use canon::digest::Digest;
use guide::plan::{Pin, unfinished_advance};
use guide::record::budgets::{PLAN_BYTES, PLAN_EVENTS};
use guide::record::{
    DecodeError, Event, EventIndex, MANIFEST_VERSION, ManifestIndex, ManifestRecord, PinRecord,
    SegmentRecord, SessionId, segment_rel_path,
};

use ports::sessions::{Damage, DamageReason, SessionHealth};

/// The maximum size of a manifest, in bytes: several hundred thousand appends.
pub const MANIFEST_BYTES: u64 = 64 << 20;

/// The records of one append.
pub fn group(
    session: &SessionId,
    at: ManifestIndex,
    segment: SegmentRecord,
    pins: &[Pin],
) -> Vec<ManifestRecord> {
    let mut index = at;
    let mut records = Vec::with_capacity(pins.len() + 1);
    records.push(ManifestRecord::SegmentClosed(segment));
    for pin in pins {
        index = index.next();
        records.push(ManifestRecord::SnapshotPinned(PinRecord {
            v: MANIFEST_VERSION,
            manifest_index: index,
            session_id: session.clone(),
            event_index: pin.event_index,
            snapshot_ref: pin.snapshot_ref,
            created_by_event_id: pin.event_id.clone(),
        }));
    }
    records
}

pub fn segment_record(
    session: &SessionId,
    at: ManifestIndex,
    (first, last): (EventIndex, EventIndex),
    bytes: &[u8],
) -> SegmentRecord {
    SegmentRecord {
        v: MANIFEST_VERSION,
        manifest_index: at,
        session_id: session.clone(),
        first_event_index: first,
        last_event_index: last,
        segment_rel_path: segment_rel_path(first, last),
        sha256: Digest::of_bytes(bytes),
        bytes: bytes.len() as u64,
    }
}

/// Encodes records, one per line.
pub fn encode(records: &[ManifestRecord]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(records.len() * 320);
    for record in records {
        bytes.extend_from_slice(&record.encode());
        bytes.push(b'\n');
    }
    bytes
}

/// The result of comparing bytes with an expectation.
#[derive(Debug)]
pub enum Comparison<T> {
    /// The expected bytes.
    Whole(T),
    /// A prefix of the expected bytes, followed by the end of the file.
    Beginning,
    /// Different bytes.
    Other(Mismatch),
}

/// Why bytes differ from the expectation.
#[derive(Debug)]
pub struct Mismatch {
    pub reason: DamageReason,
    pub problem: String,
    pub version: Option<u64>,
}

impl Mismatch {
    pub fn new(reason: DamageReason, problem: impl Into<String>) -> Self {
        Self { reason, problem: problem.into(), version: None }
    }

    /// The health of a session whose events from `valid_until` on are affected.
    pub fn health(self, file: String, valid_until: EventIndex) -> SessionHealth {
        let damage = Damage { reason: self.reason, file, problem: self.problem };
        match self.version {
            Some(version) => SessionHealth::UnknownVersion { damage, version, valid_until },
            None if valid_until == EventIndex::FIRST => SessionHealth::CorruptHead { damage },
            None => SessionHealth::CorruptTail { damage, valid_until },
        }
    }

    /// Converts from a decoding error of a record or an event.
    pub fn of_decoding(error: &DecodeError) -> Self {
        match error {
            // A missing version is decoded as 0. That is damage, not a newer version.
            DecodeError::UnknownVersion { version, known } if *version > u64::from(*known) => Self {
                reason: DamageReason::UnknownSchemaVersion,
                problem: error.to_string(),
                version: Some(*version),
            },
            _ => Self::new(DamageReason::SchemaValidationFailed, error.to_string()),
        }
    }
}

/// The expected continuation of a manifest.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'m> {
    pub session: &'m SessionId,
    pub at: ManifestIndex,
    pub first: EventIndex,
}

impl Expected<'_> {
    /// Parses the `segment_closed` record at the start of `bytes`, which extend to the end of the file without trailing
    /// NULs.
    pub fn segment(&self, bytes: &[u8]) -> Comparison<(SegmentRecord, usize)> {
        let mut reader = Reader { bytes, position: 0 };
        match self.read_segment(&mut reader) {
            Ok(record) => Comparison::Whole((record, reader.position)),
            Err(Stop::End) => Comparison::Beginning,
            Err(Stop::Other) => Comparison::Other(self.explain(line_at(bytes), false)),
        }
    }

    fn read_segment(&self, reader: &mut Reader<'_>) -> Result<SegmentRecord, Stop> {
        reader.literal(&format!(
            "{{\"kind\":\"segment_closed\",\"v\":{MANIFEST_VERSION},\"manifestIndex\":{},\"sessionId\":\"{}\",\"firstEventIndex\":{},\"lastEventIndex\":",
            self.at.0,
            self.session.as_str(),
            self.first.0,
        ))?;
        let last = EventIndex(reader.number()?);
        if last < self.first || last.0 - self.first.0 >= PLAN_EVENTS as u64 {
            return Err(Stop::Other);
        }
        let segment_rel_path = segment_rel_path(self.first, last);
        reader.literal(&format!(
            ",\"segmentRelPath\":\"{segment_rel_path}\",\"sha256\":\"{}",
            Digest::PREFIX
        ))?;
        let sha256 = reader.digest()?;
        reader.literal("\",\"bytes\":")?;
        let bytes = reader.number()?;
        if bytes > PLAN_BYTES as u64 {
            return Err(Stop::Other);
        }
        reader.literal("}")?;
        Ok(SegmentRecord {
            v: MANIFEST_VERSION,
            manifest_index: self.at,
            session_id: self.session.clone(),
            first_event_index: self.first,
            last_event_index: last,
            segment_rel_path,
            sha256,
            bytes,
        })
    }

    /// Compares the pins after a segment's record with those that its events require. `bytes` start after the record.
    /// Returns the number of bytes that belong to the group.
    pub fn pins(&self, bytes: &[u8], records: &[ManifestRecord]) -> Comparison<usize> {
        let mut position = 0;
        for (offset, record) in (1_u64..).zip(records) {
            let mut line = vec![b'\n'];
            line.extend_from_slice(&record.encode());
            let rest = &bytes[position..];
            if !rest.starts_with(&line) {
                if line.starts_with(rest) {
                    return Comparison::Beginning;
                }
                let here = Expected { at: ManifestIndex(self.at.0 + offset), ..*self };
                let found = rest.strip_prefix(b"\n").map_or(rest, line_at);
                return Comparison::Other(here.explain(found, true));
            }
            position += line.len();
        }
        Comparison::Whole(position)
    }

    /// Describes why a line is not the expected record.
    fn explain(&self, line: &[u8], pin: bool) -> Mismatch {
        let record = match ManifestRecord::decode(line) {
            Err(error) => return Mismatch::of_decoding(&error),
            Ok(record) => record,
        };
        let found = record.manifest_index();
        if found != self.at {
            return Mismatch::new(
                DamageReason::NonContiguousIndices,
                format!("expected record {}, found record {}", self.at.0, found.0),
            );
        }
        match &record {
            ManifestRecord::SegmentClosed(_) if pin => Mismatch::new(
                DamageReason::MissingSnapshotPin,
                format!("record {} should pin the snapshot of a node", found.0),
            ),
            ManifestRecord::SegmentClosed(segment) if segment.first_event_index != self.first => {
                Mismatch::new(
                    DamageReason::NonContiguousIndices,
                    format!("expected event {}, found event {}", self.first.0, segment.first_event_index.0),
                )
            }
            _ => Mismatch::new(
                DamageReason::SchemaValidationFailed,
                format!("record {} is not the one that the log requires", found.0),
            ),
        }
    }
}

/// The events of a segment, if its bytes are those that the record attests.
///
/// # Errors
/// Why the bytes are not the segment.
pub fn decode_segment(bytes: &[u8], record: &SegmentRecord) -> Result<Vec<Event>, Mismatch> {
    if bytes.len() as u64 != record.bytes || Digest::of_bytes(bytes) != record.sha256 {
        let problem = format!("its {} bytes are not the {} that were attested", bytes.len(), record.bytes);
        return Err(Mismatch::new(DamageReason::DigestMismatch, problem));
    }
    decode(bytes, record)
}

/// Decodes the events of a segment whose digest was verified.
fn decode(bytes: &[u8], record: &SegmentRecord) -> Result<Vec<Event>, Mismatch> {
    let mut events = Vec::new();
    let mut next = record.first_event_index;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").ok_or_else(|| {
            Mismatch::new(DamageReason::SchemaValidationFailed, "the last event has no line end")
        })?;
        let event = Event::decode(line).map_err(|error| Mismatch::of_decoding(&error))?;
        if event.event_index != next {
            let problem = format!("expected event {}, found event {}", next.0, event.event_index.0);
            return Err(Mismatch::new(DamageReason::NonContiguousIndices, problem));
        }
        if event.session_id != record.session_id {
            let problem = format!("event {} belongs to another session", next.0);
            return Err(Mismatch::new(DamageReason::SchemaValidationFailed, problem));
        }
        next = next.next();
        events.push(event);
    }
    if next != record.last_event_index.next() {
        let problem = format!("it ends before event {}", next.0);
        return Err(Mismatch::new(DamageReason::NonContiguousIndices, problem));
    }
    // No program writes these bytes: a session continued from them would wait for a node forever.
    if let Some(unfinished) = unfinished_advance(&events) {
        return Err(Mismatch::new(DamageReason::UnfinishedAdvance, unfinished.to_string()));
    }
    Ok(events)
}

/// The bytes up to the end of the line.
fn line_at(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == b'\n').next().unwrap_or_default()
}

enum Stop {
    /// The bytes ended, and matched up to there.
    End,
    /// A byte differs.
    Other,
}

struct Reader<'b> {
    bytes: &'b [u8],
    position: usize,
}

impl Reader<'_> {
    fn literal(&mut self, text: &str) -> Result<(), Stop> {
        let rest = &self.bytes[self.position..];
        if rest.starts_with(text.as_bytes()) {
            self.position += text.len();
            Ok(())
        } else if text.as_bytes().starts_with(rest) {
            Err(Stop::End)
        } else {
            Err(Stop::Other)
        }
    }

    fn number(&mut self) -> Result<u64, Stop> {
        let rest = &self.bytes[self.position..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == rest.len() && digits <= 20 {
            return Err(Stop::End);
        }
        let text = std::str::from_utf8(&rest[..digits]).map_err(|_| Stop::Other)?;
        if digits > 1 && text.starts_with('0') {
            return Err(Stop::Other);
        }
        let number = text.parse().map_err(|_| Stop::Other)?;
        self.position += digits;
        Ok(number)
    }

    fn digest(&mut self) -> Result<Digest, Stop> {
        let rest = &self.bytes[self.position..];
        let digits = &rest[..rest.len().min(64)];
        if !digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(Stop::Other);
        }
        if digits.len() < 64 {
            return Err(Stop::End);
        }
        let text = std::str::from_utf8(digits).map_err(|_| Stop::Other)?;
        self.position += 64;
        Digest::parse(&format!("{}{text}", Digest::PREFIX)).map_err(|_| Stop::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beginning_of_a_record_is_recognised_and_every_other_byte_is_not() {
        let session = SessionId::derived(&["manifest"]);
        let segment = segment_record(&session, ManifestIndex(7), (EventIndex(12), EventIndex(15)), b"bytes");
        let bytes = ManifestRecord::SegmentClosed(segment.clone()).encode();
        let expected = Expected { session: &session, at: ManifestIndex(7), first: EventIndex(12) };
        assert!(matches!(expected.segment(&bytes), Comparison::Whole((found, length))
            if found == segment && length == bytes.len()));
        for end in 0..bytes.len() {
            assert!(matches!(expected.segment(&bytes[..end]), Comparison::Beginning), "cut at {end}");
        }
        for position in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[position] ^= 0x80;
            assert!(matches!(expected.segment(&flipped), Comparison::Other(_)), "flipped at {position}");
        }
    }
}
