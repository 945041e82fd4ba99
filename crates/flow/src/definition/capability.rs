//! What a host serves. A workflow that needs more is refused when it is registered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::called::Surface;

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
    /// `core.storage.*`, `core.db.*`, `core.files.*` and `core.messaging.*`, each as far as its surface is served.
    pub surfaces: ServedSurfaces,
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
    /// The types of nodes that installed packs name and that are not served.
    pub refused_types: RefusedTypes,
    /// Mock nodes, as `core.conformance.*`, for conformance suites.
    pub mock_agent: bool,
    /// The document was checked when it was registered, maybe by an earlier version: rules that were added since do not make it unreadable.
    pub checked_before: bool,
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
        surfaces: ServedSurfaces::NONE,
        models: false,
        agents: false,
        mcp_client: false,
        mcp_mount: true,
        mcp_sampling: false,
        pack_types: PackTypes::None,
        refused_types: RefusedTypes::NONE,
        mock_agent: false,
        checked_before: false,
    };

    /// What a workflow may have needed that was registered before: whatever it names, the host served it then.
    pub const EVERYTHING: Self = Self {
        surfaces: ServedSurfaces::ALL,
        models: true,
        agents: true,
        mcp_client: true,
        mcp_sampling: true,
        pack_types: PackTypes::Any,
        mock_agent: true,
        checked_before: true,
        ..Self::OURS
    };

    /// The flags of discovery that can be withheld, and what each of them takes away.
    const WITHHOLDING: [(&'static str, Take); 14] = [
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
        ("mcp.serverMount.supported", |served| served.mcp_mount = false),
        ("mcp.serverMount.samplingBridge", |served| served.mcp_sampling = false),
        ("conformance.mockAgent", |served| served.mock_agent = false),
    ];

    /// The flags of discovery that can be withheld.
    pub const FLAGS: [&'static str; Self::WITHHOLDING.len()] = {
        let mut names = [""; Self::WITHHOLDING.len()];
        let mut place = 0;
        while place < names.len() {
            names[place] = Self::WITHHOLDING[place].0;
            place += 1;
        }
        names
    };

    /// The same without what a flag of discovery stands for. An unknown flag stands for nothing.
    #[must_use]
    pub fn without(mut self, flag: &str) -> Self {
        for (_, take) in Self::WITHHOLDING.iter().filter(|(known, _)| *known == flag) {
            take(&mut self);
        }
        self
    }
}

/// Which surfaces a host serves, by the names that calls have for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedSurfaces(u16);

impl ServedSurfaces {
    /// None.
    pub const NONE: Self = Self(0);
    /// Every one.
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

/// Takes something away.
type Take = fn(&mut Capabilities);

/// Which types of nodes packs bring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PackTypes {
    #[default]
    None,
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

/// The types of nodes that installed packs name and that are not served, with the reasons. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedTypes(Option<Arc<BTreeMap<String, RefusedType>>>);

/// Why a type that an installed pack names is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedType {
    /// The pack, as `name@version`.
    pub pack: String,
    /// A code, as `pack_load_failure`.
    pub code: String,
    /// Why, for people.
    pub message: String,
}

impl RefusedTypes {
    /// None.
    pub const NONE: Self = Self(None);

    /// Why a type is not served, where an installed pack names it.
    pub fn get(&self, type_id: &str) -> Option<&RefusedType> {
        self.0.as_ref()?.get(type_id)
    }
}

impl FromIterator<(String, RefusedType)> for RefusedTypes {
    fn from_iter<I: IntoIterator<Item = (String, RefusedType)>>(types: I) -> Self {
        Self(Some(Arc::new(types.into_iter().collect())))
    }
}
