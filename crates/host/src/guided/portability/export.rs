//! Taking a session elsewhere, whole or as far as it is sound.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::Vacant;

use canon::digest::Digest;
use canon::json::{self, Limits};
use canon::time::Timestamp;
use guide::bundle::{self, BundledSession, Producer, Salvaged};
use guide::record::budgets::ARTIFACT_BYTES;
use guide::record::{Event, EventData, ManifestRecord, OutputPayload, SessionId};
use guide::state::SessionState;
use serde_json::Value;
use storage::files::{SessionHealth, ValidatedPrefix};
use storage::{StoreError, StoreErrorCode};

use super::refused;
use crate::guided::Guided;
use crate::guided::refusal::{Refusal, inconsistent};

/// What could be exported of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvagedExport {
    pub bundle: Vec<u8>,
    /// How many events it holds.
    pub events: usize,
    /// Why these are not all, if they are not.
    pub salvaged: Option<Salvaged>,
}

impl Guided {
    /// A session as one document that another machine can go on from: everything that its log points
    /// at, and no token.
    ///
    /// # Errors
    /// A session that is not there or not healthy, something it needs that is missing or damaged, and a
    /// session too large for a bundle.
    pub fn export(&self, session: &SessionId) -> Result<Vec<u8>, Refusal> {
        let loaded = self.files.load(session)?;
        let mut bundled = empty(session);
        self.attach(&mut bundled, &loaded.events)?;
        bundled.events = loaded.events;
        bundled.manifest = loaded.manifest;
        // What was made of a part stays a part, however far it went since.
        let salvaged = self.files.salvaged(session)?;
        self.bundle(bundled, salvaged)
    }

    /// The longest sound beginning of a session: the appends that can be validated, that follow from one
    /// another, and whose snapshots, workflows and artifacts are all there. The bundle says that it is a
    /// part, and why; of a sound session it is the whole.
    ///
    /// # Errors
    /// A session that is not there, of which nothing is sound, or that only a newer program can read.
    pub fn export_sound_part(&self, session: &SessionId) -> Result<SalvagedExport, Refusal> {
        let ValidatedPrefix { loaded, health } = self.files.load_validated_prefix(session)?;
        let unhealthy =
            || StoreError::NotHealthy { session: session.clone(), health: Box::new(health.clone()) };
        let mut salvaged = match &health {
            SessionHealth::Healthy => self.files.salvaged(session)?,
            SessionHealth::CorruptTail { damage, .. } => {
                Some(Salvaged::new(session.clone(), damage.reason.as_str(), &damage.to_string()))
            }
            // A newer program reads all of it, and of the other there is nothing to read.
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
                return Err(inconsistent("A pin stands before its segment."));
            };
            let mut append = Vec::new();
            while let Some(event) = events.next_if(|event| event.event_index <= segment.last_event_index) {
                append.push(event);
            }
            if let Err(refusal) = self.follow(&mut state, &mut bundled, &append) {
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
        Ok(SalvagedExport { bundle: self.bundle(bundled, salvaged.clone())?, events, salvaged })
    }

    /// Whether an append follows the ones before it, with all that it needs.
    fn follow(
        &self,
        state: &mut SessionState,
        bundled: &mut BundledSession,
        append: &[Event],
    ) -> Result<(), Refusal> {
        for event in append {
            state.apply(event)?;
        }
        self.attach(bundled, append)
    }

    /// Adds what events point at. Should something be missing, what was added before it does no harm: a
    /// bundle leaves out what none of its events needs.
    fn attach(&self, bundled: &mut BundledSession, events: &[Event]) -> Result<(), Refusal> {
        for event in events {
            match &event.data {
                EventData::RunStarted { workflow_hash, .. } => {
                    if let Vacant(place) = bundled.pinned_workflows.entry(*workflow_hash) {
                        place.insert((*self.pinned(*workflow_hash)?).clone());
                    }
                }
                EventData::NodeCreated { snapshot_ref, .. } => {
                    if let Vacant(place) = bundled.snapshots.entry(*snapshot_ref) {
                        place.insert((*self.files.snapshot(*snapshot_ref)?).clone());
                    }
                }
                EventData::NodeOutputAppended { payload: OutputPayload::ArtifactRef(artifact), .. }
                    if artifact.content.is_none() =>
                {
                    if let Vacant(place) = bundled.artifacts.entry(artifact.sha256) {
                        place.insert(self.artifact(artifact.sha256)?);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// An artifact out of the store.
    fn artifact(&self, digest: Digest) -> Result<Value, Refusal> {
        let bytes = self.files.artifact(digest)?;
        json::read(&bytes, &Limits::DEFAULT.max_bytes(ARTIFACT_BYTES))
            .map_err(|cause| inconsistent(&format!("The artifact {digest} is not JSON: {cause}.")))
    }

    fn bundle(&self, bundled: BundledSession, salvaged: Option<Salvaged>) -> Result<Vec<u8>, Refusal> {
        let producer =
            Producer { app_version: env!("CARGO_PKG_VERSION").to_owned(), applied_config_hash: None };
        let exported_at = Timestamp(self.clock.now_ms()).to_rfc3339();
        let bundle =
            bundle::build_part(bundled, salvaged, producer, &exported_at).map_err(|error| refused(&error))?;
        bundle.to_json().map(String::into_bytes).map_err(|error| refused(&error))
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
