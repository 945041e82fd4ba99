//! Exports and imports sessions.

mod export;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use canon::canonical::CanonicalError;
use canon::digest::Digest;
use guide::bundle::{self, Bundle, BundleError, ImportPlan, Salvaged};
use guide::derive;
use guide::engine::NewSnapshot;
use guide::record::{EventData, NodeId, SessionId, SnapshotRef};
use guide::snapshot_digest::NamedSnapshot;
use ports::blocking;
use ports::sessions::{Creation, NewObject, NewObjects, StoreError};
use serde::Serialize;

pub use export::SalvagedExport;

use super::Guided;
use super::refusal::{self, Refusal, inconsistent};
use super::sessions::Session;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportOutcome {
    /// The id of the created session.
    pub session_id: SessionId,
    /// The id of the exported session. It differs from `session_id` if that id already existed, or a new session was
    /// requested.
    pub exported_session_id: SessionId,
    /// Whether the session got a new id.
    pub as_new: bool,
    /// The number of its events.
    pub events: usize,
    /// Why the session is incomplete, if it was exported as a salvaged part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub salvaged: Option<Salvaged>,
}

impl Guided {
    /// Imports a bundle of [`Guided::export`]. The session keeps its id, unless that id exists or `as_new` is set. The
    /// import is atomic. A salvaged part of a damaged session always gets a new id; the new session is valid, can be
    /// continued, and is marked as salvaged.
    ///
    /// # Errors
    /// An invalid or damaged bundle, and errors of the store.
    pub async fn import(&self, bytes: Vec<u8>, as_new: bool) -> Result<ImportOutcome, Refusal> {
        // Parsing and validating a large bundle can take seconds.
        let (bundle, bytes) = blocking(move || (bundle::read(&bytes), bytes)).await;
        let bundle = bundle.map_err(|error| refused(&error))?;
        let is_taken = as_new
            || !bundle.keeps_its_id()
            || self.store.revision(bundle.session().session_id.clone()).await?.is_some();
        if is_taken {
            return self.import_as_new(bundle).await;
        }
        let plan = bundle::as_is(bundle).map_err(|error| refused(&error))?;
        match self.save(plan).await {
            // The same session was imported concurrently.
            Err(StoreFailure::Exists) => {
                let bundle = blocking(move || bundle::read(&bytes)).await;
                self.import_as_new(bundle.map_err(|error| refused(&error))?).await
            }
            other => other.map_err(StoreFailure::into_refusal),
        }
    }

    async fn import_as_new(&self, bundle: Bundle) -> Result<ImportOutcome, Refusal> {
        let mut entropy = [0; 16];
        self.entropy.fill(&mut entropy).map_err(|cause| refusal::random_failed(&cause))?;
        let plan = bundle::as_new(bundle, &derive::session_id(&entropy)).map_err(|error| refused(&error))?;
        self.save(plan).await.map_err(StoreFailure::into_refusal)
    }

    /// Stores an import atomically.
    async fn save(&self, import: ImportPlan) -> Result<ImportOutcome, StoreFailure> {
        let imported_ms = self.clock.now_ms();
        let prepared = blocking(move || prepare(import, imported_ms)).await;
        let Prepared { mut session, creation, outcome } = prepared.map_err(StoreFailure::Other)?;
        session.cursor = match self.store.create(creation).await {
            Err(StoreError::Exists { .. }) => return Err(StoreFailure::Exists),
            created => created.map_err(|error| StoreFailure::Other(error.into()))?.cursor,
        };
        self.sessions.insert(session);
        Ok(outcome)
    }
}

/// An import that is ready to be stored.
struct Prepared {
    session: Session,
    creation: Creation,
    outcome: ImportOutcome,
}

fn prepare(mut import: ImportPlan, imported_ms: u64) -> Result<Prepared, Refusal> {
    let mut session = Session::unread(&import.session_id);
    let mut plans = Vec::with_capacity(import.segments.len());
    for segment in &import.segments {
        let plan = session.plan(segment.events.clone())?;
        plans.push(plan.ok_or_else(|| inconsistent("A segment of the bundle repeats another."))?);
    }
    let names: HashMap<_, _> =
        import.pinned_workflows.iter().map(|(hash, workflow)| (*hash, workflow.name.clone())).collect();
    let projection = session.projection(None, |run| names.get(&run.workflow_hash).cloned());
    let mut workflows = Vec::with_capacity(import.pinned_workflows.len());
    for (hash, workflow) in &import.pinned_workflows {
        workflows.push(object(*hash, canon::canonical::to_vec(workflow))?);
    }
    let mut artifacts = Vec::with_capacity(import.artifacts.len());
    for (digest, artifact) in &import.artifacts {
        artifacts.push(object(*digest, canon::canonical::to_vec(artifact))?);
    }
    let whole = std::mem::take(&mut import.snapshots).into_iter();
    let named = whole.map(|(reference, snapshot)| (reference, NamedSnapshot::new(snapshot))).collect();
    let objects = NewObjects { snapshots: snapshots(&import, &named), workflows, artifacts };
    let outcome = ImportOutcome {
        session_id: import.session_id.clone(),
        exported_session_id: import.exported_session_id.clone(),
        as_new: import.session_id != import.exported_session_id,
        events: import.segments.iter().map(|segment| segment.events.len()).sum(),
        salvaged: import.salvaged.clone(),
    };
    let creation =
        Creation { plans, objects, projection, salvaged: import.salvaged, imported_ms: Some(imported_ms) };
    Ok(Prepared { session, creation, outcome })
}

fn object(digest: Digest, bytes: Result<Vec<u8>, CanonicalError>) -> Result<NewObject, Refusal> {
    let bytes = bytes.map_err(|_| inconsistent("A part of the bundle has no canonical form."))?;
    Ok(NewObject { digest, bytes: bytes.into() })
}

/// Why an import could not be stored.
enum StoreFailure {
    Exists,
    Other(Refusal),
}

impl StoreFailure {
    fn into_refusal(self) -> Refusal {
        match self {
            Self::Exists => inconsistent("A session with the new id already exists."),
            Self::Other(refusal) => refusal,
        }
    }
}

fn refused(error: &BundleError) -> Refusal {
    error.envelope().into()
}

/// The snapshots in the order of their nodes, parents first. Each names the snapshot that it is stored as a difference
/// to.
fn snapshots(import: &ImportPlan, named: &BTreeMap<SnapshotRef, NamedSnapshot>) -> Vec<NewSnapshot> {
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
            snapshots.push(NewSnapshot { named: named.clone(), parent });
        }
    }
    snapshots
}

#[cfg(test)]
mod tests;
