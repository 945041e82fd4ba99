//! Bundles: a session as one JSON document that another machine can continue.
//!
//! A bundle contains the events and the manifest of a session and everything they refer to: the complete
//! snapshots, the compiled workflows, and the artifacts that were too large for their events. It contains no
//! tokens: tokens only refer to the session, and the importing host issues new ones.
//!
//! ```text
//! bundleSchemaVersion  1
//! bundleId             derived from the session's integrity entries: equal content, equal id
//! exportedAt           informational; never orders anything
//! producer             informational: appVersion, appliedConfigHash?
//! integrity            kind sha256_manifest_v1, entries [{path, sha256, bytes}] sorted by path
//! session              sessionId, events, manifest, snapshots, pinnedWorkflows, artifacts?
//! salvaged             only if the session is the intact part of a damaged one: sessionId, reason, problem
//! ```
//!
//! # What is checked
//! [`read`] and [`build`] apply the same rules. So nothing can be exported that could not be imported, and a
//! [`Bundle`] is the proof that the rules hold.
//!
//! * **Integrity.** The digest and the length of each entry are those of the canonical JSON at its path. The
//!   list has exactly the expected entries, in order. It also covers `exportedAt`, `producer`, `salvaged` and
//!   `session/sessionId`, so every changed byte is detected, except insignificant white space.
//! * **Events** decode strictly, and the engine's own [state](crate::state) accepts them one by one: dense
//!   indexes, one session, unique dedupe keys, no reference to a node that does not exist.
//! * **Manifest** records have dense indexes. Their segments are adjacent, cover exactly the events, and have
//!   the paths derived from their indexes. A pin names the `node_created` event that introduced its snapshot
//!   and follows the segment of that event. All snapshots of a segment are pinned before the next segment.
//! * **Snapshots, workflows and artifacts** are exactly those that the events need, each under its own
//!   digest.
//!
//! The `sha256` and `bytes` of a segment record are not checked. They attest a file on the exporting machine.
//! An import writes new segments with new attestations, and within the bundle the integrity entry covers the
//! events.

mod check;
mod decode;
mod error;
mod import;
mod integrity;
mod salvaged;
mod schema;

use std::collections::BTreeMap;

use canon::{canonical, digest::Digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    decode::read,
    error::{BundleError, BundleErrorCode},
    import::{ImportPlan, ImportSegment, as_is, as_new},
    integrity::IntegrityEntry,
    salvaged::{SALVAGED_PROBLEM_BYTES, Salvaged},
};
use crate::record::{Event, ExecutionSnapshot, ManifestRecord, SessionId, SnapshotRef, WorkflowHash};
use crate::workflow::compiled::CompiledWorkflow;

/// The version of the bundle format.
pub const BUNDLE_VERSION: u64 = 1;
/// The maximum size of a bundle in bytes. A session of ten thousand steps needs about a tenth of it.
pub const BUNDLE_BYTES: usize = 256 << 20;
/// The maximum number of events: the limit of a session.
pub const BUNDLE_EVENTS: usize = 1 << 20;
/// The maximum number of manifest records: a segment and a pin for each event.
pub const BUNDLE_RECORDS: usize = 2 << 20;
/// The maximum number of snapshots, and of artifacts: one for each event.
pub const BUNDLE_OBJECTS: usize = 1 << 20;
/// The maximum number of compiled workflows.
pub const BUNDLE_WORKFLOWS: usize = 1024;
/// The maximum length of an informational string, in bytes.
pub const BUNDLE_TEXT_BYTES: usize = 256;

/// The kind of integrity attestation.
const INTEGRITY_KIND: &str = "sha256_manifest_v1";

/// The program that made a bundle. Informational.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Producer {
    /// The version of the program.
    pub app_version: String,
    /// The digest of the program's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_config_hash: Option<Digest>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundledSession {
    pub session_id: SessionId,
    /// In index order.
    pub events: Vec<Event>,
    /// In index order.
    pub manifest: Vec<ManifestRecord>,
    /// The complete snapshots that the nodes need.
    pub snapshots: BTreeMap<SnapshotRef, ExecutionSnapshot>,
    /// The workflows that the runs are pinned to.
    pub pinned_workflows: BTreeMap<WorkflowHash, CompiledWorkflow>,
    /// The artifacts whose content is not stored in their events.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<Digest, Value>,
}

