//! The kinds of launch failures.

use crate::Code;
use crate::manifest::vocabulary::closed;

closed! {
    /// Why a launch failed, by kind. More kinds may be added.
    LaunchFailureKind {
        /// Invalid manifest, request, environment, skill or template.
        ConfigResolutionFailed => "config_resolution_failed",
        /// The requested launch is impossible.
        LaunchSelectionInvalid => "launch_selection_invalid",
        /// No worker was free in time.
        WorkerAcquireTimeout => "worker_acquire_timeout",
        /// No worker was available.
        WorkerAcquireRejected => "worker_acquire_rejected",
        /// The worker is gone.
        WorkerAllocationLost => "worker_allocation_lost",
        /// The workspace could not be applied.
        ProvisionFailed => "provision_failed",
        /// The worker could not start the agent.
        BootstrapFailed => "bootstrap_failed",
        /// The worker sent an invalid response.
        BootstrapContractBroken => "bootstrap_contract_broken",
        /// A valid snapshot could not be restored.
        WorkspaceRestoreFailed => "workspace_restore_failed",
        /// A snapshot is damaged.
        WorkspaceSnapshotCorrupt => "workspace_snapshot_corrupt",
        /// No model provider is usable.
        NoUsableProvider => "no_usable_provider",
        /// The agent does not exist.
        AgentUnavailable => "agent_unavailable",
        /// It timed out.
        DeadlineExceeded => "deadline_exceeded",
        /// The state did not allow it.
        IllegalTransition => "illegal_transition",
        /// It was cancelled.
        LaunchAbandoned => "launch_abandoned",
        /// None of the others.
        LaunchUnclassified => "launch_unclassified",
    }
}

impl LaunchFailureKind {
    /// The kind of a workspace error.
    pub const fn of(code: Code) -> Self {
        // Exhaustive without `_`, so that new codes are considered here.
        match code {
            Code::ValidationError
            | Code::ManifestBaseNotFound
            | Code::ManifestBaseInvalid
            | Code::ManifestExtendsDepth
            | Code::BindInputMissing
            | Code::BindInputInvalid
            | Code::SurfaceIncompatible
            | Code::ComposeSurfaceXor
            | Code::ComposeRoleRequired
            | Code::ComposeWorkflowOnlyInputArtifacts
            | Code::ComposeWorkflowOnlyDeliverables
            | Code::ComposeSlotNotEnabled
            | Code::ComposeInvalidFileName
            | Code::ComposeBadReference
            | Code::ComposeTemplateResolverMissing
            | Code::UnknownSlot
            | Code::EnvReservedName
            | Code::EnvRequiredCredentialMissing
            | Code::EnvValueTooLarge
            | Code::DriftCritical
            | Code::SkillInvalidBundle
            | Code::SkillVersionUnsatisfied
            | Code::TemplateNotFound
            | Code::TemplateAmbiguous
            | Code::TemplateMissingVar
            | Code::TemplateSyntax => Self::ConfigResolutionFailed,
            Code::DispatchInvalid
            | Code::DispatchBadContext
            | Code::DispatchRoleSurface
            | Code::DispatchIdempotencyConflict => Self::LaunchSelectionInvalid,
            Code::PlanUnsafePath
            | Code::PlanUnknownSlot
            | Code::PlanModeNotAllowed
            | Code::PlanInvalidSource
            | Code::PlanDuplicateMountKey
            | Code::PlanPathConflict
            | Code::ResolveNotFound
            | Code::ResolveDenied
            | Code::ResolveUpstream
            | Code::ResolveTimeout
            | Code::ResolveBadResponse
            | Code::ResolveHashMismatch
            | Code::ResolveEmptySelection
            | Code::ApplyUnsafeSymlink
            | Code::ApplyStateDirOtherFs
            | Code::ApplyIo
            | Code::ApplyNoSpace
            | Code::ApplyRollbackFailed
            | Code::LimitExceeded
            | Code::LeaseHeld
            | Code::LeaseStaleGeneration
            | Code::LeaseNotFound => Self::ProvisionFailed,
            Code::SnapshotRestoreFailed | Code::SnapshotFileChanged => Self::WorkspaceRestoreFailed,
            Code::SnapshotCorrupt => Self::WorkspaceSnapshotCorrupt,
            Code::LifecycleIllegalTransition => Self::IllegalTransition,
            Code::LifecycleConflict => Self::LaunchUnclassified,
        }
    }
}
