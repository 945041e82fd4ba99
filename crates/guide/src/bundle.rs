//! Bundles: a session as one JSON document that another machine can go on from.
//!
//! A bundle holds the events and the manifest of a session, and everything they point at: the
//! snapshots, whole; the compiled workflows; the artifacts that were too large for their events.
//! It holds no tokens. Tokens only point, and whoever imports the session makes fresh ones.
//!
//! ```text
//! bundleSchemaVersion  1
//! bundleId             follows from the session's integrity entries: equal content, equal id
//! exportedAt           informational; never orders anything
//! producer             informational: appVersion, appliedConfigHash?
//! integrity            kind sha256_manifest_v1, entries [{path, sha256, bytes}] sorted by path
//! session              sessionId, events, manifest, snapshots, pinnedWorkflows, artifacts?
//! salvaged             only if the session is a part of a damaged one: sessionId, reason, problem
//! ```
//!
//! # What is checked
//! [`read`] and [`build`] apply the same rules, so nothing can be exported that could not be
//! imported, and a [`Bundle`] is the proof that they hold.
//!
//! * **Integrity.** Each entry's digest and length are those of the canonical JSON of what its
//!   path names. The list is exactly the expected one: none missing, none extra, in order. It
//!   covers `exportedAt`, `producer`, `salvaged` and `session/sessionId` too, so a flipped byte anywhere is
//!   noticed, or meant nothing (white space).
//! * **Events** decode strictly, and the engine's own [fold](crate::state) takes them one by one:
//!   dense indexes, one session, no key twice, nothing about a node that does not exist.
//! * **Manifest** records have dense indexes, attest adjoining segments that cover exactly the
//!   events, under the paths that follow from their indexes. A pin names the `node_created` event
//!   that introduced its snapshot, after the segment of that event, and before the next segment
//!   everything the last one needs is pinned.
//! * **Snapshots, workflows and artifacts** are those that the events need, no more and no
//!   fewer, each under its own digest.
//!
//! Not checked are `sha256` and `bytes` of a segment record. They attest a file on the machine
//! that exported; an import writes new segments with new attestations, and within the bundle the
//! integrity entry of the events says what those numbers would say.

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
/// The longest bundle. A session of ten thousand steps has about a tenth of it.
pub const BUNDLE_BYTES: usize = 256 << 20;
/// The most events of a bundle: as many as a session holds.
pub const BUNDLE_EVENTS: usize = 1 << 20;
/// The most manifest records of a bundle: a segment or a pin for each event, twice over.
pub const BUNDLE_RECORDS: usize = 2 << 20;
/// The most snapshots, and the most artifacts, of a bundle: one for each event.
pub const BUNDLE_OBJECTS: usize = 1 << 20;
/// The most compiled workflows of a bundle.
pub const BUNDLE_WORKFLOWS: usize = 1024;
/// The longest informational text of a bundle.
pub const BUNDLE_TEXT_BYTES: usize = 256;

/// The way in which integrity is attested.
const INTEGRITY_KIND: &str = "sha256_manifest_v1";

/// Who made a bundle. Informational.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Producer {
    /// The version of the program.
    pub app_version: String,
    /// The digest of its settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_config_hash: Option<Digest>,
}

/// Everything a bundle carries of a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundledSession {
    pub session_id: SessionId,
    /// Its events, in order.
    pub events: Vec<Event>,
    /// Its manifest, in order.
    pub manifest: Vec<ManifestRecord>,
    /// The snapshots that its nodes need, whole.
    pub snapshots: BTreeMap<SnapshotRef, ExecutionSnapshot>,
    /// The workflows that its runs are pinned to.
    pub pinned_workflows: BTreeMap<WorkflowHash, CompiledWorkflow>,
    /// The artifacts whose content is not in their events.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<Digest, Value>,
}

/// A session on its way to another machine, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    bundle_id: String,
    exported_at: String,
    producer: Producer,
    salvaged: Option<Salvaged>,
    integrity: Vec<IntegrityEntry>,
    session: BundledSession,
}

/// Makes a bundle of a session.
///
/// Snapshots, workflows and artifacts that the events do not need are left out, so a caller may
/// hand over more than it has to.
///
/// # Errors
/// As [`read`] would refuse the result: something is missing, out of order or too large.
pub fn build(session: BundledSession, producer: Producer, exported_at: &str) -> Result<Bundle, BundleError> {
    build_part(session, None, producer, exported_at)
}

/// Makes a bundle of what is left of a session, or of one that was made of such a part.
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
    let about = integrity::About { exported_at, producer: &producer, salvaged: salvaged.as_ref() };
    let integrity = integrity::entries(about, &integrity::Parts::of(&session))?;
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
    /// Follows from the content of the session.
    pub fn bundle_id(&self) -> &str {
        &self.bundle_id
    }

    /// When it was made, as the producer wrote it.
    pub fn exported_at(&self) -> &str {
        &self.exported_at
    }

    /// Who made it.
    pub const fn producer(&self) -> &Producer {
        &self.producer
    }

    /// Why the session is only a part, if it is.
    pub const fn salvaged(&self) -> Option<&Salvaged> {
        self.salvaged.as_ref()
    }

    /// Whether an import may give the session the id that it had.
    ///
    /// A part of a session may not: a token of the whole would find a place there at which an outcome that
    /// was acknowledged is missing, and the same call would be decided a second time.
    pub const fn keeps_its_id(&self) -> bool {
        self.salvaged.is_none()
    }

    /// What attests its content.
    pub fn integrity(&self) -> &[IntegrityEntry] {
        &self.integrity
    }

    /// What it carries.
    pub const fn session(&self) -> &BundledSession {
        &self.session
    }

    /// What it carries.
    pub fn into_session(self) -> BundledSession {
        self.session
    }

    /// The document: canonical JSON, so that equal bundles are equal files.
    ///
    /// # Errors
    /// A value that is nested too deep once it stands inside the bundle. No bundle that was read
    /// has one, and neither has one that was built.
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
