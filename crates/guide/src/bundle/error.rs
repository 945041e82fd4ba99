//! Errors of bundles.

use canon::error::Envelope;

use super::{BUNDLE_VERSION, INTEGRITY_KIND};
use crate::plan::UnfinishedAdvance;
use crate::record::{DecodeError, SnapshotRef, WorkflowHash};
use crate::state::FoldError;

canon::error_codes! {
    pub enum BundleErrorCode {
        /// The file is not a bundle, or it is too large.
        InvalidFormat => "BUNDLE_INVALID_FORMAT",
        /// The version of the bundle, or of something in it, is unknown.
        UnsupportedVersion => "BUNDLE_UNSUPPORTED_VERSION",
        /// The content is not what was exported.
        IntegrityFailed => "BUNDLE_INTEGRITY_FAILED",
        /// The snapshot of a node is missing.
        MissingSnapshot => "BUNDLE_MISSING_SNAPSHOT",
        /// The workflow of a run is missing.
        MissingPinnedWorkflow => "BUNDLE_MISSING_PINNED_WORKFLOW",
        /// The events are not the complete history of one session.
        EventOrderInvalid => "BUNDLE_EVENT_ORDER_INVALID",
        /// The manifest does not attest the events.
        ManifestOrderInvalid => "BUNDLE_MANIFEST_ORDER_INVALID",
    }
}

