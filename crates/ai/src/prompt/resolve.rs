//! Selects the template for a node from several layers, and records every layer.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::PromptKind;
use super::library::Library;
use super::reference::{PromptRef, is_id};
use crate::event::{EventKind, RunEvent};
use crate::wire_enum::wire_enum;

wire_enum! {
    /// The layers, in order of precedence.
    pub enum Layer {
        /// The caller of the run.
        RunConfigurable => "run-configurable",
        /// The node configuration.
        Node => "node",
        /// The agent's own prompt.
        AgentIntrinsic => "agent-intrinsic",
        /// The agent's preferences.
        AgentOverrides => "agent-overrides",
        /// The default of the agent's library.
        AgentLibraryDefault => "agent-library-default",
        WorkflowDefaults => "workflow-defaults",
        HostDefaults => "host-defaults",
    }
}

/// References by prompt kind.
pub type ByKind = BTreeMap<PromptKind, PromptRef>;

/// Reads references by kind. Invalid references and unknown kinds are skipped.
pub fn by_kind(value: &Value) -> ByKind {
    let members = value.as_object().into_iter().flatten();
    members.filter_map(|(kind, value)| Some((PromptKind::parse(kind)?, PromptRef::read(value)?))).collect()
}

/// A prompt slot of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub kind: PromptKind,
    /// Zero-based index among slots of the same kind: a node can have several examples.
    pub index: usize,
}

/// The prompt references of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePrompts {
    pub system: Option<PromptRef>,
    pub user: Option<PromptRef>,
    pub schema_hint: Option<PromptRef>,
    pub few_shot: Vec<PromptRef>,
}

impl NodePrompts {
    fn get(&self, slot: Slot) -> Option<&PromptRef> {
        match slot.kind {
            PromptKind::System => self.system.as_ref(),
            PromptKind::User => self.user.as_ref(),
            PromptKind::SchemaHint => self.schema_hint.as_ref(),
            PromptKind::FewShot => self.few_shot.get(slot.index),
        }
    }

    /// The slots in the order in which a model reads them.
    pub fn slots(&self) -> Vec<Slot> {
        let one = |kind| Slot { kind, index: 0 };
        let examples = (0..self.few_shot.len().max(1)).map(|index| Slot { kind: PromptKind::FewShot, index });
        [one(PromptKind::System), one(PromptKind::SchemaHint)]
            .into_iter()
            .chain(examples)
            .chain([one(PromptKind::User)])
            .collect()
    }
}

/// The prompt settings of an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agent {
    pub agent_id: String,
    pub system_prompt: Option<String>,
    /// The system prompt as a file of its pack, or as a reference.
    pub system_prompt_ref: Option<String>,
    /// The agent's preferences.
    pub overrides: ByKind,
    pub library: Option<String>,
}

impl Agent {
    /// Reads the prompt settings of a manifest.
    pub fn read(manifest: &Value) -> Option<Self> {
        let text = |name: &str| {
            manifest.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(ToOwned::to_owned)
        };
        Some(Self {
            agent_id: text("agentId")?,
            system_prompt: text("systemPrompt"),
            system_prompt_ref: text("systemPromptRef"),
            overrides: manifest.get("promptOverrides").map(by_kind).unwrap_or_default(),
            library: text("promptLibraryRef").filter(|id| is_id(id)),
        })
    }

