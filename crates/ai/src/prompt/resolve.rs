//! Which template a node gets: layers are asked one after another, and all of them are listed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::PromptKind;
use super::library::Library;
use super::reference::{PromptRef, is_id};
use crate::event::{EventKind, RunEvent};
use crate::words::words;

words! {
    /// The layers, the first that has a template wins.
    pub enum Layer {
        /// What the caller of the run says.
        RunConfigurable => "run-configurable",
        /// What the node says.
        Node => "node",
        /// What the agent is.
        AgentIntrinsic => "agent-intrinsic",
        /// What the agent prefers.
        AgentOverrides => "agent-overrides",
        /// What the agent's library has.
        AgentLibraryDefault => "agent-library-default",
        /// What the workflow says.
        WorkflowDefaults => "workflow-defaults",
        /// What the host says.
        HostDefaults => "host-defaults",
    }
}

/// References by what they are for.
pub type ByKind = BTreeMap<PromptKind, PromptRef>;

/// Reads references by kind. What is no reference, and what is no kind, is left out.
pub fn by_kind(value: &Value) -> ByKind {
    let members = value.as_object().into_iter().flatten();
    members.filter_map(|(kind, value)| Some((PromptKind::parse(kind)?, PromptRef::read(value)?))).collect()
}

/// One place of a node that takes a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// What the prompt is for.
    pub kind: PromptKind,
    /// The how-many-eth of its kind, from 0: a node has many examples.
    pub index: usize,
}

/// The prompts that a node names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePrompts {
    /// How to behave.
    pub system: Option<PromptRef>,
    /// What to do.
    pub user: Option<PromptRef>,
    /// What the reply looks like.
    pub schema_hint: Option<PromptRef>,
    /// Examples.
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

    /// The places, in the order in which a model reads them.
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

/// An agent, as far as prompts go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agent {
    /// Its name.
    pub agent_id: String,
    /// What it is, as a text.
    pub system_prompt: Option<String>,
    /// What it is, as a file of its pack or a reference.
    pub system_prompt_ref: Option<String>,
    /// What it prefers.
    pub overrides: ByKind,
    /// The library that it draws from.
    pub library: Option<String>,
}

impl Agent {
    /// Reads what a manifest says of prompts.
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

    /// A reference to what the agent is. Where it is no prompt of a library, a name is made for it.
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

/// Everything that is asked.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'l> {
    /// What the caller of the run says.
    pub run: &'l ByKind,
    /// What the node says.
    pub node: &'l NodePrompts,
    /// The agent of the node.
    pub agent: Option<&'l Agent>,
    /// Whether agents are asked at all.
    pub agent_bindings: bool,
    /// What the workflow says.
    pub workflow: &'l ByKind,
    /// What the host says.
    pub host: &'l ByKind,
}

/// One layer that was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Which.
    pub layer: Layer,
    /// What it has.
    pub source: Option<PromptRef>,
    /// Whether that is what the node gets.
    pub applied: bool,
    /// Why it is not.
    pub reason: Option<&'static str>,
}

/// What a node gets, and who was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolution {
    /// The place.
    pub slot: Slot,
    /// The agent that was asked.
    pub agent_id: Option<String>,
    /// Every layer, from the first to the last.
    pub chain: Vec<Entry>,
}

/// Asks the layers.
pub fn resolve(slot: Slot, layers: &Layers<'_>, library: &Library) -> Resolution {
    let kind = slot.kind;
    // What others say goes for the first place of a kind only: it would be the same one again.
    let first = |of: &ByKind| if slot.index == 0 { of.get(&kind).cloned() } else { None };
    let agent = layers.agent.filter(|_| slot.index == 0);
    let no_agent = match (layers.agent, layers.agent_bindings) {
        (None, _) => Some("there is no agent"),
        (Some(_), false) => Some("agents are not asked here"),
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
                (None, Some("an agent is its system prompt only"))
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
            (Some(_), false) => Some("a layer before it has one"),
            (None, _) => reason.or(Some("it has none")),
        };
        applied |= wins;
        Entry { layer: *layer, source, applied: wins, reason }
    };
    let chain = Layer::ALL.iter().map(entry).collect();
    Resolution { slot, agent_id: layers.agent.map(|agent| agent.agent_id.clone()), chain }
}

impl Resolution {
    /// The layer that won.
    pub fn applied(&self) -> Option<&Entry> {
        self.chain.iter().find(|entry| entry.applied)
    }

    /// What the node gets.
    pub fn resolved(&self) -> Option<&PromptRef> {
        self.applied().and_then(|entry| entry.source.as_ref())
    }

    /// The event of the resolution: references, no bodies.
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

    /// The answer to somebody who asks for a resolution without a run: the event, and each layer once more by its short
    /// names.
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
