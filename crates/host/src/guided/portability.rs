//! Taking a session elsewhere, and bringing one in.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::PoisonError;

use canon::digest::Digest;
use canon::json::{self, Limits};
use guide::bundle::{self, Bundle, BundleError, BundledSession, ImportPlan, Producer};
use guide::derive;
use guide::plan::{AppendPlan, LogKeys, Planned};
use guide::record::budgets::ARTIFACT_BYTES;
use guide::record::{Event, EventData, NodeId, OutputPayload, SessionId, SnapshotRef};
use serde::Serialize;
use serde_json::Value;
use storage::StoreError;
use storage::files::{Attachments, NewObject, NewSnapshot};

use super::Guided;
use super::refusal::{self, Refusal, inconsistent};

/// What became of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportOutcome {
    /// The session that came to be.
    pub session_id: SessionId,
    /// The session that was exported. Another one, if its id was taken or a new one was asked for.
    pub exported_session_id: SessionId,
    /// Whether it became a new session.
    pub as_new: bool,
    /// How many events it has.
    pub events: usize,
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
        let needs = Needs::of(&loaded.events);
        let mut bundled = BundledSession {
            session_id: session.clone(),
            events: loaded.events,
            manifest: loaded.manifest,
            snapshots: BTreeMap::new(),
            pinned_workflows: BTreeMap::new(),
            artifacts: BTreeMap::new(),
        };
        for reference in needs.snapshots {
            bundled.snapshots.insert(reference, (*self.files.snapshot(reference)?).clone());
        }
        for hash in needs.workflows {
            bundled.pinned_workflows.insert(hash, (*self.pinned(hash)?).clone());
        }
        for digest in needs.artifacts {
            bundled.artifacts.insert(digest, self.artifact(digest)?);
        }
        let producer =
            Producer { app_version: env!("CARGO_PKG_VERSION").to_owned(), applied_config_hash: None };
        let exported_at = date_and_time(self.clock.now_ms());
        let bundle = bundle::build(bundled, producer, &exported_at).map_err(|error| refused(&error))?;
        bundle.to_json().map(String::into_bytes).map_err(|error| refused(&error))
    }

    /// Brings in what [`Guided::export`] gave, here or elsewhere: under its own id, or as a new session if
    /// there is one of that id already or `as_new` asks for it. The whole session comes to be, or nothing.
    ///
    /// # Errors
    /// A file that is no bundle, or is damaged, and trouble with the store.
    pub fn import(&self, bytes: &[u8], as_new: bool) -> Result<ImportOutcome, Refusal> {
        let bundle = bundle::read(bytes).map_err(|error| refused(&error))?;
        let taken = as_new || self.files.manifest_stat(&bundle.session().session_id)?.is_some();
        if !taken {
            let plan = bundle::as_is(bundle).map_err(|error| refused(&error))?;
            return match self.store(&plan) {
                // Somebody imported the same session at the same moment.
                Err(StoreFailure::Exists) => {
                    self.import_as_new(bundle::read(bytes).map_err(|error| refused(&error))?)
                }
                other => other.map_err(StoreFailure::into_refusal),
            };
        }
        self.import_as_new(bundle)
    }

    fn import_as_new(&self, bundle: Bundle) -> Result<ImportOutcome, Refusal> {
        let mut entropy = [0; 16];
        self.entropy.fill(&mut entropy).map_err(|cause| refusal::no_entropy(&cause))?;
        let plan = bundle::as_new(bundle, &derive::session_id(&entropy)).map_err(|error| refused(&error))?;
        self.store(&plan).map_err(StoreFailure::into_refusal)
    }

    /// Stores all of a plan, or nothing of it.
    fn store(&self, import: &ImportPlan) -> Result<ImportOutcome, StoreFailure> {
        let other = |refusal: Refusal| StoreFailure::Other(refusal);
        let mut keys = LogKeys::new(import.session_id.clone());
        let mut plans = Vec::with_capacity(import.segments.len());
        for segment in &import.segments {
            let planned =
                AppendPlan::new(&keys, segment.events.clone()).map_err(|error| other(error.into()))?;
            let Planned::Append(plan) = planned else {
                return Err(other(inconsistent("A segment of the bundle repeats another.")));
            };
            for event in &segment.events {
                keys.record(event).map_err(|error| other(error.into()))?;
            }
            plans.push(plan);
        }
        let canonical = |value: Result<Vec<u8>, canon::canonical::CanonicalError>| {
            value.map_err(|_| other(inconsistent("A part of the bundle has no canonical form.")))
        };
        let mut workflows = Vec::with_capacity(import.pinned_workflows.len());
        for (hash, workflow) in &import.pinned_workflows {
            workflows.push((*hash, canonical(canon::canonical::to_vec(workflow))?));
        }
        let mut artifacts = Vec::with_capacity(import.artifacts.len());
        for (digest, artifact) in &import.artifacts {
            artifacts.push((*digest, canonical(canon::canonical::to_vec(artifact))?));
        }
        let attachments = Attachments {
            snapshots: snapshots(import),
            workflows: workflows.iter().map(|(digest, bytes)| NewObject { digest: *digest, bytes }).collect(),
            artifacts: artifacts.iter().map(|(digest, bytes)| NewObject { digest: *digest, bytes }).collect(),
        };
        match self.files.create(&plans, &attachments) {
            Err(StoreError::Exists { .. }) => return Err(StoreFailure::Exists),
            stored => stored.map_err(|error| other(error.into()))?,
        };
        let id = &import.session_id;
        let loaded = self.files.load(id).map_err(|error| other(error.into()))?;
        let session = self.sessions.insert(id, &loaded).map_err(other)?;
        let session = session.lock().unwrap_or_else(PoisonError::into_inner);
        // The session is durable whatever becomes of the index, which reads it when it is asked for.
        let projection = session.projection(None, |run| self.workflow_name(run));
        let _ = self.index.record(None, &session.cursor, projection);
        Ok(ImportOutcome {
            session_id: id.clone(),
            exported_session_id: import.exported_session_id.clone(),
            as_new: *id != import.exported_session_id,
            events: loaded.events.len(),
        })
    }

    /// An artifact out of the store.
    fn artifact(&self, digest: Digest) -> Result<Value, Refusal> {
        let bytes = self.files.artifact(digest)?;
        json::read(&bytes, &Limits::DEFAULT.max_bytes(ARTIFACT_BYTES))
            .map_err(|cause| inconsistent(&format!("The artifact {digest} is not JSON: {cause}.")))
    }
}

