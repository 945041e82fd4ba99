//! Reads a bundle from bytes.

use std::collections::BTreeMap;

use canon::{digest::Digest, json};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::integrity::{self, IntegrityEntry, Metadata, Parts};
use super::{
    BUNDLE_BYTES, BUNDLE_VERSION, Bundle, BundleError, BundledSession, INTEGRITY_KIND, Producer, Salvaged,
    check,
};
use crate::record::{DecodeError, Event, ExecutionSnapshot, ManifestRecord, SessionId, SnapshotRef};
use crate::workflow::compiled::{COMPILED_VERSION, CompiledWorkflow};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    #[serde(rename = "bundleSchemaVersion")]
    _version: u64,
    bundle_id: String,
    exported_at: String,
    producer: Producer,
    #[serde(default, deserialize_with = "present")]
    salvaged: Option<Salvaged>,
    integrity: WireIntegrity,
    session: WireSession,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireIntegrity {
    kind: String,
    entries: Vec<IntegrityEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireSession {
    session_id: SessionId,
    events: Vec<Value>,
    manifest: Vec<Value>,
    snapshots: BTreeMap<Digest, Value>,
    pinned_workflows: BTreeMap<Digest, Value>,
    #[serde(default)]
    artifacts: BTreeMap<Digest, Value>,
}

/// Reads a bundle and validates all of it.
///
/// The checks run in this order: size, JSON, version, structure, integrity of the raw values, and only then
/// their meaning.
///
/// # Errors
/// The first of the [rules](super) that is violated.
pub fn read(bytes: &[u8]) -> Result<Bundle, BundleError> {
    if bytes.len() > BUNDLE_BYTES {
        return Err(BundleError::TooLarge { what: "bytes", measured: bytes.len(), maximum: BUNDLE_BYTES });
    }
    let value = json::read(bytes, &json::Limits::DEFAULT.max_bytes(BUNDLE_BYTES))
        .map_err(|cause| BundleError::NotJson { cause })?;
    match value.get("bundleSchemaVersion").map(Value::as_u64) {
        Some(Some(BUNDLE_VERSION)) => {}
        Some(Some(version)) => return Err(BundleError::UnsupportedVersion { what: "bundle", version }),
        _ => return Err(BundleError::NoVersion),
    }
    let wire: Wire = serde_json::from_value(value).map_err(|cause| BundleError::Shape { cause })?;
    if wire.integrity.kind != INTEGRITY_KIND {
        return Err(BundleError::UnsupportedIntegrity);
    }
    let WireSession { session_id, events, manifest, snapshots, pinned_workflows, artifacts } = wire.session;
    let counts = check::Counts {
        events: events.len(),
        records: manifest.len(),
        snapshots: snapshots.len(),
        workflows: pinned_workflows.len(),
        artifacts: artifacts.len(),
    };
    counts.check(&wire.producer, &wire.exported_at)?;
    wire.salvaged.as_ref().map_or(Ok(()), Salvaged::check)?;

    let parts = Parts {
        session_id: session_id.as_str(),
        events: &events,
        manifest: &manifest,
        snapshots: &snapshots,
        pinned_workflows: &pinned_workflows,
        artifacts: &artifacts,
    };
    let metadata = Metadata {
        exported_at: &wire.exported_at,
        producer: &wire.producer,
        salvaged: wire.salvaged.as_ref(),
    };
    let computed = integrity::entries(metadata, &parts)?;
    integrity::compare(&wire.integrity.entries, &computed)?;
    if wire.bundle_id != integrity::bundle_id(&computed) {
        return Err(BundleError::Integrity {
            path: "bundleId".to_owned(),
            problem: "does not match the content",
        });
    }

    let session = BundledSession {
        session_id,
        events: decode_list("session/events", events, Event::from_value)?,
        manifest: decode_list("session/manifest", manifest, ManifestRecord::from_value)?,
        snapshots: decode_map(snapshots, |key, value| {
            let snapshot = snapshot(value).map_err(|cause| record(&integrity::snapshot_path(key), cause))?;
            Ok((SnapshotRef(key), snapshot))
        })?,
        pinned_workflows: decode_map(pinned_workflows, |key, value| Ok((key, workflow(key, value)?)))?,
        artifacts,
    };
    check::content_addresses(&session, &computed)?;
    check::session(&session)?;
    Ok(Bundle {
        bundle_id: wire.bundle_id,
        exported_at: wire.exported_at,
        producer: wire.producer,
        salvaged: wire.salvaged,
        integrity: computed,
        session,
    })
}

/// Rejects `null` for a field that is present: it would say neither that the session is complete nor why it
/// is not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Salvaged>, D::Error> {
    Salvaged::deserialize(deserializer).map(Some)
}

fn decode_list<T>(
    path: &str,
    values: Vec<Value>,
    decode: impl Fn(Value) -> Result<T, DecodeError>,
) -> Result<Vec<T>, BundleError> {
    let decoded = values.into_iter().enumerate();
    decoded
        .map(|(index, value)| decode(value).map_err(|cause| record(&format!("{path}/{index}"), cause)))
        .collect()
}

fn decode_map<K: Ord, T>(
    values: BTreeMap<Digest, Value>,
    decode: impl Fn(Digest, Value) -> Result<(K, T), BundleError>,
) -> Result<BTreeMap<K, T>, BundleError> {
    values.into_iter().map(|(key, value)| decode(key, value)).collect()
}

/// Reads a snapshot, whether or not its set of completed steps has the field `kind`. Ignoring `kind` is safe:
/// the snapshot is serialized again afterwards, including `kind`, and must have the digest that it is stored
/// under.
fn snapshot(mut value: Value) -> Result<ExecutionSnapshot, DecodeError> {
    let read = ExecutionSnapshot::from_value(value.clone());
    if !matches!(read, Err(DecodeError::Shape { .. })) {
        return read;
    }
    match value.pointer_mut("/enginePayload/engineState/completed").and_then(Value::as_object_mut) {
        Some(completed) => drop(completed.remove("kind")),
        None => return read,
    }
    ExecutionSnapshot::from_value(value).or(read)
}

fn workflow(key: Digest, value: Value) -> Result<CompiledWorkflow, BundleError> {
    match value.get("schemaVersion").and_then(Value::as_u64) {
        Some(version) if version != u64::from(COMPILED_VERSION) => {
            return Err(BundleError::UnsupportedVersion { what: "compiled workflow", version });
        }
        _ => {}
    }
    serde_json::from_value(value)
        .map_err(|cause| record(&integrity::workflow_path(key), DecodeError::Shape { cause }))
}

fn record(path: &str, cause: DecodeError) -> BundleError {
    match cause {
        DecodeError::UnknownVersion { version, .. } => {
            BundleError::UnsupportedVersion { what: "record", version }
        }
        cause => BundleError::Record { path: path.to_owned(), cause },
    }
}
