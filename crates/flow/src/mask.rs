//! Hides values that the author of a workflow marked as sensitive.
//!
//! The log keeps the original values, because the state is folded from it. Values are masked when they leave the host: [`crate::snapshot`]
//! masks snapshots, and a [`Mask`] masks events.

use std::collections::{BTreeMap, BTreeSet};

use canon::digest::Digest;
use serde_json::{Map, Value};

use crate::definition::{Definition, Masking, NodeIndex, PortValue};
use crate::event::wire::RawEvent;
use crate::event::{Event, EventData};

/// The replacement of a masked value.
pub const REDACTED: &str = "[REDACTED]";

/// A sensitive value as readers see it; `None` if it is omitted.
pub fn value(masking: Masking, value: &Value) -> Option<Value> {
    match masking {
        Masking::Mask => Some(REDACTED.into()),
        Masking::Omit => None,
        // A value without a canonical form has no digest, and is masked.
        Masking::Hash => {
            Some(Digest::of_canonical(value).map_or(REDACTED.into(), |digest| digest.to_string().into()))
        }
        Masking::Passthrough => Some(value.clone()),
    }
}

/// The inputs that the workflow declares. Others are never shown, because no declaration says whether they are sensitive.
pub fn declared_inputs(definition: &Definition, inputs: &Map<String, Value>) -> Map<String, Value> {
    let declared = definition.variables.iter().filter_map(|variable| {
        let given = inputs.get(&variable.name)?;
        let shown = if variable.sensitive { value(definition.masking, given)? } else { given.clone() };
        Some((variable.name.clone(), shown))
    });
    declared.collect()
}

/// The variables as readers see them.
pub(crate) fn variables(definition: &Definition, variables: &Map<String, Value>) -> Map<String, Value> {
    let names = definition.variables.iter().filter(|variable| variable.sensitive);
    let names: BTreeSet<&str> = names.map(|variable| variable.name.as_str()).collect();
    let in_sensitive_channel =
        |name: &str| definition.channels.get(name).is_some_and(|channel| channel.sensitive);
    let shown = variables.iter().filter_map(|(name, given)| {
        let hidden = names.contains(name.as_str()) || in_sensitive_channel(name);
        Some((name.clone(), if hidden { value(definition.masking, given)? } else { given.clone() }))
    });
    shown.collect()
}

/// The outputs of a node as readers see them.
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

/// The inputs of a node as readers see them. If the workflow has sensitive values, the result of every expression is hidden, because it is
/// unknown which values the expression read.
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

/// Masks the sensitive values in the events of a workflow's runs.
#[derive(Clone, Debug)]
pub struct Mask<'d> {
    masking: Masking,
    variables: BTreeSet<&'d str>,
    channels: BTreeSet<&'d str>,
    outputs: BTreeMap<&'d str, &'d [String]>,
}

impl<'d> Mask<'d> {
    /// How sensitive values are replaced.
    pub const fn masking(&self) -> Masking {
        self.masking
    }

    /// The mask of a workflow; `None` if it hides nothing.
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