    /// A reference to the agent's own prompt. If it is not a library prompt, a name is generated.
    fn intrinsic(&self) -> Option<PromptRef> {
        if self.system_prompt.is_none() && self.system_prompt_ref.is_none() {
            return None;
        }
        let given = self.system_prompt_ref.as_deref().and_then(PromptRef::parse);
        given.or_else(|| {
            let letter = |letter: char| {
                let letter = letter.to_ascii_lowercase();
                if letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-') { letter } else { '-' }
            };
            let name: String = format!("agent.{}", self.agent_id).chars().map(letter).take(121).collect();
            PromptRef::parse(&format!("prompt:{name}.system"))
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Layers<'l> {
    pub run: &'l ByKind,
    pub node: &'l NodePrompts,
    pub agent: Option<&'l Agent>,
    /// Whether agent layers are considered.
    pub agent_bindings: bool,
    pub workflow: &'l ByKind,
    pub host: &'l ByKind,
}

/// One layer and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub layer: Layer,
    pub source: Option<PromptRef>,
    /// Whether this layer was selected.
    pub applied: bool,
    /// Why it was not selected.
    pub reason: Option<&'static str>,
}

/// The selected template and the result of every layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolution {
    pub slot: Slot,
    pub agent_id: Option<String>,
    /// All layers, in order of precedence.
    pub chain: Vec<Entry>,
}

/// Selects the template for a slot.
pub fn resolve(slot: Slot, layers: &Layers<'_>, library: &Library) -> Resolution {
    let kind = slot.kind;
    // Layers other than the node apply only to the first slot of a kind; otherwise every slot would get the same
    // template.
    let first = |of: &ByKind| if slot.index == 0 { of.get(&kind).cloned() } else { None };
    let agent = layers.agent.filter(|_| slot.index == 0);
    let no_agent = match (layers.agent, layers.agent_bindings) {
        (None, _) => Some("the node has no agent"),
        (Some(_), false) => Some("agent layers are disabled"),
        (Some(_), true) => None,
    };
    let asked = |layer: Layer| -> (Option<PromptRef>, Option<&'static str>) {
        match layer {
            Layer::RunConfigurable => (first(layers.run), None),
            Layer::Node => (layers.node.get(slot).cloned(), None),
            Layer::WorkflowDefaults => (first(layers.workflow), None),
            Layer::HostDefaults => (first(layers.host), None),
            _ if no_agent.is_some() => (None, no_agent),
            Layer::AgentIntrinsic if kind != PromptKind::System => {
                (None, Some("an agent provides only a system prompt"))
            }
            Layer::AgentIntrinsic => (agent.and_then(Agent::intrinsic), None),
            Layer::AgentOverrides => (agent.and_then(|agent| first(&agent.overrides)), None),
            Layer::AgentLibraryDefault => {
                let unset = agent.filter(|agent| !agent.overrides.contains_key(&kind));
                let id = unset.and_then(|agent| agent.library.as_deref());
                (id.and_then(|id| library.default_of(id, kind)), None)
            }
        }
    };
    let mut applied = false;
    let entry = |layer: &Layer| {
        let (source, reason) = asked(*layer);
        let wins = source.is_some() && !applied;
        let reason = match (&source, wins) {
            (Some(_), true) => None,
            (Some(_), false) => Some("a layer with higher precedence has one"),
            (None, _) => reason.or(Some("this layer has none")),
        };
        applied |= wins;
        Entry { layer: *layer, source, applied: wins, reason }
    };
    let chain = Layer::ALL.iter().map(entry).collect();
    Resolution { slot, agent_id: layers.agent.map(|agent| agent.agent_id.clone()), chain }
}

impl Resolution {
    /// The selected layer.
    pub fn applied(&self) -> Option<&Entry> {
        self.chain.iter().find(|entry| entry.applied)
    }

    /// The selected reference.
    pub fn resolved(&self) -> Option<&PromptRef> {
        self.applied().and_then(|entry| entry.source.as_ref())
    }

    /// The `agent.promptResolved` event. It has references, not texts.
    pub fn event(&self, node_id: &str) -> RunEvent {
        let entry = |entry: &Entry| {
            let mut value = json!({"layer": entry.layer.as_str(), "applied": entry.applied});
            if let Some(source) = &entry.source {
                value["source"] = source.to_string().into();
            }
            if let Some(reason) = entry.reason {
                value["reason"] = reason.into();
            }
            value
        };
        let mut event = RunEvent::new(
            EventKind::PromptResolved,
            [
                ("nodeId", node_id.into()),
                ("kind", self.slot.kind.into()),
                ("agentId", self.agent_id.as_deref().into()),
                ("chain", self.chain.iter().map(entry).collect()),
            ],
        );
        event.payload.insert("resolved".to_owned(), self.resolved().map(ToString::to_string).into());
        event
    }

    /// The response to a resolution request without a run: the event, and each layer with its short field names.
    pub fn to_value(&self, node_id: &str) -> Value {
        let mut value = Value::Object(self.event(node_id).payload);
        let entries = value["chain"].as_array_mut().into_iter().flatten();
        for (entry, asked) in entries.zip(&self.chain) {
            let text = asked.source.as_ref().map(ToString::to_string);
            entry["ref"] = text.clone().into();
            entry["resolved"] = text.filter(|_| asked.applied).into();
        }
        value["resolvedAt"] = self.applied().map(|entry| entry.layer.as_str()).into();
        value
    }
}
