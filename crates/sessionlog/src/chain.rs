//! The chain: authenticates the log of a session with a key, so that an edit cannot be hidden by recomputing digests.
//!
//! `chain.jsonl` is next to the manifest. Each line has a MAC over the previous line and the manifest records of one
//! append. These records contain the digests of the events.
//!
//! ```text
//! {"v":1,"sessionId":"sess_…","key":"key_…","begunAt":0}\n
//! {"records":2,"mac":"<64 hex>"}\n
//! {"records":4,"mac":"<64 hex>"}        the line end is written after the manifest: the append is acknowledged
//! ```
//!
//! # State after a crash
//! A line is durable before the manifest's group is written. Its line end is written, without a sync, after that group is
//! durable. So the chain never covers less than the log. It may cover one append more, in a line without a line end, or
//! end with a partial line; the next append replaces either. Any other difference means that the files were changed.

use canon::encoding;
use guide::record::{EventIndex, ManifestRecord, SessionId};
use guide::token::Key;
use ports::sessions::{ChainBreak, ChainState};
use serde::{Deserialize, Serialize};

use crate::manifest;

const VERSION: u64 = 1;
/// Domain separation: starts every message, so that a MAC for another purpose cannot be used here.
const DOMAIN: &[u8] = b"interlock session chain v1\n";
/// Enough for the last four lines: an entry has at most 106 bytes.
pub const TAIL_BYTES: u64 = 512;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Header {
    v: u64,
    session_id: SessionId,
    /// The fingerprint of the key.
    key: String,
    /// The number of records in the manifest when the chain was started.
    begun_at: u64,
}

impl Header {
    fn new(session: &SessionId, key: &Key, begun_at: u64) -> Self {
        Self { v: VERSION, session_id: session.clone(), key: key.fingerprint(), begun_at }
    }

    fn encode(&self) -> String {
        serde_json::to_string(self).expect("four plain members always serialise")
    }
}

/// One line: it authenticates the first `records` records of the manifest.
struct Entry {
    records: u64,
    mac: [u8; 32],
}

impl Entry {
    fn encode(&self) -> String {
        format!("{{\"records\":{},\"mac\":\"{}\"}}", self.records, encoding::hex(&self.mac))
    }

    /// Parses a line. Only the canonical form is accepted.
    fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let (records, mac) =
            text.strip_prefix("{\"records\":")?.strip_suffix("\"}")?.split_once(",\"mac\":\"")?;
        let entry = Self { records: records.parse().ok()?, mac: encoding::from_hex(mac)? };
        (entry.encode() == text).then_some(entry)
    }
}

/// The MAC that precedes the first entry.
fn seed(key: &Key, header: &str) -> [u8; 32] {
    key.sign(&[DOMAIN, header.as_bytes()].concat())
}

/// The signed message for the records `from..to`, whose lines are `bytes`. Everything before `bytes` has a fixed length.
fn message(previous: &[u8; 32], (from, to): (u64, u64), bytes: &[u8]) -> Vec<u8> {
    [DOMAIN, previous, &from.to_be_bytes(), &to.to_be_bytes(), bytes].concat()
}

/// The chain of a new session with these records.
pub fn created(key: &Key, session: &SessionId, records: u64, manifest: &[u8]) -> Vec<u8> {
    begun(key, &Header::new(session, key, 0), records, manifest)
}

/// The chain of a session that was written without one: it covers all of its records.
pub fn begun_late(key: &Key, session: &SessionId, records: u64, manifest: &[u8]) -> Vec<u8> {
    begun(key, &Header::new(session, key, records), records, manifest)
}

fn begun(key: &Key, header: &Header, records: u64, manifest: &[u8]) -> Vec<u8> {
    let header = header.encode();
    let mac = key.sign(&message(&seed(key, &header), (0, records), manifest));
    format!("{header}\n{}\n", Entry { records, mac }.encode()).into_bytes()
}

/// The end of a chain, where the next line goes.
#[derive(Debug)]
pub struct End {
    mac: [u8; 32],
    /// The number of bytes to keep.
    pub keep: usize,
    pub is_acknowledged: bool,
}

impl End {
    /// The end of a chain with these last bytes, if it covers exactly `records` records, apart from the remains of a
    /// crash.
    pub fn of(bytes: &[u8], records: u64) -> Option<Self> {
        let bytes = written(bytes);
        let lines = bytes.iter().rposition(|byte| *byte == b'\n')? + 1;
        if let Some(entry) = Entry::parse(&bytes[lines..])
            && entry.records == records
        {
            return Some(Self { mac: entry.mac, keep: bytes.len(), is_acknowledged: false });
        }
        let last = bytes[..lines - 1].rsplit(|byte| *byte == b'\n').next()?;
        let entry = Entry::parse(last).filter(|entry| entry.records == records)?;
        Some(Self { mac: entry.mac, keep: lines, is_acknowledged: true })
    }

    /// The next line, without a line end: it covers the records `from..to`, whose lines are `group`.
    pub fn next_line(&self, key: &Key, (from, to): (u64, u64), group: &[u8]) -> String {
        let mac = key.sign(&message(&self.mac, (from, to), group));
        Entry { records: to, mac }.encode()
    }
}

/// Removes trailing NULs: space that was allocated but never written.
fn written(bytes: &[u8]) -> &[u8] {
    let nuls = bytes.iter().rev().take_while(|byte| **byte == 0).count();
    &bytes[..bytes.len() - nuls]
}

