//! What a host serves. A workflow that needs more is refused when it is registered.

/// What a host serves, beyond the types that every host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one advertised capability, and they are independent"
)]
pub struct Capabilities {
    /// `core.conversationGate`.
    pub conversation: bool,
    /// `core.orchestrator.supervisor`.
    pub orchestrator: bool,
    /// `core.dispatch`.
    pub dispatch: bool,
    /// `fanOutPolicy: parallel` of `core.dispatch`.
    pub fan_out: bool,
    /// The mappings of `core.dispatch`.
    pub dispatch_mapping: bool,
    /// `inputMapping` of `core.subWorkflow`.
    pub sub_workflow_input_mapping: bool,
    /// `core.conformance.*` outside of workflows whose id begins with `conformance-`.
    pub mock_agent: bool,
}

impl Capabilities {
    /// What this program serves.
    pub const OURS: Self = Self {
        conversation: true,
        orchestrator: true,
        dispatch: true,
        fan_out: true,
        dispatch_mapping: true,
        sub_workflow_input_mapping: true,
        mock_agent: false,
    };
}
