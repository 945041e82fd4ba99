//! The capabilities of a host. A workflow that requires more is refused when it is registered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::called::Surface;

/// The capabilities of a host, beyond the node types that every host supports.
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
    /// `core.storage.*`, `core.db.*`, `core.files.*` and `core.messaging.*`, for each available surface.
    pub surfaces: ServedSurfaces,
    /// `core.ai.*`.
    pub models: bool,
    /// `core.agents.*`.
    pub agents: bool,
    /// `core.openwop.mcp.*` nodes that call other servers.
    pub mcp_client: bool,
    /// `core.http.request`.
    pub http_client: bool,
    /// `core.openwop.mcp.*` nodes that expose a workflow to MCP clients.
    pub mcp_mount: bool,
    /// `core.openwop.mcp.handle-sampling`, for sampling requests of such clients.
    pub mcp_sampling: bool,
    /// The node types of packs.
    pub pack_types: PackTypes,
    /// The node types of installed packs that cannot be used.
    pub refused_types: RefusedTypes,
    /// Mock nodes, for example `core.conformance.*`, for conformance suites.
    pub mock_agent: bool,
    /// The document was validated when it was registered, possibly by an earlier version. Rules that were added since do not apply to it.
    pub checked_before: bool,
}

impl Capabilities {
    /// The capabilities of this program without executors.
    pub const OURS: Self = Self {
        conversation: true,
        orchestrator: true,
        dispatch: true,
        fan_out: true,
        dispatch_mapping: true,
        sub_workflow_input_mapping: true,
        surfaces: ServedSurfaces::NONE,
        models: false,
        agents: false,
        mcp_client: false,
        http_client: false,
        mcp_mount: true,
        mcp_sampling: false,
        pack_types: PackTypes::None,
        refused_types: RefusedTypes::NONE,
        mock_agent: false,
        checked_before: false,
    };

    /// The capabilities for reading workflows that were registered before: the host supported everything in them then.
    pub const EVERYTHING: Self = Self {
        surfaces: ServedSurfaces::ALL,
        models: true,
        agents: true,
        mcp_client: true,
        http_client: true,
        mcp_sampling: true,
        pack_types: PackTypes::Any,
        mock_agent: true,
        checked_before: true,
        ..Self::OURS
    };

    /// The discovery flags that can be withheld, and the capability that each of them removes.
    const WITHHOLDING: [(&'static str, Remove); 15] = [
        ("conversationPrimitive", |served| served.conversation = false),
        ("orchestrator.supported", |served| served.orchestrator = false),
        ("agents.orchestrator", |served| served.orchestrator = false),
        ("dispatch.supported", |served| served.dispatch = false),
        ("agents.dispatch", |served| served.dispatch = false),
        ("dispatch.fanOutSupported", |served| served.fan_out = false),
        ("agents.dispatchMapping", |served| served.dispatch_mapping = false),
        ("subWorkflow.inputMapping", |served| served.sub_workflow_input_mapping = false),
        ("aiProviders.supported", |served| served.models = false),
        ("prompts.supported", |served| served.models = false),
        ("mcp.supported", |served| served.mcp_client = false),
        ("httpClient.supported", |served| served.http_client = false),
        ("mcp.serverMount.supported", |served| served.mcp_mount = false),
        ("mcp.serverMount.samplingBridge", |served| served.mcp_sampling = false),
        ("conformance.mockAgent", |served| served.mock_agent = false),
    ];

    /// The discovery flags that can be withheld.
    pub const FLAGS: [&'static str; Self::WITHHOLDING.len()] = {
        let mut names = [""; Self::WITHHOLDING.len()];
        let mut index = 0;
        while index < names.len() {
            names[index] = Self::WITHHOLDING[index].0;
            index += 1;
        }
        names
    };

    /// The capabilities without the one of a discovery flag. Unknown flags are ignored.
    #[must_use]
    pub fn without(mut self, flag: &str) -> Self {
        for (_, remove) in Self::WITHHOLDING.iter().filter(|(known, _)| *known == flag) {
            remove(&mut self);
        }
        self
    }
}

/// The available surfaces, by the names that calls use for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedSurfaces(u16);

impl ServedSurfaces {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self((1 << Surface::ALL.len()) - 1);

    /// The surfaces with these names. Unknown names are ignored.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let known = names.into_iter().filter_map(Surface::parse);
        Self(known.fold(0, |served, surface| served | Self::bit(surface)))
    }

    pub const fn contains(self, surface: Surface) -> bool {
        self.0 & Self::bit(surface) != 0
    }

    const fn bit(surface: Surface) -> u16 {
        1 << surface as u16
    }
}

type Remove = fn(&mut Capabilities);

/// The node types that packs provide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PackTypes {
    #[default]
    None,
    These(Arc<BTreeSet<String>>),
    /// Any name: for workflows that were validated when they were registered.
    Any,
}

impl PackTypes {
    /// Whether a pack provides the type.
    pub fn contains(&self, type_id: &str) -> bool {
        match self {
            Self::None => false,
            Self::These(types) => types.contains(type_id),
            Self::Any => true,
        }
    }
}

/// The node types of installed packs that cannot be used, with the reasons. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedTypes(Option<Arc<BTreeMap<String, RefusedType>>>);

/// Why a node type of an installed pack cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedType {
    /// The pack, as `name@version`.
    pub pack: String,
    pub reason: RefusedReason,
    /// The code of the cause, for example `pack_load_failure`. To branch, use the reason.
    pub code: &'static str,
    /// The reason, for people.
    pub message: String,
}

/// What an administrator must change before a node type of an installed pack can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedReason {
    /// The pack is damaged, invalid, or needs another host: install another version.
    Unusable,
    /// The pack needs a capability that the host does not provide.
    CapabilityMissing,
    /// The node needs a secret, and the host has no secrets.
    SecretsMissing,
}

impl RefusedTypes {
    pub const NONE: Self = Self(None);

    /// Why a type cannot be used, if an installed pack provides it.
    pub fn get(&self, type_id: &str) -> Option<&RefusedType> {
        self.0.as_ref()?.get(type_id)
    }
}

impl FromIterator<(String, RefusedType)> for RefusedTypes {
    fn from_iter<I: IntoIterator<Item = (String, RefusedType)>>(types: I) -> Self {
        Self(Some(Arc::new(types.into_iter().collect())))
    }
}
