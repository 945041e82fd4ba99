//! The plan of importing a bundle.
//!
//! An import never merges. If no session has the same id, the events are stored [unchanged](as_is); otherwise
//! they become a [new session](as_new). The new session differs in exactly three things: its id, the ids of
//! its events (derived from the session and the index) wherever they are referenced, and the session id
//! inside dedupe keys. Runs, nodes, attempts and outputs keep their ids: they are unique only within a
//! session, and snapshots contain some of them. So every snapshot keeps its digest and every projection its
//! value.

use std::collections::{BTreeMap, BTreeSet};

use canon::digest::Digest;
use serde_json::Value;

use super::{Bundle, BundleError, BundledSession, Salvaged};
use crate::derive;
use crate::record::{
    DedupeKey, Event, EventData, EventId, EventIndex, EvidenceRef, ExecutionSnapshot, ManifestRecord,
    SessionId, SnapshotRef, WorkflowHash, budgets,
};
use crate::workflow::compiled::CompiledWorkflow;

/// What an import stores: first the content-addressed objects, then the segments in order.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportPlan {
    pub session_id: SessionId,
    pub exported_session_id: SessionId,
    /// Why the bundle contains only a part of a session, if so.
    pub salvaged: Option<Salvaged>,
    /// The appends, in order, with the same boundaries as in the exported session.
    pub segments: Vec<ImportSegment>,
    /// The complete snapshots.
    pub snapshots: BTreeMap<SnapshotRef, ExecutionSnapshot>,
    pub pinned_workflows: BTreeMap<WorkflowHash, CompiledWorkflow>,
    /// The artifacts whose content is not stored in their events.
    pub artifacts: BTreeMap<Digest, Value>,
}

/// One append.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportSegment {
    pub events: Vec<Event>,
    /// The snapshots to pin after the append, each with the event that introduced it.
    pub pins: Vec<(EventIndex, EventId, SnapshotRef)>,
}

/// The plan that keeps the session id, for a bundle that [may keep it](Bundle::keeps_its_id).
///
/// # Errors
/// A segment exceeds the limits of an append.
pub fn as_is(bundle: Bundle) -> Result<ImportPlan, BundleError> {
    let Bundle { session, salvaged, .. } = bundle;
    let session_id = session.session_id.clone();
    plan(session, session_id, salvaged)
}

/// The plan that stores the session under the id `new`, because its own id is already used.
///
/// # Errors
/// A segment exceeds the limits of an append, or a dedupe key would become too long or a duplicate. Ids that
/// this program generates never cause the latter.
pub fn as_new(bundle: Bundle, new: &SessionId) -> Result<ImportPlan, BundleError> {
    let Bundle { mut session, salvaged, .. } = bundle;
    let exported = std::mem::replace(&mut session.session_id, new.clone());
    let renamed: BTreeMap<EventId, EventId> = session
        .events
        .iter()
        .map(|event| (event.event_id.clone(), derive::event_id(new, event.event_index)))
        .collect();
    let rename = |id: &mut EventId| {
        if let Some(to) = renamed.get(id) {
            id.clone_from(to);
        }
    };
    let mut keys = BTreeSet::new();
    for event in &mut session.events {
        let refused = BundleError::DedupeKey { index: event.event_index.0 };
        event.session_id = new.clone();
        rename(&mut event.event_id);
        match dedupe_key(&event.dedupe_key, &exported, new) {
            Some(key) if keys.insert(key.clone()) => event.dedupe_key = key,
            _ => return Err(refused),
        }
        match &mut event.data {
            EventData::EdgeCreated { cause, .. } => rename(&mut cause.event_id),
            EventData::GapRecorded { evidence_refs, .. } => {
                for evidence in evidence_refs {
                    if let EvidenceRef::Event { event_id } = evidence {
                        rename(event_id);
                    }
                }
            }
            _ => {}
        }
    }
    for record in &mut session.manifest {
        if let ManifestRecord::SnapshotPinned(pin) = record {
            rename(&mut pin.created_by_event_id);
        }
    }
    plan(session, exported, salvaged)
}

/// Replaces one session id in a key with another.
fn dedupe_key(key: &DedupeKey, from: &SessionId, to: &SessionId) -> Option<DedupeKey> {
    let parts = key.as_str().split(':').map(|part| if part == from.as_str() { to.as_str() } else { part });
    DedupeKey::parse(&parts.collect::<Vec<_>>().join(":")).ok()
}

/// Divides the events into the segments of the manifest.
fn plan(
    session: BundledSession,
    exported_session_id: SessionId,
    salvaged: Option<Salvaged>,
) -> Result<ImportPlan, BundleError> {
    let BundledSession { session_id, events, manifest, snapshots, pinned_workflows, artifacts } = session;
    let mut events = events.into_iter().peekable();
    let mut segments: Vec<ImportSegment> = Vec::new();
    for record in manifest {
        match record {
            ManifestRecord::SegmentClosed(record) => {
                let mut taken = Vec::new();
                while let Some(event) = events.next_if(|event| event.event_index <= record.last_event_index) {
                    taken.push(event);
                }
                let bytes = taken.iter().map(|event| event.encode().len() + 1).sum();
                for (what, measured, maximum) in [
                    ("events in a segment", taken.len(), budgets::PLAN_EVENTS),
                    ("bytes in a segment", bytes, budgets::PLAN_BYTES),
                ] {
                    if measured > maximum {
                        return Err(BundleError::TooLarge { what, measured, maximum });
                    }
                }
                segments.push(ImportSegment { events: taken, pins: Vec::new() });
            }
            ManifestRecord::SnapshotPinned(pin) => {
                if let Some(segment) = segments.last_mut() {
                    segment.pins.push((pin.event_index, pin.created_by_event_id, pin.snapshot_ref));
                }
            }
        }
    }
    Ok(ImportPlan {
        session_id,
        exported_session_id,
        salvaged,
        segments,
        snapshots,
        pinned_workflows,
        artifacts,
    })
}
