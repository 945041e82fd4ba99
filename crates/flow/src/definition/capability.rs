//! What a host serves. A workflow that needs more is refused when it is registered.

use std::collections::BTreeSet;
use std::sync::Arc;

/// What a host serves, beyond the types that every host has.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// `core.storage.*`, `core.db.*`, `core.files.*` and `core.messaging.*`.
    pub surfaces: bool,
    /// `core.ai.*`.
    pub models: bool,
    /// `core.agents.*`.
    pub agents: bool,
    /// `core.openwop.mcp.*` that call other servers.
    pub mcp_client: bool,
    /// `core.openwop.mcp.*` by which a workflow is served to clients of MCP.
    pub mcp_mount: bool,
    /// `core.openwop.mcp.handle-sampling`, for requests of such clients for a model.
    pub mcp_sampling: bool,
    /// The types of nodes that packs bring.
    pub pack_types: PackTypes,
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
        surfaces: false,
        models: false,
        agents: false,
        mcp_client: false,
        mcp_mount: true,
        mcp_sampling: false,
        pack_types: PackTypes::None,
        mock_agent: false,
    };

    /// What a workflow may have needed that was registered before: whatever it names, the host served it then.
    pub const EVERYTHING: Self = Self {
        surfaces: true,
        models: true,
        agents: true,
        mcp_client: true,
        mcp_sampling: true,
        pack_types: PackTypes::Any,
        mock_agent: true,
        ..Self::OURS
    };
}

/// Which types of nodes packs bring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PackTypes {
    /// None.
    #[default]
    None,
    /// These.
    These(Arc<BTreeSet<String>>),
    /// Any that is named: for workflows that were checked when they were registered.
    Any,
}

impl PackTypes {
    /// Whether a type is one of them.
    pub fn contains(&self, type_id: &str) -> bool {
        match self {
            Self::None => false,
            Self::These(types) => types.contains(type_id),
            Self::Any => true,
        }
    }
}
