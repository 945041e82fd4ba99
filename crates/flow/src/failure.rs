//! Why runs fail: a closed list, beside the codes that authors choose themselves.
//! Each has a page in `docs/failures`.

canon::error_codes! {
    /// Why the engine fails a node or a run.
    pub enum FailureCode {
        /// The run started as many nodes as it may.
        RecursionLimitExceeded => "recursion_limit_exceeded",
        /// The run took as long as it may.
        RunTimeout => "run_timeout",
        /// The supervisor decided, or the loop went round, as often as it may.
        LoopLimitExceeded => "loop_limit_exceeded",
        /// Conditions and expressions needed more steps than a decision, or a run, may take.
        DecisionBudgetExceeded => "decision_budget_exceeded",
        /// One decision would record more bytes than it may.
        AppendLimitExceeded => "append_limit_exceeded",
        /// The events of the run would take more bytes than they may.
        RunSizeExceeded => "run_size_exceeded",
        /// The patterns of the workflow take more bytes than they may.
        PatternLimitExceeded => "pattern_limit_exceeded",
        /// The dispatch started as many workers as it may.
        DispatchLimitExceeded => "dispatch_limit_exceeded",
        /// The dispatch asked as many questions as it may.
        ClarificationLimitExceeded => "clarification_limit_exceeded",
        /// There is no decision to act on.
        NoPendingDecision => "no_pending_decision",
        /// The dispatch takes one worker at a time.
        FanOutUnsupported => "fan_out_unsupported",
        /// There is no such workflow to start as a child.
        UnknownChildWorkflow => "unknown_child_workflow",
        /// A child run did not complete.
        ChildFailed => "child_failed",
        /// Too many workers of a fan-out did not complete.
        DispatchJoinFailed => "dispatch_join_failed",
        /// What the agent of the workflow would be handed is not what its task schema says.
        HandoffTaskSchemaViolation => "handoff_task_schema_violation",
        /// What the agent of the workflow gives back is not what its return schema says.
        HandoffReturnSchemaViolation => "handoff_return_schema_violation",
        /// Somebody refused, or nobody approved in time.
        InterruptRejected => "interrupt_rejected",
        /// Nobody answered in time.
        InterruptTimeout => "interrupt_timeout",
        /// The workspace of a guided node could not be composed or applied.
        WorkspaceFailed => "workspace_failed",
        /// The session of a guided node could not be started.
        GuidedStartFailed => "guided_start_failed",
        /// The session of a guided node is not there any more, or cannot be read.
        GuidedSessionLost => "guided_session_lost",
        /// An input has no value.
        InputMissing => "input_missing",
        /// A value is not what was declared.
        ValidationError => "validation_error",
        /// The node may not use the channel.
        ChannelAccessDenied => "channel_access_denied",
        /// The host does not have what the node needs.
        CapabilityNotProvided => "capability_not_provided",
        /// A replay has no recorded outcome of an effect.
        ReplaySourceMissing => "replay_source_missing",
        /// The host ended while an effect was being made, and nobody can know whether it was.
        EffectOutcomeUnknown => "effect_outcome_unknown",
        /// A node failed without saying why.
        NodeFailed => "node_failed",
    }
}
