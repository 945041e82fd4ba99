//! The rules for the decoded content of a bundle.

use std::collections::{BTreeMap, BTreeSet};

use canon::digest::Digest;

use super::integrity::{self, IntegrityEntry};
use super::{
    BUNDLE_EVENTS, BUNDLE_OBJECTS, BUNDLE_RECORDS, BUNDLE_TEXT_BYTES, BUNDLE_WORKFLOWS, BundleError,
    BundledSession, Producer,
};
use crate::plan::unfinished_advance;
use crate::record::{
    ArtifactRef, Event, EventData, EventIndex, ManifestRecord, OutputPayload, PinRecord, SegmentRecord,
    SnapshotRef, WorkflowHash, segment_rel_path,
};
use crate::state::SessionState;

/// The number of items of each kind.
pub(super) struct Counts {
    pub(super) events: usize,
    pub(super) records: usize,
    pub(super) snapshots: usize,
    pub(super) workflows: usize,
    pub(super) artifacts: usize,
}

impl Counts {
    pub(super) fn check(&self, producer: &Producer, exported_at: &str) -> Result<(), BundleError> {
        for (what, measured, maximum) in [
            ("events", self.events, BUNDLE_EVENTS),
            ("manifest records", self.records, BUNDLE_RECORDS),
            ("snapshots", self.snapshots, BUNDLE_OBJECTS),
            ("compiled workflows", self.workflows, BUNDLE_WORKFLOWS),
            ("artifacts", self.artifacts, BUNDLE_OBJECTS),
            ("bytes in `exportedAt`", exported_at.len(), BUNDLE_TEXT_BYTES),
            ("bytes in `producer/appVersion`", producer.app_version.len(), BUNDLE_TEXT_BYTES),
        ] {
            if measured > maximum {
                return Err(BundleError::TooLarge { what, measured, maximum });
            }
        }
        Ok(())
    }
}

pub(super) fn counts(
    session: &BundledSession,
    producer: &Producer,
    exported_at: &str,
) -> Result<(), BundleError> {
    let counts = Counts {
        events: session.events.len(),
        records: session.manifest.len(),
        snapshots: session.snapshots.len(),
        workflows: session.pinned_workflows.len(),
        artifacts: session.artifacts.len(),
    };
    counts.check(producer, exported_at)
}

/// The objects that the events of a session refer to.
pub(super) struct Needs<'a> {
    pub(super) snapshots: BTreeSet<SnapshotRef>,
    pub(super) workflows: BTreeSet<WorkflowHash>,
    /// Artifacts whose content is not stored in their events.
    pub(super) artifacts: BTreeMap<Digest, &'a ArtifactRef>,
}

impl<'a> Needs<'a> {
    pub(super) fn of(events: &'a [Event]) -> Self {
        let mut needs =
            Self { snapshots: BTreeSet::new(), workflows: BTreeSet::new(), artifacts: BTreeMap::new() };
        for event in events {
            match &event.data {
                EventData::RunStarted { workflow_hash, .. } => {
                    needs.workflows.insert(*workflow_hash);
                }
                EventData::NodeCreated { snapshot_ref, .. } => {
                    needs.snapshots.insert(*snapshot_ref);
                }
                EventData::NodeOutputAppended { payload: OutputPayload::ArtifactRef(artifact), .. }
                    if artifact.content.is_none() =>
                {
                    needs.artifacts.insert(artifact.sha256, artifact);
                }
                _ => {}
            }
        }
        needs
    }
}

