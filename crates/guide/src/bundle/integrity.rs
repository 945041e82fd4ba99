//! Integrity entries: a digest for each part of a bundle.

use std::collections::BTreeMap;
use std::fmt::Display;

use canon::{canonical, digest::Digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BundleError, BundledSession, Producer, Salvaged};
use crate::record::{Event, ExecutionSnapshot, ManifestRecord, SnapshotRef, derive_id};
use crate::workflow::compiled::CompiledWorkflow;

/// The digest of one part of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntegrityEntry {
    /// The path of the part, for example `session/events`.
    pub path: String,
    /// The digest of its canonical JSON.
    pub sha256: Digest,
    /// The length of its canonical JSON, in bytes.
    pub bytes: u64,
}

/// The parts of a session, decoded or raw: both have the same canonical JSON.
pub(super) struct Parts<'a, E, M, K, S, W> {
    pub(super) session_id: &'a str,
    pub(super) events: &'a [E],
    pub(super) manifest: &'a [M],
    pub(super) snapshots: &'a BTreeMap<K, S>,
    pub(super) pinned_workflows: &'a BTreeMap<Digest, W>,
    pub(super) artifacts: &'a BTreeMap<Digest, Value>,
}

impl<'a> Parts<'a, Event, ManifestRecord, SnapshotRef, ExecutionSnapshot, CompiledWorkflow> {
    pub(super) fn of(session: &'a BundledSession) -> Self {
        Self {
            session_id: session.session_id.as_str(),
            events: &session.events,
            manifest: &session.manifest,
            snapshots: &session.snapshots,
            pinned_workflows: &session.pinned_workflows,
            artifacts: &session.artifacts,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Metadata<'a> {
    pub(super) exported_at: &'a str,
    pub(super) producer: &'a Producer,
    pub(super) salvaged: Option<&'a Salvaged>,
}

/// The entries of the given parts, sorted by path.
pub(super) fn entries<E, M, K, S, W>(
    metadata: Metadata<'_>,
    parts: &Parts<'_, E, M, K, S, W>,
) -> Result<Vec<IntegrityEntry>, BundleError>
where
    E: Serialize,
    M: Serialize,
    K: Display,
    S: Serialize,
    W: Serialize,
{
    let mut entries = vec![
        entry("exportedAt".to_owned(), metadata.exported_at)?,
        entry("producer".to_owned(), metadata.producer)?,
        entry("session/sessionId".to_owned(), parts.session_id)?,
        entry("session/events".to_owned(), parts.events)?,
        entry("session/manifest".to_owned(), parts.manifest)?,
    ];
    if let Some(salvaged) = metadata.salvaged {
        entries.push(entry("salvaged".to_owned(), salvaged)?);
    }
    for (key, snapshot) in parts.snapshots {
        entries.push(entry(snapshot_path(key), snapshot)?);
    }
    for (key, workflow) in parts.pinned_workflows {
        entries.push(entry(workflow_path(key), workflow)?);
    }
    for (key, artifact) in parts.artifacts {
        entries.push(entry(artifact_path(key), artifact)?);
    }
    entries.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(entries)
}

pub(super) fn snapshot_path(key: impl Display) -> String {
    format!("session/snapshots/{key}")
}

pub(super) fn workflow_path(key: impl Display) -> String {
    format!("session/pinnedWorkflows/{key}")
}

pub(super) fn artifact_path(key: impl Display) -> String {
    format!("session/artifacts/{key}")
}

fn entry<T: Serialize + ?Sized>(path: String, value: &T) -> Result<IntegrityEntry, BundleError> {
    match canonical::to_vec(value) {
        Ok(bytes) => Ok(IntegrityEntry { path, sha256: Digest::of_bytes(&bytes), bytes: bytes.len() as u64 }),
        Err(cause) => Err(BundleError::NotCanonical { path, cause: cause.to_string() }),
    }
}

/// The id of a bundle: exports of the same content have the same id, regardless of the time and the program
/// version.
pub(super) fn bundle_id(entries: &[IntegrityEntry]) -> String {
    let digests: Vec<String> = entries
        .iter()
        .filter(|entry| entry.path.starts_with("session/"))
        .map(|entry| entry.sha256.to_string())
        .collect();
    derive_id("bundle_", &digests.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Rejects any list of entries that differs from the computed one.
pub(super) fn compare(given: &[IntegrityEntry], computed: &[IntegrityEntry]) -> Result<(), BundleError> {
    let failed = |path: &str, problem| Err(BundleError::Integrity { path: path.to_owned(), problem });
    let mut given = given.iter();
    for expected in computed {
        match given.next() {
            Some(entry) if entry == expected => {}
            Some(entry) if entry.path == expected.path => {
                return failed(&entry.path, "does not match its digest or length");
            }
            Some(entry) if entry.path < expected.path => {
                return failed(&entry.path, "has an integrity entry but is missing or out of order");
            }
            _ => return failed(&expected.path, "has no integrity entry"),
        }
    }
    match given.next() {
        Some(entry) => failed(&entry.path, "has an integrity entry but is missing or out of order"),
        None => Ok(()),
    }
}
