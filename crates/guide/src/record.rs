//! The durable types: events, manifest records and execution snapshots.
//!
//! These types *define* the format. They serialize to the bytes on disk, their JSON Schemas are generated
//! from them, and a record that was ever written stays readable. Closed sets are enums; limits are constants
//! in [`budgets`] with their reasons.

mod assessment;
mod blocker;
pub mod budgets;
mod capability;
mod dedupe;
mod event;
mod gap;
mod ids;
mod manifest;
mod names;
mod output;
mod preference;
mod snapshot;
mod step_set;
mod trace;

pub use assessment::{AssessedDimension, Normalization, ValidationResult};
pub use blocker::{Blocker, BlockerCode, BlockerReport, Pointer, ReportError};
pub use capability::{
    AttemptContext, Capability, CapabilityStatus, ClaimDetail, ClaimedBy, ClaimedStatus, EnforcementGrade,
    FailureCode, ProbeDetail, Provenance, UseDetail, UseResult,
};
pub use dedupe::{DedupeKey, DedupeKeyError};
pub use event::{
    AdvanceIntent, AdvanceOutcome, Confidence, ContextSource, DecodeError, DivergenceReason, EVENT_VERSION,
    EdgeCause, EdgeCauseKind, EdgeKind, Event, EventData, NodeKind, ObservationKey, ObservationValue, Scope,
    WorkflowSourceKind,
};
pub use gap::{
    EvidenceRef, GapDetail, GapReason, GapResolution, GapSeverity, NonAssumableChoiceKind, UserOnlyDependency,
};
pub use ids::{
    AttemptId, ContextId, EventId, EventIndex, GapId, ManifestIndex, NodeId, OutputId, RunId, SessionId,
    TraceId, WorkflowHash, derive_id,
};
pub use manifest::{MANIFEST_VERSION, ManifestRecord, PinRecord, SegmentRecord, segment_rel_path};
pub use names::{DelimiterSafe, NameError, StepName};
pub use output::{ArtifactRef, OutputChannel, OutputPayload};
pub use preference::{Autonomy, PreferenceChange, PreferenceSource, Preferences, RiskPolicy};
pub use snapshot::{
    Block, BlockReason, Blocked, CompletedSteps, EnginePayload, EngineState, ExecutionSnapshot, LoopFrame,
    LoopPathEntry, Pending, PendingStep, Running, SNAPSHOT_VERSION, SnapshotKind, SnapshotRef,
    StepInstanceKey,
};
pub use step_set::StepSet;
pub use trace::{LOOP_DID_NOT_RUN, SKIPPED, STILL_SKIPPED, TraceEntry, TraceKind, TraceRef};