/// A validated exported session.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    bundle_id: String,
    exported_at: String,
    producer: Producer,
    salvaged: Option<Salvaged>,
    integrity: Vec<IntegrityEntry>,
    session: BundledSession,
}

/// Builds a bundle from a session.
///
/// Snapshots, workflows and artifacts that the events do not need are left out, so callers may pass more than
/// needed.
///
/// # Errors
/// The errors of [`read`] for the result: something is missing, out of order or too large.
pub fn build(session: BundledSession, producer: Producer, exported_at: &str) -> Result<Bundle, BundleError> {
    build_part(session, None, producer, exported_at)
}

/// Builds a bundle from the intact part of a damaged session, or from a session that was imported from such a
/// part.
///
/// # Errors
/// As [`build`].
pub fn build_part(
    mut session: BundledSession,
    salvaged: Option<Salvaged>,
    producer: Producer,
    exported_at: &str,
) -> Result<Bundle, BundleError> {
    let needs = check::Needs::of(&session.events);
    session.snapshots.retain(|key, _| needs.snapshots.contains(key));
    session.pinned_workflows.retain(|key, _| needs.workflows.contains(key));
    session.artifacts.retain(|key, _| needs.artifacts.contains_key(key));
    check::counts(&session, &producer, exported_at)?;
    salvaged.as_ref().map_or(Ok(()), Salvaged::check)?;
    let metadata = integrity::Metadata { exported_at, producer: &producer, salvaged: salvaged.as_ref() };
    let integrity = integrity::entries(metadata, &integrity::Parts::of(&session))?;
    check::content_addresses(&session, &integrity)?;
    check::session(&session)?;
    let bundle_id = integrity::bundle_id(&integrity);
    let exported_at = exported_at.to_owned();
    let bundle = Bundle { bundle_id, exported_at, producer, salvaged, integrity, session };
    let measured = bundle.to_json()?.len();
    if measured > BUNDLE_BYTES {
        return Err(BundleError::TooLarge { what: "bytes", measured, maximum: BUNDLE_BYTES });
    }
    Ok(bundle)
}

impl Bundle {
    /// Derived from the content of the session.
    pub fn bundle_id(&self) -> &str {
        &self.bundle_id
    }

    /// When the bundle was made, as the producer wrote it.
    pub fn exported_at(&self) -> &str {
        &self.exported_at
    }

    /// The program that made the bundle.
    pub const fn producer(&self) -> &Producer {
        &self.producer
    }

    /// Why the bundle contains only a part of a session, if so.
    pub const fn salvaged(&self) -> Option<&Salvaged> {
        self.salvaged.as_ref()
    }

    /// Whether an import may keep the session id.
    ///
    /// A part of a session must get a new id. Otherwise a token of the complete session could refer to a node
    /// in it whose acknowledged outcome is missing, and the same call would be decided a second time.
    pub const fn keeps_its_id(&self) -> bool {
        self.salvaged.is_none()
    }

    /// The integrity entries of the content.
    pub fn integrity(&self) -> &[IntegrityEntry] {
        &self.integrity
    }

    pub const fn session(&self) -> &BundledSession {
        &self.session
    }

    pub fn into_session(self) -> BundledSession {
        self.session
    }

    /// The document as canonical JSON, so equal bundles are equal files.
    ///
    /// # Errors
    /// A value is nested too deeply inside the bundle. This cannot happen for a bundle that was read or
    /// built.
    pub fn to_json(&self) -> Result<String, BundleError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            bundle_schema_version: u64,
            bundle_id: &'a str,
            exported_at: &'a str,
            producer: &'a Producer,
            #[serde(skip_serializing_if = "Option::is_none")]
            salvaged: Option<&'a Salvaged>,
            integrity: WireIntegrity<'a>,
            session: &'a BundledSession,
        }
        #[derive(Serialize)]
        struct WireIntegrity<'a> {
            kind: &'static str,
            entries: &'a [IntegrityEntry],
        }
        canonical::to_string(&Wire {
            bundle_schema_version: BUNDLE_VERSION,
            bundle_id: &self.bundle_id,
            exported_at: &self.exported_at,
            producer: &self.producer,
            salvaged: self.salvaged.as_ref(),
            integrity: WireIntegrity { kind: INTEGRITY_KIND, entries: &self.integrity },
            session: &self.session,
        })
        .map_err(|cause| BundleError::NotCanonical { path: "bundle".to_owned(), cause: cause.to_string() })
    }
}
