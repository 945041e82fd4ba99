//! The manifest: the segments that belong to a session, and the snapshots that they need.

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
    /// A segment belongs to the session.
    SegmentClosed(SegmentRecord),
    /// A snapshot must be kept.
    SnapshotPinned(PinRecord),
}

/// The digest and range of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SegmentRecord {
    pub v: u8,
    /// The index in the manifest.
    pub manifest_index: ManifestIndex,
    pub session_id: SessionId,
    /// The index of the first event.
    pub first_event_index: EventIndex,
    /// The index of the last event.
    pub last_event_index: EventIndex,
    /// The path of the segment, relative to the session's directory.
    pub segment_rel_path: String,
    /// The digest of the segment's bytes.
    #[schemars(with = "String")]
    pub sha256: Digest,
    /// The size of the segment.
    pub bytes: u64,
}

/// A pinned snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PinRecord {
    pub v: u8,
    /// The index in the manifest.
    pub manifest_index: ManifestIndex,
    pub session_id: SessionId,
    /// The event that introduced the snapshot.
    pub event_index: EventIndex,
    pub snapshot_ref: SnapshotRef,
    /// The id of that event.
    pub created_by_event_id: EventId,
}

impl ManifestRecord {
    /// Decodes one line of a manifest.
    ///
    /// # Errors
    /// The line is not a complete record of a known version.
    pub fn decode(line: &[u8]) -> Result<Self, DecodeError> {
        let value = canon::json::read(line, &canon::json::Limits::default())
            .map_err(|cause| DecodeError::Json { cause })?;
        Self::from_value(value)
    }

    /// Decodes a record from a JSON value, as in a bundle.
    ///
    /// # Errors
    /// The errors of [`ManifestRecord::decode`].
    pub fn from_value(value: Value) -> Result<Self, DecodeError> {
        let version = value.get("v").and_then(Value::as_u64).unwrap_or_default();
        if version != u64::from(MANIFEST_VERSION) {
            return Err(DecodeError::UnknownVersion { version, known: MANIFEST_VERSION });
        }
        serde_json::from_value(value).map_err(|cause| DecodeError::Shape { cause })
    }

    /// The line of a manifest, without its line end.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a manifest record is plain data, which always serialises")
    }

    pub const fn manifest_index(&self) -> ManifestIndex {
        match self {
            Self::SegmentClosed(record) => record.manifest_index,
            Self::SnapshotPinned(record) => record.manifest_index,
        }
    }

    pub const fn session_id(&self) -> &SessionId {
        match self {
            Self::SegmentClosed(record) => &record.session_id,
            Self::SnapshotPinned(record) => &record.session_id,
        }
    }
}

/// The path of the segment with these events, relative to the session's directory.
pub fn segment_rel_path(first: EventIndex, last: EventIndex) -> String {
    format!("events/{:08}-{:08}.jsonl", first.0, last.0)
}
