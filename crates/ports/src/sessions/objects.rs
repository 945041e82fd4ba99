//! What events refer to by digest.

use std::fmt::Debug;
use std::sync::Arc;

use canon::digest::Digest;
use guide::record::{ExecutionSnapshot, SnapshotRef, WorkflowHash};

use super::{ObjectKind, StoreError, StoreFuture};
use crate::PortFuture;

/// Snapshots, pinned workflows and artifacts. Whatever is returned was compared with its digest.
pub trait SessionObjects: Debug + Send + Sync {
    /// Reads several objects at once, in their order. One that is missing or damaged does not affect the others.
    ///
    /// The result is held in memory: a caller limits how many it asks for.
    fn objects(&self, wanted: Vec<ObjectRef>) -> PortFuture<'_, Vec<Result<Object, StoreError>>>;

    /// Reads a snapshot. Recently used ones come from memory.
    fn snapshot(&self, reference: SnapshotRef) -> StoreFuture<'_, Arc<ExecutionSnapshot>> {
        let read = self.objects(vec![ObjectRef::Snapshot(reference)]);
        PortFuture::boxed(async move {
            match read.await.pop() {
                Some(Ok(Object::Snapshot(snapshot))) => Ok(snapshot),
                other => Err(not_found(other, ObjectKind::Snapshot, reference.0)),
            }
        })
    }

    /// Reads the canonical bytes of a pinned workflow.
    fn workflow(&self, hash: WorkflowHash) -> StoreFuture<'_, Vec<u8>> {
        bytes(self.objects(vec![ObjectRef::Workflow(hash)]), ObjectKind::Workflow, hash)
    }

    /// Reads the canonical bytes of an artifact.
    fn artifact(&self, digest: Digest) -> StoreFuture<'_, Vec<u8>> {
        bytes(self.objects(vec![ObjectRef::Artifact(digest)]), ObjectKind::Artifact, digest)
    }
}

type Read<'a> = PortFuture<'a, Vec<Result<Object, StoreError>>>;

fn bytes(read: Read<'_>, kind: ObjectKind, digest: Digest) -> StoreFuture<'_, Vec<u8>> {
    PortFuture::boxed(async move {
        match read.await.pop() {
            Some(Ok(Object::Bytes(bytes))) => Ok(bytes),
            other => Err(not_found(other, kind, digest)),
        }
    })
}

fn not_found(read: Option<Result<Object, StoreError>>, kind: ObjectKind, digest: Digest) -> StoreError {
    match read {
        Some(Err(error)) => error,
        Some(Ok(_)) | None => StoreError::ObjectMissing { kind, digest },
    }
}

/// Names an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectRef {
    Snapshot(SnapshotRef),
    Workflow(WorkflowHash),
    Artifact(Digest),
}

/// An object that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    Snapshot(Arc<ExecutionSnapshot>),
    /// The canonical JSON of a workflow or an artifact.
    Bytes(Vec<u8>),
}
