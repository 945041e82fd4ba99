//! Failure codes of nodes that call models: a closed list.

canon::error_codes! {
    pub enum FailureCode {
        /// No attempt returned a valid document.
        EnvelopeInvalid => "envelope_payload_invalid",
        /// The provider refused to answer.
        EnvelopeRefusal => "envelope_refused_by_provider",
        /// Every reply was truncated, up to the highest token limit.
        EnvelopeTruncationUnrecoverable => "envelope_truncation_unrecoverable",
        /// The node does not accept envelopes of this kind.
        EnvelopeContractViolation => "envelope_contract_violation",
        /// An envelope does not match the schema of its kind.
        EnvelopeValidationFailed => "envelope_validation_failed",
        /// A limit on envelopes was reached.
        CapBreached => "cap_breached",
        /// A required prompt variable has no value.
        PromptVariableUnresolved => "prompt_variable_unresolved",
        /// A prompt reference matches templates in two libraries.
        PromptRefAmbiguous => "prompt_ref_ambiguous",
        /// The prompt does not exist.
        PromptTemplateNotFound => "template_not_found",
        /// The model does not have a capability that the node requires.
        CapabilityNotProvided => "capability_not_provided",
        /// A message has content other than text.
        UnsupportedModality => "unsupported_modality",
        /// The configuration or an input of the node is invalid.
        ValidationError => "validation_error",
        /// The provider rejected the credential or requires one.
        CredentialRequired => "credential_required",
        ProviderRejected => "provider_rejected",
        /// The provider was unreachable or failed.
        ProviderUnavailable => "provider_unavailable",
        /// The provider's rate limit was reached.
        ProviderRateLimited => "provider_rate_limited",
        /// The provider's response violates its protocol.
        ProviderReplyInvalid => "provider_reply_invalid",
        /// The model requested tools after the last allowed round.
        ToolRoundsExceeded => "tool_rounds_exceeded",
        /// Tool arguments and results exceed the size limit of a conversation.
        ToolBytesExceeded => "tool_bytes_exceeded",
        /// The replay was refused where the run was not, or the reverse.
        ReplayDivergedAtRefusal => "replay_diverged_at_refusal",
    }
}