/// Why a bundle is rejected.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("the bundle is not strict JSON")]
    NotJson {
        #[source]
        cause: canon::json::ReadError,
    },
    /// The version is missing.
    #[error("the bundle has no `bundleSchemaVersion`")]
    NoVersion,
    /// A field is missing, unknown or has the wrong type.
    #[error("the bundle has an invalid structure")]
    Shape {
        #[source]
        cause: serde_json::Error,
    },
    /// A limit is exceeded.
    #[error("the bundle has {measured} {what}; the limit is {maximum}")]
    TooLarge { what: &'static str, measured: usize, maximum: usize },
    /// A value has no canonical form, so it has no digest.
    #[error("`{path}` has no canonical JSON form: {cause}")]
    NotCanonical { path: String, cause: String },
    /// A record cannot be decoded.
    #[error("`{path}` cannot be decoded")]
    Record {
        path: String,
        #[source]
        cause: DecodeError,
    },
    /// No event needs this object.
    #[error("`{path}` is not needed by any event")]
    Unneeded { path: String },
    /// A dedupe key cannot be rewritten for the new session.
    #[error("event {index} has a dedupe key that cannot be rewritten for the new session")]
    DedupeKey { index: u64 },
    /// The version is unknown.
    #[error("unknown {what} version {version}; this program reads version {BUNDLE_VERSION}")]
    UnsupportedVersion { what: &'static str, version: u64 },
    /// The kind of integrity attestation is unknown.
    #[error("the integrity kind of the bundle is not `{INTEGRITY_KIND}`")]
    UnsupportedIntegrity,
    /// A part differs from what was exported.
    #[error("`{path}` {problem}")]
    Integrity {
        path: String,
        /// What is wrong, as a predicate of `path`.
        problem: &'static str,
    },
    #[error("event {index} needs snapshot {snapshot}, which is not in the bundle")]
    MissingSnapshot {
        snapshot: SnapshotRef,
        /// The event that needs it.
        index: u64,
    },
    #[error("event {index} needs workflow {workflow}, which is not in the bundle")]
    MissingPinnedWorkflow {
        workflow: WorkflowHash,
        /// The event that needs it.
        index: u64,
    },
    /// A session has at least the event `session_created`.
    #[error("the bundle has no events")]
    NoEvents,
    /// An event is not valid after the previous ones.
    #[error("event {index} is not valid after the previous events")]
    EventOrder {
        /// The zero-based index.
        index: usize,
        #[source]
        cause: Box<FoldError>,
    },
    /// An advance without its node and edge.
    #[error("a segment contains an incomplete advance")]
    UnfinishedAdvance {
        #[source]
        cause: UnfinishedAdvance,
    },
    /// The manifest violates a rule.
    #[error("manifest record {index} is invalid: {rule}")]
    ManifestOrder {
        /// The zero-based index.
        index: usize,
        rule: &'static str,
    },
}

impl BundleError {
    /// The code that programs branch on.
    pub const fn code(&self) -> BundleErrorCode {
        match self {
            Self::NotJson { .. }
            | Self::NoVersion
            | Self::Shape { .. }
            | Self::TooLarge { .. }
            | Self::NotCanonical { .. }
            | Self::Record { .. }
            | Self::Unneeded { .. }
            | Self::DedupeKey { .. } => BundleErrorCode::InvalidFormat,
            Self::UnsupportedVersion { .. } | Self::UnsupportedIntegrity => {
                BundleErrorCode::UnsupportedVersion
            }
            Self::Integrity { .. } => BundleErrorCode::IntegrityFailed,
            Self::MissingSnapshot { .. } => BundleErrorCode::MissingSnapshot,
            Self::MissingPinnedWorkflow { .. } => BundleErrorCode::MissingPinnedWorkflow,
            Self::NoEvents | Self::EventOrder { .. } | Self::UnfinishedAdvance { .. } => {
                BundleErrorCode::EventOrderInvalid
            }
            Self::ManifestOrder { .. } => BundleErrorCode::ManifestOrderInvalid,
        }
    }

    /// The error envelope for the caller, with the cause in its details.
    pub fn envelope(&self) -> Envelope {
        let mut envelope = Envelope::new(self.code(), self.to_string()).suggest(self.suggestion());
        if let Some(cause) = std::error::Error::source(self) {
            envelope = envelope.detail("cause", cause.to_string());
        }
        match self {
            Self::NotJson { cause } => {
                envelope.detail("line", cause.position.line).detail("offset", cause.position.offset)
            }
            Self::TooLarge { measured, maximum, .. } => {
                envelope.detail("measured", *measured).detail("maximum", *maximum)
            }
            Self::NotCanonical { path, .. }
            | Self::Record { path, .. }
            | Self::Unneeded { path }
            | Self::Integrity { path, .. } => envelope.detail("path", path.as_str()),
            Self::UnsupportedVersion { version, .. } => {
                envelope.detail("version", *version).detail("known", BUNDLE_VERSION)
            }
            Self::MissingSnapshot { snapshot, index } => {
                envelope.detail("snapshotRef", snapshot.to_string()).detail("eventIndex", *index)
            }
            Self::MissingPinnedWorkflow { workflow, index } => {
                envelope.detail("workflowHash", workflow.to_string()).detail("eventIndex", *index)
            }
            Self::DedupeKey { index } => envelope.detail("eventIndex", *index),
            Self::EventOrder { index, .. } | Self::ManifestOrder { index, .. } => {
                envelope.detail("index", *index)
            }
            Self::UnfinishedAdvance { cause } => envelope.detail("index", cause.index.0),
            Self::NoVersion | Self::Shape { .. } | Self::UnsupportedIntegrity | Self::NoEvents => envelope,
        }
    }

    const fn suggestion(&self) -> &'static str {
        match self.code() {
            BundleErrorCode::InvalidFormat => {
                "Export the session again with `interlock session export ID -o FILE`, and import that \
                 file unchanged. Nothing was imported."
            }
            BundleErrorCode::UnsupportedVersion => {
                "Import the file with the version of the program that exported it, or a newer one. \
                 Nothing was imported."
            }
            BundleErrorCode::IntegrityFailed => {
                "The file was changed or damaged after it was exported: copy it again from where it was \
                 made, or export the session again. Nothing was imported."
            }
            BundleErrorCode::MissingSnapshot | BundleErrorCode::MissingPinnedWorkflow => {
                "Run `interlock session verify ID` where the session was exported, and export it again \
                 once that reports no damage. Nothing was imported."
            }
            BundleErrorCode::EventOrderInvalid | BundleErrorCode::ManifestOrderInvalid => {
                "Do not edit or merge bundles: export the session again. Nothing was imported."
            }
        }
    }
}
