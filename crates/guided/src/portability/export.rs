//! Exports a session, completely or as far as it is valid.

use std::collections::{BTreeMap, HashSet};

use canon::digest::Digest;
use canon::json::{self, Limits};
use canon::time::Timestamp;
use guide::bundle::{self, BundledSession, Producer, Salvaged};
use guide::record::budgets::ARTIFACT_BYTES;
use guide::record::{Event, EventData, ManifestRecord, OutputPayload, SessionId};
use guide::state::SessionState;
use ports::blocking;
use ports::sessions::{Object, ObjectRef, SessionHealth, StoreError, StoreErrorCode, ValidatedPrefix};
use serde_json::Value;

use super::refused;
use crate::refusal::{Refusal, inconsistent};
use crate::{Guided, decode};

/// The maximum number of objects that are read at once.
const OBJECTS_AT_ONCE: usize = 64;

/// The valid part of a session, exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvagedExport {
    pub bundle: Vec<u8>,
    /// The number of exported events.
    pub events: usize,
    /// Why the export is incomplete. `None` if it is complete.
    pub salvaged: Option<Salvaged>,
}

impl Guided {
    /// Exports a session as one document that another machine can import and continue. The document contains everything
    /// that the log refers to, and no tokens.
    ///
    /// # Errors
    /// The session does not exist, is damaged, or is too large for a bundle; or an object is missing or damaged.
    pub async fn export(&self, session: &SessionId) -> Result<Vec<u8>, Refusal> {
        let loaded = self.store.load(session.clone()).await?;
        let mut bundled = empty(session);
        self.attach(&mut bundled, &loaded.events).await?;
        bundled.events = loaded.events;
        bundled.manifest = loaded.manifest;
        // A session that was created from a salvaged part stays marked as salvaged, however far it has advanced since.
        let salvaged = self.store.salvaged(session.clone()).await?;
        self.bundle(bundled, salvaged).await
    }

    /// Exports the longest valid prefix of a session: consecutive valid appends with all their snapshots, workflows and
    /// artifacts. The bundle states that it is incomplete, and why. A healthy session is exported completely.
    ///
    /// # Errors
    /// The session does not exist, has no valid prefix, or was written by a newer version.
    pub async fn export_sound_part(&self, session: &SessionId) -> Result<SalvagedExport, Refusal> {
        let ValidatedPrefix { loaded, health } = self.store.load_validated_prefix(session.clone()).await?;
        let unhealthy =
            || StoreError::NotHealthy { session: session.clone(), health: Box::new(health.clone()) };
        let mut salvaged = match &health {
            SessionHealth::Healthy => self.store.salvaged(session.clone()).await?,
            SessionHealth::CorruptTail { damage, .. } => {
                Some(Salvaged::new(session.clone(), damage.reason.as_str(), &damage.to_string()))
            }
            // For the first, a newer version can export everything. For the second, there is no valid prefix.
            SessionHealth::UnknownVersion { .. } | SessionHealth::CorruptHead { .. } => {
                return Err(unhealthy().into());
            }
        };
        let mut bundled = empty(session);
        let mut state = SessionState::new(session.clone());
        let mut events = loaded.events.into_iter().peekable();
        let mut records = loaded.manifest.into_iter().peekable();
        while let Some(record) = records.next() {
            let ManifestRecord::SegmentClosed(segment) = &record else {
                return Err(inconsistent("A pin precedes its segment."));
            };
            let mut append = Vec::new();
            while let Some(event) = events.next_if(|event| event.event_index <= segment.last_event_index) {
                append.push(event);
            }
            if let Err(refusal) = self.follow(&mut state, &mut bundled, &append).await {
                let envelope = refusal.envelope();
                let is_newer = envelope.has_code(StoreErrorCode::StoreNewerVersion);
                if bundled.events.is_empty() || is_newer {
                    return Err(refusal);
                }
                salvaged = Some(Salvaged::new(session.clone(), envelope.code(), envelope.message()));
                break;
            }
            bundled.events.extend(append);
            bundled.manifest.push(record);
            while let Some(pin) = records.next_if(|next| matches!(next, ManifestRecord::SnapshotPinned(_))) {
                bundled.manifest.push(pin);
            }
        }
        let events = bundled.events.len();
        let bundle = self.bundle(bundled, salvaged.clone()).await?;
        Ok(SalvagedExport { bundle, events, salvaged })
    }

