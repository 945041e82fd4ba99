//! Why runs fail: the closed list of codes of the engine. Authors can define their own codes in addition.
//! Each has a page in `docs/failures`.

canon::error_codes! {
    /// Why the engine fails a node or a run.
    pub enum FailureCode {
        /// The run started the maximum number of nodes.
        RecursionLimitExceeded => "recursion_limit_exceeded",
        /// The run exceeded its time limit.
        RunTimeout => "run_timeout",
        /// The supervisor decided, or the loop iterated, the maximum number of times.
        LoopLimitExceeded => "loop_limit_exceeded",
        /// Conditions and expressions needed more steps than the limit of a decision or of a run.
        DecisionBudgetExceeded => "decision_budget_exceeded",
        /// One decision would record more bytes than the limit.
        AppendLimitExceeded => "append_limit_exceeded",
        /// The events of the run would exceed the size limit of a run.
        RunSizeExceeded => "run_size_exceeded",
        /// The patterns of the workflow exceed their size limit.
        PatternLimitExceeded => "pattern_limit_exceeded",
        /// The dispatch started the maximum number of workers.
        DispatchLimitExceeded => "dispatch_limit_exceeded",
        /// The dispatch asked the maximum number of questions.
        ClarificationLimitExceeded => "clarification_limit_exceeded",
        /// There is no decision to act on.
        NoPendingDecision => "no_pending_decision",
        /// The dispatch starts only one worker at a time.
        FanOutUnsupported => "fan_out_unsupported",
        /// The workflow of a child run does not exist.
        UnknownChildWorkflow => "unknown_child_workflow",
        /// A child run did not complete.
        ChildFailed => "child_failed",
        /// Too many workers of a fan-out did not complete.
        DispatchJoinFailed => "dispatch_join_failed",
        /// The input of the workflow's agent does not match its task schema.
        HandoffTaskSchemaViolation => "handoff_task_schema_violation",
        /// The output of the workflow's agent does not match its return schema.
        HandoffReturnSchemaViolation => "handoff_return_schema_violation",
        /// A person rejected, or the approval timed out.
        InterruptRejected => "interrupt_rejected",
        /// The interrupt was not answered in time.
        InterruptTimeout => "interrupt_timeout",
        /// The workspace of a guided node could not be composed or applied.
        WorkspaceFailed => "workspace_failed",
        /// The session of a guided node could not be started.
        GuidedStartFailed => "guided_start_failed",
        /// The session of a guided node no longer exists, or cannot be read.
        GuidedSessionLost => "guided_session_lost",
        /// The agent of a guided node could not be started, or ended too often before its session was complete.
        GuidedAgentFailed => "guided_agent_failed",
        /// An input has no value.
        InputMissing => "input_missing",
        /// A value does not match its declaration.
        ValidationError => "validation_error",
        /// The node may not use the channel.
        ChannelAccessDenied => "channel_access_denied",
        /// The host does not provide a capability that the node requires.
        CapabilityNotProvided => "capability_not_provided",
        /// A replay has no recorded result of an effect.
        ReplaySourceMissing => "replay_source_missing",
        /// The host stopped while it executed an effect, so it is unknown whether the effect happened.
        EffectOutcomeUnknown => "effect_outcome_unknown",
        /// A node failed without a code.
        NodeFailed => "node_failed",
    }
}