/// Why storing did not work, as far as it matters to the one who tries again.
enum StoreFailure {
    Exists,
    Other(Refusal),
}

impl StoreFailure {
    fn into_refusal(self) -> Refusal {
        match self {
            Self::Exists => inconsistent("There is a session of the new id already."),
            Self::Other(refusal) => refusal,
        }
    }
}

fn refused(error: &BundleError) -> Refusal {
    error.envelope().into()
}

/// What the events of a session point at.
#[derive(Default)]
struct Needs {
    snapshots: BTreeSet<SnapshotRef>,
    workflows: BTreeSet<Digest>,
    artifacts: BTreeSet<Digest>,
}

impl Needs {
    fn of(events: &[Event]) -> Self {
        let mut needs = Self::default();
        for event in events {
            match &event.data {
                EventData::RunStarted { workflow_hash, .. } => {
                    needs.workflows.insert(*workflow_hash);
                }
                EventData::NodeCreated { workflow_hash, snapshot_ref, .. } => {
                    needs.workflows.insert(*workflow_hash);
                    needs.snapshots.insert(*snapshot_ref);
                }
                EventData::NodeOutputAppended { payload: OutputPayload::ArtifactRef(artifact), .. }
                    if artifact.content.is_none() =>
                {
                    needs.artifacts.insert(artifact.sha256);
                }
                _ => {}
            }
        }
        needs
    }
}

/// The snapshots in the order of their nodes, parents first, each with the one it is stored as a difference of.
fn snapshots(import: &ImportPlan) -> Vec<NewSnapshot<'_>> {
    let mut of_node: HashMap<&NodeId, SnapshotRef> = HashMap::new();
    let mut seen = BTreeSet::new();
    let mut snapshots = Vec::with_capacity(import.snapshots.len());
    for event in import.segments.iter().flat_map(|segment| &segment.events) {
        let (EventData::NodeCreated { parent_node_id, snapshot_ref, .. }, Some(node_id)) =
            (&event.data, event.scope.node_id())
        else {
            continue;
        };
        of_node.insert(node_id, *snapshot_ref);
        if let Some(snapshot) = import.snapshots.get(snapshot_ref).filter(|_| seen.insert(*snapshot_ref)) {
            let parent = parent_node_id.as_ref().and_then(|parent| of_node.get(parent)).copied();
            snapshots.push(NewSnapshot { snapshot, parent });
        }
    }
    snapshots
}

/// A moment as RFC 3339 writes it, to the millisecond.
fn date_and_time(ms: u64) -> String {
    let (seconds, milliseconds) = (ms / 1000, ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, in eras of 400 years: leap days then come last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second % 3600 / 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

#[cfg(test)]
mod tests;