    /// Checks that an append continues the preceding ones, and adds the objects that it refers to.
    async fn follow(
        &self,
        state: &mut SessionState,
        bundled: &mut BundledSession,
        append: &[Event],
    ) -> Result<(), Refusal> {
        for event in append {
            state.apply(event)?;
        }
        self.attach(bundled, append).await
    }

    /// Adds the objects that events refer to. If one is missing, the objects already added are harmless: a bundle leaves
    /// out unreferenced objects.
    async fn attach(&self, bundled: &mut BundledSession, events: &[Event]) -> Result<(), Refusal> {
        let mut seen = HashSet::new();
        let wanted: Vec<ObjectRef> = events
            .iter()
            .filter_map(referred)
            .filter(|wanted| !has(bundled, *wanted) && seen.insert(*wanted))
            .collect();
        for wanted in wanted.chunks(OBJECTS_AT_ONCE) {
            let read = self.store.objects(wanted.to_vec()).await;
            for (wanted, object) in wanted.iter().zip(read) {
                match (*wanted, object?) {
                    (ObjectRef::Snapshot(reference), Object::Snapshot(snapshot)) => {
                        bundled.snapshots.insert(reference, (*snapshot).clone());
                    }
                    (ObjectRef::Workflow(hash), Object::Bytes(bytes)) => {
                        bundled.pinned_workflows.insert(hash, decode(hash, &bytes)?);
                    }
                    (ObjectRef::Artifact(digest), Object::Bytes(bytes)) => {
                        bundled.artifacts.insert(digest, parse(digest, &bytes)?);
                    }
                    (ObjectRef::Snapshot(_), Object::Bytes(_))
                    | (ObjectRef::Workflow(_) | ObjectRef::Artifact(_), Object::Snapshot(_)) => {
                        return Err(inconsistent("The store returned an object of another kind."));
                    }
                }
            }
        }
        Ok(())
    }

    async fn bundle(&self, bundled: BundledSession, salvaged: Option<Salvaged>) -> Result<Vec<u8>, Refusal> {
        let producer =
            Producer { app_version: env!("CARGO_PKG_VERSION").to_owned(), applied_config_hash: None };
        let exported_at = Timestamp(self.clock.now_ms()).to_rfc3339();
        let build = move || bundle::build_part(bundled, salvaged, producer, &exported_at)?.to_json();
        blocking(build).await.map(String::into_bytes).map_err(|error| refused(&error))
    }
}

fn empty(session: &SessionId) -> BundledSession {
    BundledSession {
        session_id: session.clone(),
        events: Vec::new(),
        manifest: Vec::new(),
        snapshots: BTreeMap::new(),
        pinned_workflows: BTreeMap::new(),
        artifacts: BTreeMap::new(),
    }
}

/// The object that an event refers to.
fn referred(event: &Event) -> Option<ObjectRef> {
    match &event.data {
        EventData::RunStarted { workflow_hash, .. } => Some(ObjectRef::Workflow(*workflow_hash)),
        EventData::NodeCreated { snapshot_ref, .. } => Some(ObjectRef::Snapshot(*snapshot_ref)),
        EventData::NodeOutputAppended { payload: OutputPayload::ArtifactRef(artifact), .. }
            if artifact.content.is_none() =>
        {
            Some(ObjectRef::Artifact(artifact.sha256))
        }
        _ => None,
    }
}

fn has(bundled: &BundledSession, object: ObjectRef) -> bool {
    match object {
        ObjectRef::Snapshot(reference) => bundled.snapshots.contains_key(&reference),
        ObjectRef::Workflow(hash) => bundled.pinned_workflows.contains_key(&hash),
        ObjectRef::Artifact(digest) => bundled.artifacts.contains_key(&digest),
    }
}

fn parse(digest: Digest, bytes: &[u8]) -> Result<Value, Refusal> {
    json::read(bytes, &Limits::DEFAULT.max_bytes(ARTIFACT_BYTES))
        .map_err(|cause| inconsistent(&format!("The artifact {digest} is not JSON: {cause}.")))
}
