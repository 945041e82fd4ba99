//! Snapshots, pinned workflows and artifacts.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use canon::digest::Digest;
use guide::record::budgets::ARTIFACT_BYTES;
use guide::record::{ExecutionSnapshot, SnapshotRef};
use ports::PortFuture;
use ports::sessions::{NewObject, NewObjects, Object, ObjectKind, ObjectRef, SessionObjects, StoreError};
use sessionlog::snapshots::{NewSnapshot, Prepared, SNAPSHOT_BYTES, SnapshotFiles};

use super::{Sessions, database, stopped, unexpected};
use crate::error::Failure;

/// The longest compiled workflow, in bytes.
const WORKFLOW_BYTES: usize = 16 << 20;
/// The length of a digest, in bytes.
const DIGEST: usize = 32;

/// The objects of an append, checked and encoded.
pub(super) struct Attached<'o> {
    pub(super) snapshots: Vec<Prepared>,
    others: Vec<(ObjectKind, &'o NewObject)>,
    names: BTreeSet<(ObjectKind, Digest)>,
}

/// A row of `session_objects`.
pub(super) struct ObjectRow<'o> {
    pub(super) kind: ObjectKind,
    pub(super) digest: Digest,
    pub(super) content: &'o [u8],
    pub(super) bases: Vec<u8>,
}

impl Attached<'_> {
    pub(super) fn contains(&self, object: (ObjectKind, Digest)) -> bool {
        self.names.contains(&object)
    }

    /// Whether a new snapshot is based on this one.
    pub(super) fn is_base(&self, digest: Digest) -> bool {
        self.snapshots.iter().flat_map(Prepared::bases).any(|base| base.0 == digest)
    }

    /// The rows to insert, sorted by their key and without duplicates.
    pub(super) fn rows(&self) -> Vec<ObjectRow<'_>> {
        let snapshots = self.snapshots.iter().filter_map(|snapshot| {
            Some(ObjectRow {
                kind: ObjectKind::Snapshot,
                digest: snapshot.reference().0,
                content: snapshot.file()?,
                bases: snapshot.bases().flat_map(|base| *base.0.as_bytes()).collect(),
            })
        });
        let others = self.others.iter().map(|(kind, object)| ObjectRow {
            kind: *kind,
            digest: object.digest,
            content: &object.bytes,
            bases: Vec::new(),
        });
        let mut rows: Vec<_> = snapshots.chain(others).collect();
        rows.sort_by_key(|row| (row.kind, row.digest));
        rows.dedup_by_key(|row| (row.kind, row.digest));
        rows
    }
}

/// The files of snapshots that were read before they are needed.
#[derive(Default)]
struct Fetched(HashMap<SnapshotRef, Vec<u8>>);

impl SnapshotFiles for Fetched {
    fn has(&self, reference: SnapshotRef) -> Result<bool, StoreError> {
        Ok(self.0.contains_key(&reference))
    }

    fn read(&self, reference: SnapshotRef) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(&reference).cloned())
    }
}

