//! The control stream: which segments count, and which snapshots they need.

use canon::digest::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DecodeError, EventId, EventIndex, ManifestIndex, SessionId, SnapshotRef};

/// The version of the manifest format.
pub const MANIFEST_VERSION: u8 = 1;

/// One record of a session's manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ManifestRecord {
    /// A segment is part of the truth.
    SegmentClosed(SegmentRecord),
    /// A snapshot must be kept.
    SnapshotPinned(PinRecord),
}

/// Attests a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SegmentRecord {
    /// The version of the record.
    pub v: u8,
    /// Its position in the manifest.
    pub manifest_index: ManifestIndex,
    /// The session.
    pub session_id: SessionId,
    /// The first event of the segment.
    pub first_event_index: EventIndex,
    /// The last one.
    pub last_event_index: EventIndex,
    /// Where the segment is, relative to the session.
    pub segment_rel_path: String,
    /// The digest of the segment's bytes.
    #[schemars(with = "String")]
    pub sha256: Digest,
    /// How many bytes it has.
    pub bytes: u64,
}

/// Pins a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PinRecord {
    /// The version of the record.
    pub v: u8,
    /// Its position in the manifest.
    pub manifest_index: ManifestIndex,
    /// The session.
    pub session_id: SessionId,
    /// The event that introduced the snapshot.
    pub event_index: EventIndex,
    /// The snapshot.
    pub snapshot_ref: SnapshotRef,
    /// The same event, by its id.
    pub created_by_event_id: EventId,
}

impl ManifestRecord {
    /// Reads one line of a manifest.
    ///
    /// # Errors
    /// Anything but a whole record of a known version.
    pub fn decode(line: &[u8]) -> Result<Self, DecodeError> {
        let value = canon::json::read(line, &canon::json::Limits::default())
            .map_err(|cause| DecodeError::Json { cause })?;
        Self::from_value(value)
    }

    /// Reads a record that is JSON already, as in a bundle.
    ///
    /// # Errors
    /// As [`ManifestRecord::decode`].
    pub fn from_value(value: Value) -> Result<Self, DecodeError> {
        let version = value.get("v").and_then(Value::as_u64).unwrap_or_default();
        if version != u64::from(MANIFEST_VERSION) {
            return Err(DecodeError::UnknownVersion { version, known: MANIFEST_VERSION });
        }
        serde_json::from_value(value).map_err(|cause| DecodeError::Shape { cause })
    }

    /// The line of a manifest, without its end.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a manifest record is plain data, which always serialises")
    }

    /// Its position.
    pub const fn manifest_index(&self) -> ManifestIndex {
        match self {
            Self::SegmentClosed(record) => record.manifest_index,
            Self::SnapshotPinned(record) => record.manifest_index,
        }
    }

    /// The session it belongs to.
    pub const fn session_id(&self) -> &SessionId {
        match self {
            Self::SegmentClosed(record) => &record.session_id,
            Self::SnapshotPinned(record) => &record.session_id,
        }
    }
}

/// Where the segment of these events is, relative to the session.
pub fn segment_rel_path(first: EventIndex, last: EventIndex) -> String {
    format!("events/{:08}-{:08}.jsonl", first.0, last.0)
}