/// Every object has the digest that it is stored under: both as it is in the bundle, by its integrity entry,
/// and as this program would write it again.
pub(super) fn content_addresses(
    session: &BundledSession,
    entries: &[IntegrityEntry],
) -> Result<(), BundleError> {
    let attested: BTreeMap<&str, &IntegrityEntry> =
        entries.iter().map(|entry| (entry.path.as_str(), entry)).collect();
    let addressed = |path: String, key: Digest, rewritten: Option<Digest>| {
        let is_attested = attested.get(path.as_str()).is_some_and(|entry| entry.sha256 == key);
        if is_attested && rewritten.is_none_or(|digest| digest == key) {
            return Ok(());
        }
        Err(BundleError::Integrity { path, problem: "does not match the digest it is stored under" })
    };
    // The raw value has a canonical form, otherwise it would have no entry. So does the decoded one.
    for (key, snapshot) in &session.snapshots {
        addressed(integrity::snapshot_path(key), key.0, Some(snapshot.snapshot_ref().0))?;
    }
    for (key, workflow) in &session.pinned_workflows {
        addressed(integrity::workflow_path(key), *key, Some(workflow.hash()))?;
    }
    for key in session.artifacts.keys() {
        addressed(integrity::artifact_path(key), *key, None)?;
    }
    let needs = Needs::of(&session.events);
    for (key, artifact) in needs.artifacts {
        let path = integrity::artifact_path(key);
        match attested.get(path.as_str()) {
            None => return Err(BundleError::Integrity { path, problem: "is required but missing" }),
            Some(entry) if entry.bytes != artifact.byte_length => {
                return Err(BundleError::Integrity {
                    path,
                    problem: "does not have the length in its event",
                });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Checks the events, the manifest and the objects that they need.
pub(super) fn session(session: &BundledSession) -> Result<(), BundleError> {
    events(session)?;
    manifest(session)?;
    for event in &session.events {
        match &event.data {
            EventData::RunStarted { workflow_hash, .. }
                if !session.pinned_workflows.contains_key(workflow_hash) =>
            {
                return Err(BundleError::MissingPinnedWorkflow {
                    workflow: *workflow_hash,
                    index: event.event_index.0,
                });
            }
            EventData::NodeCreated { snapshot_ref, .. } if !session.snapshots.contains_key(snapshot_ref) => {
                return Err(BundleError::MissingSnapshot {
                    snapshot: *snapshot_ref,
                    index: event.event_index.0,
                });
            }
            EventData::NodeOutputAppended { payload: OutputPayload::ArtifactRef(artifact), .. } => {
                inline_artifact(event.event_index, artifact)?;
            }
            _ => {}
        }
    }
    unneeded(session)
}

/// Checks the digest and the length of an artifact that is stored in its event.
fn inline_artifact(index: EventIndex, artifact: &ArtifactRef) -> Result<(), BundleError> {
    let Some(content) = &artifact.content else { return Ok(()) };
    let path = format!("session/events/{}/data/payload/content", index.0);
    match canon::canonical::to_vec(content) {
        Ok(bytes)
            if Digest::of_bytes(&bytes) == artifact.sha256 && bytes.len() as u64 == artifact.byte_length =>
        {
            Ok(())
        }
        Ok(_) => Err(BundleError::Integrity { path, problem: "does not match its digest or length" }),
        Err(cause) => Err(BundleError::NotCanonical { path, cause: cause.to_string() }),
    }
}

fn unneeded(session: &BundledSession) -> Result<(), BundleError> {
    let needs = Needs::of(&session.events);
    let snapshot = session.snapshots.keys().find(|key| !needs.snapshots.contains(key));
    let workflow = session.pinned_workflows.keys().find(|key| !needs.workflows.contains(key));
    let artifact = session.artifacts.keys().find(|key| !needs.artifacts.contains_key(key));
    let path = snapshot
        .map(integrity::snapshot_path)
        .or_else(|| workflow.map(integrity::workflow_path))
        .or_else(|| artifact.map(integrity::artifact_path));
    path.map_or(Ok(()), |path| Err(BundleError::Unneeded { path }))
}

/// The events are the complete history of the session: the engine's own state accepts each of them.
fn events(session: &BundledSession) -> Result<(), BundleError> {
    if session.events.is_empty() {
        return Err(BundleError::NoEvents);
    }
    let mut state = SessionState::new(session.session_id.clone());
    for (index, event) in session.events.iter().enumerate() {
        state.apply(event).map_err(|cause| BundleError::EventOrder { index, cause: Box::new(cause) })?;
    }
    Ok(())
}

/// The manifest attests exactly the events, and pins the snapshots of a segment before the next one.
fn manifest(session: &BundledSession) -> Result<(), BundleError> {
    let mut reader =
        ManifestReader { next: EventIndex::FIRST, unpinned: BTreeSet::new(), pinned: BTreeSet::new() };
    for (index, record) in session.manifest.iter().enumerate() {
        let broken = |rule| BundleError::ManifestOrder { index, rule };
        if record.manifest_index().0 != index as u64 {
            return Err(broken("indexes must be dense and start at 0"));
        }
        if *record.session_id() != session.session_id {
            return Err(broken("it belongs to a different session"));
        }
        match record {
            ManifestRecord::SegmentClosed(segment) => {
                let append = reader.segment(segment, &session.events).map_err(broken)?;
                if let Some(cause) = unfinished_advance(append) {
                    return Err(BundleError::UnfinishedAdvance { cause });
                }
            }
            ManifestRecord::SnapshotPinned(pin) => reader.pin(pin, &session.events).map_err(broken)?,
        }
    }
    let broken = |rule| Err(BundleError::ManifestOrder { index: session.manifest.len(), rule });
    if reader.next.0 != session.events.len() as u64 {
        return broken("the segments do not cover all events");
    }
    if !reader.unpinned.is_empty() {
        return broken("a snapshot of the last segment is not pinned");
    }
    Ok(())
}

struct ManifestReader {
    /// The first event that is not covered by a segment yet.
    next: EventIndex,
    /// Snapshots that must be pinned before the next segment.
    unpinned: BTreeSet<SnapshotRef>,
    pinned: BTreeSet<SnapshotRef>,
}

impl ManifestReader {
    /// Adds a segment and returns its events.
    fn segment<'e>(
        &mut self,
        segment: &SegmentRecord,
        events: &'e [Event],
    ) -> Result<&'e [Event], &'static str> {
        if !self.unpinned.is_empty() {
            return Err("a snapshot of the previous segment is not pinned");
        }
        let (first, last) = (segment.first_event_index, segment.last_event_index);
        if first != self.next || last < first {
            return Err("segments must be adjacent and contain at least one event");
        }
        if last.0 >= events.len() as u64 {
            return Err("a segment covers events that are missing");
        }
        if segment.segment_rel_path != segment_rel_path(first, last) {
            return Err("the path of a segment must be derived from its indexes");
        }
        self.next = last.next();
        // Both indexes are less than the number of events, which is a `usize`.
        let position = |index: EventIndex| usize::try_from(index.0).unwrap_or(usize::MAX);
        let covered = &events[position(first)..=position(last)];
        for event in covered {
            if let EventData::NodeCreated { snapshot_ref, .. } = event.data
                && !self.pinned.contains(&snapshot_ref)
            {
                self.unpinned.insert(snapshot_ref);
            }
        }
        Ok(covered)
    }

    fn pin(&mut self, pin: &PinRecord, events: &[Event]) -> Result<(), &'static str> {
        if pin.event_index >= self.next {
            return Err("a pin must follow the segment of its event");
        }
        let event = usize::try_from(pin.event_index.0).ok().and_then(|index| events.get(index));
        let introduces = event.is_some_and(|event| {
            event.event_id == pin.created_by_event_id
                && matches!(event.data, EventData::NodeCreated { snapshot_ref, .. } if snapshot_ref == pin.snapshot_ref)
        });
        if !introduces {
            return Err("a pin must name the event that introduced its snapshot");
        }
        self.unpinned.remove(&pin.snapshot_ref);
        self.pinned.insert(pin.snapshot_ref);
        Ok(())
    }
}