impl Sessions {
    /// Checks and encodes the objects of an append.
    pub(super) async fn attach<'o>(&self, new: &'o NewObjects) -> Result<Attached<'o>, StoreError> {
        let workflows = new.workflows.iter().map(|object| (ObjectKind::Workflow, object));
        let artifacts = new.artifacts.iter().map(|object| (ObjectKind::Artifact, object));
        let others: Vec<_> = workflows.chain(artifacts).collect();
        for (kind, object) in &others {
            check(*kind, object)?;
        }
        let parents = new.snapshots.iter().filter_map(|snapshot| snapshot.parent);
        let files = self.fetch_snapshots(parents.collect()).await?;
        let mut names: BTreeSet<_> = others.iter().map(|(kind, object)| (*kind, object.digest)).collect();
        let mut snapshots = Vec::with_capacity(new.snapshots.len());
        for snapshot in &new.snapshots {
            let new = NewSnapshot { named: &snapshot.named, parent: snapshot.parent };
            let prepared = self.0.snapshots.prepare(&files, new)?;
            if names.insert((ObjectKind::Snapshot, prepared.reference().0)) {
                snapshots.push(prepared);
            }
        }
        Ok(Attached { snapshots, others, names })
    }

    /// Reads the files of snapshots that are not in memory, and of those that they are based on.
    async fn fetch_snapshots(&self, wanted: Vec<SnapshotRef>) -> Result<Fetched, StoreError> {
        let mut files = Fetched::default();
        let is_unknown = |reference: &SnapshotRef| self.0.snapshots.in_memory(*reference).is_none();
        let mut wanted: BTreeSet<SnapshotRef> = wanted.into_iter().filter(is_unknown).collect();
        // Every row names all of its bases, so the second query reads them all.
        for _ in 0..2 {
            if wanted.is_empty() {
                break;
            }
            let digests: Vec<&[u8]> = wanted.iter().map(|reference| &reference.0.as_bytes()[..]).collect();
            let sql = "select digest, content, bases from session_objects
                       where tenant = $1 and kind = 'snapshot' and digest = any($2)";
            let rows = self.read(sql, &[&self.tenant(), &digests]).await?;
            let mut bases = BTreeSet::new();
            for row in &rows {
                let reference = SnapshotRef(crate::row::digest(row, 0).map_err(database)?);
                files.0.insert(reference, row.try_get(1).map_err(unexpected)?);
                for base in row.try_get::<_, &[u8]>(2).map_err(unexpected)?.chunks_exact(DIGEST) {
                    let base = base.try_into().map_err(|_| database(Failure::Row))?;
                    bases.insert(SnapshotRef(Digest::from_bytes(base)));
                }
            }
            wanted = bases.into_iter().filter(|base| !files.0.contains_key(base)).collect();
        }
        Ok(files)
    }

    /// The first of these objects that is not stored.
    pub(super) async fn first_missing(
        &self,
        objects: &BTreeSet<(ObjectKind, Digest)>,
    ) -> Result<Option<(ObjectKind, Digest)>, StoreError> {
        let (kinds, digests): (Vec<&str>, Vec<&[u8]>) =
            objects.iter().map(|(kind, digest)| (kind.as_str(), &digest.as_bytes()[..])).unzip();
        let sql =
            "select n.place from unnest($2::text[], $3::bytea[]) with ordinality as n(kind, digest, place)
                   where not exists (select 1 from session_objects o
                       where o.tenant = $1 and o.kind = n.kind and o.digest = n.digest)
                   order by n.place limit 1";
        let rows = self.read(sql, &[&self.tenant(), &kinds, &digests]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let place: i64 = row.try_get(0).map_err(unexpected)?;
        Ok(usize::try_from(place - 1).ok().and_then(|place| objects.iter().nth(place)).copied())
    }

    /// Reads a snapshot, from memory if it is there.
    pub(super) async fn snapshot_of(
        &self,
        reference: SnapshotRef,
    ) -> Result<Arc<ExecutionSnapshot>, StoreError> {
        if let Some(snapshot) = self.0.snapshots.in_memory(reference) {
            return Ok(snapshot);
        }
        let files = self.fetch_snapshots(vec![reference]).await?;
        self.0.snapshots.get(&files, reference)
    }

    /// The snapshots that a stored snapshot is based on.
    pub(super) async fn bases_of(&self, reference: SnapshotRef) -> Result<Vec<SnapshotRef>, StoreError> {
        let files = self.fetch_snapshots(vec![reference]).await?;
        self.0.snapshots.bases(&files, reference)
    }

    /// Reads the bytes of a workflow or an artifact.
    pub(super) async fn content_of(&self, kind: ObjectKind, digest: Digest) -> Result<Vec<u8>, StoreError> {
        let sql = "select content from session_objects where tenant = $1 and kind = $2 and digest = $3";
        let rows = self.read(sql, &[&self.tenant(), &kind.as_str(), &&digest.as_bytes()[..]]).await?;
        let row = rows.first().ok_or(StoreError::ObjectMissing { kind, digest })?;
        let content: Vec<u8> = row.try_get(0).map_err(unexpected)?;
        if Digest::of_bytes(&content) == digest {
            Ok(content)
        } else {
            let problem = "its content does not match the digest in its name".to_owned();
            Err(StoreError::ObjectDamaged { kind, digest, problem })
        }
    }

    async fn object(&self, wanted: ObjectRef) -> Result<Object, StoreError> {
        match wanted {
            ObjectRef::Snapshot(reference) => self.snapshot_of(reference).await.map(Object::Snapshot),
            ObjectRef::Workflow(digest) => {
                self.content_of(ObjectKind::Workflow, digest).await.map(Object::Bytes)
            }
            ObjectRef::Artifact(digest) => {
                self.content_of(ObjectKind::Artifact, digest).await.map(Object::Bytes)
            }
        }
    }
}

fn check(kind: ObjectKind, object: &NewObject) -> Result<(), StoreError> {
    let maximum = match kind {
        ObjectKind::Artifact => ARTIFACT_BYTES as u64,
        ObjectKind::Workflow => WORKFLOW_BYTES as u64,
        ObjectKind::Snapshot => SNAPSHOT_BYTES,
    };
    let (measured, digest) = (object.bytes.len() as u64, object.digest);
    if measured > maximum {
        return Err(StoreError::TooLarge {
            what: format!("the {} {digest}", kind.as_str()),
            measured,
            maximum,
        });
    }
    if Digest::of_bytes(&object.bytes) != digest {
        let problem = "its content does not match the digest in its name".to_owned();
        return Err(StoreError::ObjectDamaged { kind, digest, problem });
    }
    Ok(())
}

impl SessionObjects for Sessions {
    fn objects(&self, wanted: Vec<ObjectRef>) -> PortFuture<'_, Vec<Result<Object, StoreError>>> {
        let in_memory = |wanted: &ObjectRef| match wanted {
            ObjectRef::Snapshot(reference) => self.0.snapshots.in_memory(*reference).map(Object::Snapshot),
            ObjectRef::Workflow(_) | ObjectRef::Artifact(_) => None,
        };
        if let Some(found) = wanted.iter().map(in_memory).collect::<Option<Vec<_>>>() {
            return PortFuture::ready(found.into_iter().map(Ok).collect());
        }
        let count = wanted.len();
        let reading = self.task(|this| async move {
            let mut read = Vec::with_capacity(wanted.len());
            for wanted in wanted {
                read.push(this.object(wanted).await);
            }
            Ok(read)
        });
        PortFuture::boxed(async move {
            reading.await.unwrap_or_else(|_| (0..count).map(|_| Err(stopped())).collect())
        })
    }
}