    /// The payload of an event as readers see it; `None` if nothing in it is hidden. The result is JSON and not a typed payload, because masking
    /// can remove required members. The match lists, for each kind of event, the members that can be sensitive.
    pub fn payload(&self, event: &Event) -> Option<Map<String, Value>> {
        match &event.data {
            EventData::VariableChanged(changed) if self.variables.contains(changed.name.as_str()) => {
                Some(self.hide(event, &["previous", "next"]))
            }
            EventData::ChannelWritten(written) if self.channels.contains(written.channel.as_str()) => {
                Some(self.hide(event, &["value"]))
            }
            EventData::InterruptResolved(_) | EventData::NodeResumed(_) if self.is_sensitive(event) => {
                Some(self.hide(event, &["resumeValue"]))
            }
            EventData::ClarificationResolved(_) if self.is_sensitive(event) => {
                let mut payload = event.payload();
                // `answers` must be an object, so it becomes an empty one.
                payload.insert("answers".into(), Value::Object(Map::new()));
                Some(payload)
            }
            EventData::ApprovalReceived(_) if self.is_sensitive(event) => {
                Some(self.hide(event, &["feedback", "comment", "refineFeedback", "editedArtifactData"]))
            }
            EventData::NodeCompleted(completed) => {
                let sensitive = event.node_id.as_ref().and_then(|id| self.outputs.get(id.as_str()))?;
                let shown = outputs(self.masking, sensitive, completed.outputs.as_ref()?);
                let mut payload = event.payload();
                payload.insert("outputs".into(), Value::Object(shown));
                Some(payload)
            }
            // The outputs of a run are built from outputs of nodes, under names that do not show from which ones.
            EventData::RunCompleted(_) => Some(self.hide(event, &["outputs"])),
            EventData::VariableChanged(_)
            | EventData::ChannelWritten(_)
            | EventData::InterruptResolved(_)
            | EventData::NodeResumed(_)
            | EventData::ClarificationResolved(_)
            | EventData::ApprovalReceived(_)
            // The inputs of a run, and the inputs that a gate shows, are masked when they are recorded.
            | EventData::RunStarted(_)
            | EventData::InterruptRequested(_)
            | EventData::ApprovalRequested(_)
            | EventData::RunFailed(_)
            | EventData::RunCancelled(_)
            | EventData::RunPaused(_)
            | EventData::RunResumed(_)
            | EventData::PauseRequested(_)
            | EventData::NodeStarted(_)
            | EventData::NodeFailed(_)
            | EventData::NodeSuspended(_)
            | EventData::NodeRetried(_)
            | EventData::NodeSkipped(_)
            | EventData::NodeCancelled(_)
            | EventData::NodeDispatched(_)
            | EventData::ApprovalGranted(_)
            | EventData::ApprovalRejected(_)
            | EventData::ApprovalOverridden(_)
            | EventData::ClarificationRequested(_)
            | EventData::ArtifactCreated(_)
            | EventData::OutputChunk(_)
            | EventData::LogAppended(_)
            | EventData::VersionPinned(_)
            | EventData::LoopbackLimit(_)
            | EventData::CapBreached(_)
            | EventData::ReplayDiverged(_)
            | EventData::AgentReasoned(_)
            | EventData::AgentReasoningDelta(_)
            | EventData::AgentToolCalled(_)
            | EventData::AgentToolReturned(_)
            | EventData::AgentHandoff(_)
            | EventData::AgentDecided(_)
            | EventData::OrchestratorDecided(_)
            | EventData::ConversationOpened(_)
            | EventData::ConversationExchanged(_)
            | EventData::ConversationClosed(_)
            | EventData::WorkflowChainEvent(_)
            | EventData::ConfidenceEscalated(_)
            | EventData::DispatchFanOut(_)
            | EventData::DispatchJoin(_)
            | EventData::ModelCapabilityInsufficient(_)
            | EventData::ModelCapabilitySubstituted(_)
            | EventData::ProviderUsage(_)
            | EventData::EnvelopeRetryAttempted(_)
            | EventData::EnvelopeRetryExhausted(_)
            | EventData::EnvelopeRefusal(_)
            | EventData::EnvelopeTruncated(_)
            | EventData::EnvelopeNlToFormatEngaged(_)
            | EventData::EnvelopeRecoveryApplied(_)
            | EventData::AgentPromptResolved(_)
            | EventData::PromptComposed(_)
            | EventData::Other { .. } => None,
        }
    }

    /// An event as readers see it.
    pub fn shown(&self, event: &Event) -> RawEvent {
        let raw = RawEvent::from(event);
        match self.payload(event) {
            Some(payload) => RawEvent { payload, ..raw },
            None => raw,
        }
    }

    /// Whether the event is about a node with sensitive outputs. The answer to an interrupt becomes an output of its node.
    fn is_sensitive(&self, event: &Event) -> bool {
        event.node_id.as_ref().is_some_and(|id| self.outputs.contains_key(id.as_str()))
    }

    fn hide(&self, event: &Event, members: &[&str]) -> Map<String, Value> {
        let mut payload = event.payload();
        for member in members {
            if let Some(given) = payload.remove(*member)
                            // A masked object is a string, and some members must be objects.
                && let Some(shown) = value(self.masking, &given).filter(|_| !given.is_object())
            {
                payload.insert((*member).to_owned(), shown);
            }
        }
        payload
    }
}
