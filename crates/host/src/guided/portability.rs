//! Taking a session elsewhere, and bringing one in.

mod export;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::PoisonError;

use guide::bundle::{self, Bundle, BundleError, ImportPlan, Salvaged};
use guide::derive;
use guide::plan::{AppendPlan, Planned};
use guide::record::{EventData, NodeId, SessionId, SnapshotRef};
use guide::snapshot_digest::NamedSnapshot;
use guide::state::SessionState;
use serde::Serialize;
use storage::StoreError;
use storage::files::{Attachments, NewObject, NewSnapshot};

pub use export::SalvagedExport;

use super::Guided;
use super::refusal::{self, Refusal, inconsistent};
use super::sessions::Session;

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
    /// Why it is only a part, if it was exported as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub salvaged: Option<Salvaged>,
}

impl Guided {
    /// Brings in what [`Guided::export`] gave, here or elsewhere: under its own id, or as a new session if
    /// there is one of that id already or `as_new` asks for it. The whole session comes to be, or nothing.
    /// What is only a part always becomes a new session, which is sound, can be gone on with, and says what
    /// it is.
    ///
    /// # Errors
    /// A file that is no bundle, or is damaged, and trouble with the store.
    pub fn import(&self, bytes: &[u8], as_new: bool) -> Result<ImportOutcome, Refusal> {
        let bundle = bundle::read(bytes).map_err(|error| refused(&error))?;
        let taken = as_new
            || !bundle.keeps_its_id()
            || self.files.manifest_stat(&bundle.session().session_id)?.is_some();
        if !taken {
            let plan = bundle::as_is(bundle).map_err(|error| refused(&error))?;
            return match self.store(plan) {
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
        self.store(plan).map_err(StoreFailure::into_refusal)
    }

    /// Stores all of a plan, or nothing of it.
    fn store(&self, mut import: ImportPlan) -> Result<ImportOutcome, StoreFailure> {
        let other = |refusal: Refusal| StoreFailure::Other(refusal);
        let mut state = SessionState::new(import.session_id.clone());
        let mut plans = Vec::with_capacity(import.segments.len());
        for segment in &import.segments {
            let planned =
                AppendPlan::new(&mut state, segment.events.clone()).map_err(|error| other(error.into()))?;
            let Planned::Append(plan) = planned else {
                return Err(other(inconsistent("A segment of the bundle repeats another.")));
            };
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
        let whole = std::mem::take(&mut import.snapshots).into_iter();
        let named = whole.map(|(reference, snapshot)| (reference, NamedSnapshot::new(snapshot))).collect();
        let attachments = Attachments {
            snapshots: snapshots(&import, &named),
            workflows: workflows.iter().map(|(digest, bytes)| NewObject { digest: *digest, bytes }).collect(),
            artifacts: artifacts.iter().map(|(digest, bytes)| NewObject { digest: *digest, bytes }).collect(),
        };
        let created = match &import.salvaged {
            Some(salvaged) => self.files.create_part(&plans, &attachments, salvaged),
            None => self.files.create(&plans, &attachments),
        };
        match created {
            Err(StoreError::Exists { .. }) => return Err(StoreFailure::Exists),
            stored => stored.map_err(|error| other(error.into()))?,
        };
        let id = &import.session_id;
        self.files.set_imported(id, self.clock.now_ms()).map_err(|error| other(error.into()))?;
        let loaded = self.files.load(id).map_err(|error| other(error.into()))?;
        let session = self.sessions.insert(Session::new(id, &loaded).map_err(other)?);
        let session = session.lock().unwrap_or_else(PoisonError::into_inner);
        // The session is durable whatever becomes of the index, which reads it when it is asked for.
        let projection = session.projection(None, |run| self.workflow_name(run));
        let _ = self.index.record(None, &session.cursor, projection);
        Ok(ImportOutcome {
            session_id: id.clone(),
            exported_session_id: import.exported_session_id.clone(),
            as_new: *id != import.exported_session_id,
            events: loaded.events.len(),
            salvaged: import.salvaged,
        })
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

/// The snapshots in the order of their nodes, parents first, each with the one it is stored as a difference of.
fn snapshots<'n>(
    import: &ImportPlan,
    named: &'n BTreeMap<SnapshotRef, NamedSnapshot>,
) -> Vec<NewSnapshot<'n>> {
    let mut of_node: HashMap<&NodeId, SnapshotRef> = HashMap::new();
    let mut seen = BTreeSet::new();
    let mut snapshots = Vec::with_capacity(named.len());
    for event in import.segments.iter().flat_map(|segment| &segment.events) {
        let (EventData::NodeCreated { parent_node_id, snapshot_ref, .. }, Some(node_id)) =
            (&event.data, event.scope.node_id())
        else {
            continue;
        };
        of_node.insert(node_id, *snapshot_ref);
        if let Some(named) = named.get(snapshot_ref).filter(|_| seen.insert(*snapshot_ref)) {
            let parent = parent_node_id.as_ref().and_then(|parent| of_node.get(parent)).copied();
            snapshots.push(NewSnapshot { named, parent });
        }
    }
    snapshots
}

#[cfg(test)]
mod tests;
