//! Why a node that calls a model fails: a closed list.

canon::error_codes! {
    /// Why a node that calls a model fails.
    pub enum FailureCode {
        /// No reply was a document that fits, however often it was asked for.
        EnvelopeInvalid => "envelope_payload_invalid",
        /// The provider refused to answer.
        EnvelopeRefusal => "envelope_refused_by_provider",
        /// Every reply was cut off, however much room it was given.
        EnvelopeTruncationUnrecoverable => "envelope_truncation_unrecoverable",
        /// The node does not take envelopes of this kind.
        EnvelopeContractViolation => "envelope_contract_violation",
        /// An envelope was not what its kind has to be.
        EnvelopeValidationFailed => "envelope_validation_failed",
        /// A limit of envelopes was reached.
        CapBreached => "cap_breached",
        /// A variable that a prompt needs has no value.
        PromptVariableUnresolved => "prompt_variable_unresolved",
        /// A reference names two prompts.
        PromptRefAmbiguous => "prompt_ref_ambiguous",
        /// There is no such prompt.
        PromptTemplateNotFound => "template_not_found",
        /// The model cannot do what the node needs.
        CapabilityNotProvided => "capability_not_provided",
        /// A message is not text.
        UnsupportedModality => "unsupported_modality",
        /// The configuration or an input of the node is not what it has to be.
        ValidationError => "validation_error",
        /// The provider wants a credential, or another one.
        CredentialRequired => "credential_required",
        /// The provider did not take the request.
        ProviderRejected => "provider_rejected",
        /// The provider could not be reached, or could not answer.
        ProviderUnavailable => "provider_unavailable",
        /// The provider wants to be asked less often.
        ProviderRateLimited => "provider_rate_limited",
        /// What the provider sent is not what its protocol says.
        ProviderReplyInvalid => "provider_reply_invalid",
        /// The model still wanted tools when its rounds were spent.
        ToolRoundsExceeded => "tool_rounds_exceeded",
        /// Too much was said to and by tools.
        ToolBytesExceeded => "tool_bytes_exceeded",
        /// The replay was refused where the run was not, or the other way round.
        ReplayDivergedAtRefusal => "replay_diverged_at_refusal",
    }
}
