//! Hiding what the author marked as sensitive.
//!
//! The log keeps values as they are, because the state is folded from it. What leaves the host goes through here:
//! snapshots do so by themselves, events through a [`Mask`].

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use canon::digest::Digest;
use serde_json::{Map, Value};

use crate::definition::{Definition, Masking, NodeIndex, PortValue};
use crate::event::{Event, EventKind};

/// What a hidden value is shown as.
pub const REDACTED: &str = "[REDACTED]";

/// A sensitive value as a reader sees it; nothing where it is left out.
pub fn value(masking: Masking, value: &Value) -> Option<Value> {
    match masking {
        Masking::Mask => Some(REDACTED.into()),
        Masking::Omit => None,
        // A value without a canonical form has no digest either, and is hidden like the rest.
        Masking::Hash => {
            Some(Digest::of_canonical(value).map_or(REDACTED.into(), |digest| digest.to_string().into()))
        }
        Masking::Passthrough => Some(value.clone()),
    }
}

/// The inputs that the workflow declares. Others are never shown: nobody said what is in them.
pub fn declared_inputs(definition: &Definition, inputs: &Map<String, Value>) -> Map<String, Value> {
    let declared = definition.variables.iter().filter_map(|variable| {
        let given = inputs.get(&variable.name)?;
        let shown = if variable.sensitive { value(definition.masking, given)? } else { given.clone() };
        Some((variable.name.clone(), shown))
    });
    declared.collect()
}

/// The variables as a reader sees them.
pub(crate) fn variables(definition: &Definition, variables: &Map<String, Value>) -> Map<String, Value> {
    let names = definition.variables.iter().filter(|variable| variable.sensitive);
    let names: BTreeSet<&str> = names.map(|variable| variable.name.as_str()).collect();
    let of_channel = |name: &str| definition.channels.get(name).is_some_and(|channel| channel.sensitive);
    let shown = variables.iter().filter_map(|(name, given)| {
        let hidden = names.contains(name.as_str()) || of_channel(name);
        Some((name.clone(), if hidden { value(definition.masking, given)? } else { given.clone() }))
    });
    shown.collect()
}

/// The outputs of a node as a reader sees them.
pub(crate) fn outputs(
    masking: Masking,
    sensitive: &[String],
    outputs: &Map<String, Value>,
) -> Map<String, Value> {
    let shown = outputs.iter().filter_map(|(name, given)| {
        let hidden = sensitive.contains(name);
        Some((name.clone(), if hidden { value(masking, given)? } else { given.clone() }))
    });
    shown.collect()
}

/// The inputs that a node names, as a reader sees them. What an expression makes of sensitive variables is hidden with them: nobody
/// can tell which it looked at.
pub(crate) fn inputs(
    definition: &Definition,
    node: NodeIndex,
    given: &Map<String, Value>,
) -> Map<String, Value> {
    let is_sensitive = |name: &str| {
        let mut declared = definition.variables.iter();
        declared.any(|variable| variable.sensitive && variable.name == name)
            || definition.channels.get(name).is_some_and(|channel| channel.sensitive)
    };
    let shown = definition.nodes[node].inputs.iter().filter_map(|(port, source)| {
        let hidden = match source {
            PortValue::Static(_) => false,
            PortValue::Expression(_) => Mask::of(definition).is_some(),
            PortValue::Connection { node, output_key, .. } => {
                definition.nodes[*node].sensitive_outputs.contains(output_key)
            }
            PortValue::Variable { name, .. } => is_sensitive(name),
        };
        let given = given.get(port)?;
        Some((port.clone(), if hidden { value(definition.masking, given)? } else { given.clone() }))
    });
    shown.collect()
}

/// What is hidden of the events of a workflow's runs.
#[derive(Clone, Debug)]
pub struct Mask<'d> {
    masking: Masking,
    variables: BTreeSet<&'d str>,
    channels: BTreeSet<&'d str>,
    outputs: BTreeMap<&'d str, &'d [String]>,
}

impl<'d> Mask<'d> {
    /// How it hides.
    pub const fn masking(&self) -> Masking {
        self.masking
    }

    /// The mask of a workflow; nothing where its events are shown as they are.
    pub fn of(definition: &'d Definition) -> Option<Self> {
        let variables = definition.variables.iter().filter(|variable| variable.sensitive);
        let channels = definition.channels.iter().filter(|(_, channel)| channel.sensitive);
        let outputs = definition.nodes.iter().filter(|node| !node.sensitive_outputs.is_empty());
        let mask = Self {
            masking: definition.masking,
            variables: variables.map(|variable| variable.name.as_str()).collect(),
            channels: channels.map(|(name, _)| name.as_str()).collect(),
            outputs: outputs.map(|node| (node.id.as_str(), node.sensitive_outputs.as_slice())).collect(),
        };
        let hides = !(mask.variables.is_empty() && mask.channels.is_empty() && mask.outputs.is_empty());
        (hides && definition.masking != Masking::Passthrough).then_some(mask)
    }

    /// An event as a reader sees it.
    pub fn event<'e>(&self, event: &'e Event) -> Cow<'e, Event> {
        let text = |name: &str| event.payload.get(name).and_then(Value::as_str).unwrap_or_default();
        match &event.kind {
            EventKind::VariableChanged if self.variables.contains(text("name")) => {
                self.hide(event, &["previous", "next"])
            }
            EventKind::ChannelWritten if self.channels.contains(text("channel")) => {
                self.hide(event, &["value"])
            }
            EventKind::InterruptResolved | EventKind::NodeResumed if self.is_sensitive(event) => {
                self.hide(event, &["resumeValue"])
            }
            EventKind::ClarificationResolved if self.is_sensitive(event) => {
                let mut masked = event.clone();
                // The answers have to be an object, so they are one with nothing in it.
                masked.payload.insert("answers".into(), Value::Object(Map::new()));
                Cow::Owned(masked)
            }
            EventKind::ApprovalReceived if self.is_sensitive(event) => {
                self.hide(event, &["feedback", "comment", "refineFeedback", "editedArtifactData"])
            }
            EventKind::NodeCompleted => {
                let sensitive = event.node_id.as_ref().and_then(|id| self.outputs.get(id.as_str()));
                match (sensitive, event.payload.get("outputs")) {
                    (Some(sensitive), Some(Value::Object(given))) => {
                        let mut masked = event.clone();
                        let shown = outputs(self.masking, sensitive, given);
                        masked.payload.insert("outputs".into(), Value::Object(shown));
                        Cow::Owned(masked)
                    }
                    _ => Cow::Borrowed(event),
                }
            }
            // What the run gives is made of what its nodes gave, under names that need not tell which.
            EventKind::RunCompleted => self.hide(event, &["outputs"]),
            _ => Cow::Borrowed(event),
        }
    }

    /// Whether a node of which something is hidden told it. What somebody answered is what such a node gives.
    fn is_sensitive(&self, event: &Event) -> bool {
        event.node_id.as_ref().is_some_and(|id| self.outputs.contains_key(id.as_str()))
    }

    fn hide<'e>(&self, event: &'e Event, members: &[&str]) -> Cow<'e, Event> {
        let mut masked = event.clone();
        for member in members {
            if let Some(given) = event.payload.get(*member) {
                // A masked object is no object any more, and some members have to be one.
                match value(self.masking, given).filter(|_| !given.is_object()) {
                    Some(shown) => masked.payload.insert((*member).to_owned(), shown),
                    None => masked.payload.remove(*member),
                };
            }
        }
        Cow::Owned(masked)
    }
}
