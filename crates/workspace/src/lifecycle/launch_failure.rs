//! What a failed launch is called, whatever failed.

use crate::Code;
use crate::manifest::vocabulary::closed;

closed! {
    /// Why a launch failed, for those who only need to know the kind. More may come.
    LaunchFailureKind {
        /// Manifest, request, environment, skill or template are not as they have to be.
        ConfigResolutionFailed => "config_resolution_failed",
        /// What was asked to be launched cannot be.
        LaunchSelectionInvalid => "launch_selection_invalid",
        /// No worker was free in time.
        WorkerAcquireTimeout => "worker_acquire_timeout",
        /// No worker was to be had.
        WorkerAcquireRejected => "worker_acquire_rejected",
        /// The worker is gone.
        WorkerAllocationLost => "worker_allocation_lost",
        /// The workspace could not be put in place.
        ProvisionFailed => "provision_failed",
        /// The worker could not start the agent.
        BootstrapFailed => "bootstrap_failed",
        /// The worker answered something that it must not.
        BootstrapContractBroken => "bootstrap_contract_broken",
        /// A snapshot is sound and could not be put back.
        WorkspaceRestoreFailed => "workspace_restore_failed",
        /// A snapshot is damaged.
        WorkspaceSnapshotCorrupt => "workspace_snapshot_corrupt",
        /// No provider of models can be used.
        NoUsableProvider => "no_usable_provider",
        /// The agent is not there.
        AgentUnavailable => "agent_unavailable",
        /// It took too long.
        DeadlineExceeded => "deadline_exceeded",
        /// The state did not allow it.
        IllegalTransition => "illegal_transition",
        /// Somebody gave up on it.
        LaunchAbandoned => "launch_abandoned",
        /// None of the others.
        LaunchUnclassified => "launch_unclassified",
    }
}

impl LaunchFailureKind {
    /// The kind that an error of the workspace is.
    pub const fn of(code: Code) -> Self {
        // Every code is listed and none is `_`: a new one has to be thought about here.
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
