//! What the events of a session refer to.

use canon::digest::Digest;
use guide::record::{Event, EventData, ManifestRecord, OutputPayload, SnapshotRef};
use ports::sessions::ObjectKind;

/// The objects that an event refers to.
pub fn references(event: &Event) -> Vec<(ObjectKind, Digest)> {
    match &event.data {
        EventData::RunStarted { workflow_hash, .. } => vec![(ObjectKind::Workflow, *workflow_hash)],
        EventData::NodeCreated { workflow_hash, snapshot_ref: SnapshotRef(snapshot), .. } => {
            vec![(ObjectKind::Workflow, *workflow_hash), (ObjectKind::Snapshot, *snapshot)]
        }
        EventData::NodeOutputAppended { payload: OutputPayload::ArtifactRef(artifact), .. }
            if artifact.content.is_none() =>
        {
            vec![(ObjectKind::Artifact, artifact.sha256)]
        }
        _ => Vec::new(),
    }
}

/// The snapshots that records pin.
pub fn pinned(records: &[ManifestRecord]) -> impl Iterator<Item = SnapshotRef> + '_ {
    records.iter().filter_map(|record| match record {
        ManifestRecord::SnapshotPinned(pin) => Some(pin.snapshot_ref),
        ManifestRecord::SegmentClosed(_) => None,
    })
}
