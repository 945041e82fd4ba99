//! Why a bundle is refused.

use canon::error::Envelope;

use super::{BUNDLE_VERSION, INTEGRITY_KIND};
use crate::plan::UnfinishedAdvance;
use crate::record::{DecodeError, SnapshotRef, WorkflowHash};
use crate::state::FoldError;

canon::error_codes! {
    /// The reasons for refusing a bundle that programs can tell apart.
    pub enum BundleErrorCode {
        /// The file is not a bundle, or too large for one.
        InvalidFormat => "BUNDLE_INVALID_FORMAT",
        /// The bundle, or something in it, is of a version that this program does not know.
        UnsupportedVersion => "BUNDLE_UNSUPPORTED_VERSION",
        /// The content is not what was exported.
        IntegrityFailed => "BUNDLE_INTEGRITY_FAILED",
        /// A node's state is not in the bundle.
        MissingSnapshot => "BUNDLE_MISSING_SNAPSHOT",
        /// A run's workflow is not in the bundle.
        MissingPinnedWorkflow => "BUNDLE_MISSING_PINNED_WORKFLOW",
        /// The events are not the whole history of one session.
        EventOrderInvalid => "BUNDLE_EVENT_ORDER_INVALID",
        /// The manifest does not attest the events.
        ManifestOrderInvalid => "BUNDLE_MANIFEST_ORDER_INVALID",
    }
}

/// Why a bundle is refused.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// Not JSON, or not strictly.
    #[error("the bundle is not strict JSON")]
    NotJson {
        #[source]
        cause: canon::json::ReadError,
    },
    /// Nothing says which version it is.
    #[error("the bundle has no `bundleSchemaVersion`")]
    NoVersion,
    /// Not of the shape of a bundle.
    #[error("the bundle does not have the shape of one")]
    Shape {
        /// What is wrong.
        #[source]
        cause: serde_json::Error,
    },
    /// More than a bundle may have.
    #[error("the bundle has {measured} {what}, and at most {maximum} are allowed")]
    TooLarge {
        what: &'static str,
        measured: usize,
        /// How many there may be.
        maximum: usize,
    },
    /// A value without one canonical form has no digest.
    #[error("`{path}` has no canonical JSON: {cause}")]
    NotCanonical {
        /// Which part.
        path: String,
        cause: String,
    },
    /// A record that does not decode.
    #[error("`{path}` does not decode")]
    Record {
        /// Which part.
        path: String,
        #[source]
        cause: DecodeError,
    },
    /// Something that no event needs.
    #[error("`{path}` is not needed by any event")]
    Unneeded {
        /// Which part.
        path: String,
    },
    /// A key cannot be rewritten for the new session.
    #[error("event {index} has a dedupe key that cannot be rewritten for the new session")]
    DedupeKey {
        /// Which event.
        index: u64,
    },
    /// Of a later version.
    #[error("version {version} of the {what} is not known; this program reads version {BUNDLE_VERSION}")]
    UnsupportedVersion { what: &'static str, version: u64 },
    /// Attested in an unknown way.
    #[error("the integrity of the bundle is not of the kind `{INTEGRITY_KIND}`")]
    UnsupportedIntegrity,
    /// A part that is not what was exported.
    #[error("`{path}` {problem}")]
    Integrity {
        /// Which part.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A state that is not there.
    #[error("snapshot {snapshot} is needed by event {index} and not in the bundle")]
    MissingSnapshot {
        snapshot: SnapshotRef,
        /// Who needs it.
        index: u64,
    },
    /// A workflow that is not there.
    #[error("workflow {workflow} is needed by event {index} and not in the bundle")]
    MissingPinnedWorkflow {
        workflow: WorkflowHash,
        /// Who needs it.
        index: u64,
    },
    /// A session has at least the event that it exists.
    #[error("the bundle has no events")]
    NoEvents,
    /// An event cannot follow the ones before it.
    #[error("event {index} cannot follow the ones before it")]
    EventOrder {
        /// Where, counted from 0.
        index: usize,
        #[source]
        cause: Box<FoldError>,
    },
    /// An advance without the node and the edge that it leads to.
    #[error("a segment tells of an advance that it does not make")]
    UnfinishedAdvance {
        #[source]
        cause: UnfinishedAdvance,
    },
    /// The manifest breaks a rule.
    #[error("manifest record {index} breaks the order of the manifest: {rule}")]
    ManifestOrder {
        /// Where, counted from 0.
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

    /// The error as a caller is told it, with what lies behind it among the details.
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