/// The part of a chain that covers at most `records` records, for copying a session that is being written.
pub fn chain_within(chain: &[u8], records: u64) -> &[u8] {
    let mut end = 0;
    for line in chain.split_inclusive(|byte| *byte == b'\n') {
        let entry = Entry::parse(line.strip_suffix(b"\n").unwrap_or(line));
        if entry.is_some_and(|entry| entry.records > records) {
            break;
        }
        end += line.len();
    }
    &chain[..end]
}

/// Verifies a chain against the manifest of a healthy log.
pub fn check(
    key: Option<&Key>,
    session: &SessionId,
    chain: &[u8],
    manifest: &[ManifestRecord],
) -> ChainState {
    match (Check { session, manifest }).run(key, chain) {
        Ok(begun_at) => ChainState::Intact { begun_at },
        Err((reason, problem)) => ChainState::Broken { reason, problem },
    }
}

struct Check<'c> {
    session: &'c SessionId,
    manifest: &'c [ManifestRecord],
}

type Broken = (ChainBreak, String);

impl Check<'_> {
    /// Verifies the chain. Returns the first event that it covers.
    fn run(&self, key: Option<&Key>, chain: &[u8]) -> Result<EventIndex, Broken> {
        let invalid = |problem: &str| (ChainBreak::Invalid, problem.to_owned());
        let chain = written(chain);
        let mut lines = chain.split_inclusive(|byte| *byte == b'\n').peekable();
        let first = lines.next().and_then(|line| line.strip_suffix(b"\n"));
        let first = first.and_then(|line| std::str::from_utf8(line).ok());
        let header = first.ok_or_else(|| invalid("the first line is missing"))?;
        let parsed: Header =
            serde_json::from_str(header).map_err(|_| invalid("the first line is not a header"))?;
        if parsed.v != VERSION || parsed.session_id != *self.session || parsed.encode() != header {
            return Err(invalid("the first line is not the header of this session"));
        }
        let key = key.ok_or_else(|| {
            let problem = "`keys/integrity.json` is missing, so nothing can be authenticated";
            (ChainBreak::KeyMissing, problem.to_owned())
        })?;
        if parsed.key != key.fingerprint() {
            let problem = format!(
                "it was made with the key {}; this installation has {}",
                parsed.key,
                key.fingerprint()
            );
            return Err((ChainBreak::OtherKey, problem));
        }
        let total = self.manifest.len() as u64;
        let mut covered = 0;
        let mut mac = seed(key, header);
        while let Some(line) = lines.next() {
            let is_last = lines.peek().is_none();
            let (text, is_acknowledged) = match line.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (line, false),
            };
            let Some(entry) = Entry::parse(text) else {
                // The machine stopped while it wrote this line.
                if is_last && !is_acknowledged {
                    break;
                }
                return Err(invalid("a line is not an entry"));
            };
            if entry.records <= covered {
                return Err(invalid("an entry covers nothing"));
            }
            if entry.records > total {
                // The line covers one append more than the log has. That append was never acknowledged.
                if is_last && !is_acknowledged && covered == total {
                    break;
                }
                let problem = format!(
                    "the chain covers {} records of acknowledged steps, and the manifest has {total}: {}",
                    last_records(chain),
                    "steps were removed from the end of the log"
                );
                return Err((ChainBreak::LogTruncated, problem));
            }
            let records = self.records(covered, entry.records);
            let bytes = manifest::encode(records);
            if !key.verifies(&message(&mac, (covered, entry.records), &bytes), &entry.mac) {
                let problem = format!("{} are not what was recorded", events_of(records));
                return Err((ChainBreak::Mismatch, problem));
            }
            mac = entry.mac;
            covered = entry.records;
        }
        if covered < total {
            let problem =
                format!("{} are in the log and not in the chain", events_of(self.records(covered, total)));
            return Err((ChainBreak::Incomplete, problem));
        }
        let there = self.records(0, parsed.begun_at.min(total));
        Ok(segments(there).last().map_or(EventIndex::FIRST, |(_, last)| last.next()))
    }

    fn records(&self, from: u64, to: u64) -> &[ManifestRecord] {
        let position = |index: u64| usize::try_from(index).unwrap_or(usize::MAX).min(self.manifest.len());
        &self.manifest[position(from)..position(to)]
    }
}

/// The number of records that the last complete line covers.
fn last_records(chain: &[u8]) -> u64 {
    let mut lines = chain.split_inclusive(|byte| *byte == b'\n').rev();
    lines.find_map(|line| line.strip_suffix(b"\n").and_then(Entry::parse)).map_or(0, |entry| entry.records)
}

fn segments(records: &[ManifestRecord]) -> impl Iterator<Item = (EventIndex, EventIndex)> + '_ {
    records.iter().filter_map(|record| match record {
        ManifestRecord::SegmentClosed(segment) => Some((segment.first_event_index, segment.last_event_index)),
        ManifestRecord::SnapshotPinned(_) => None,
    })
}

fn events_of(records: &[ManifestRecord]) -> String {
    let first = segments(records).next().map_or(0, |(first, _)| first.0);
    let last = segments(records).last().map_or(0, |(_, last)| last.0);
    format!("events {first} to {last}")
}
