//! Nodes whose work the host does.

use serde_json::{Map, Value, json};

use super::super::ask::Outside;
use super::super::children::no_source;
use super::super::drain::Step;
use super::super::turn::Turn;
use super::super::{Activity, ActivityRequest, Call, Cause, Effect, Report, Reported, Resumption, ids};
use super::{data, gates};
use crate::channel::{self, ChannelView};
use crate::definition::channel::Reducer;
use crate::definition::{NodeIndex, NodeType, config};
use crate::event::{EventData, event_id};
use crate::failure::FailureCode;
use crate::id::EffectId;
use crate::interrupt::InterruptKind;
use crate::state::{Resolution, RunError};

/// How often one node may wait for somebody in the middle of its work.
const MAX_INTERRUPTS: u32 = 1000;

/// Asks the host to do the work of a node. The node of the trigger that started the run has its message already.
pub(super) fn call(turn: &mut Turn<'_>, node: NodeIndex, inputs: Map<String, Value>) -> Step {
    let trigger = turn.state.genesis.trigger.as_ref();
    let given = trigger.filter(|trigger| trigger.node_id.as_ref() == Some(&turn.node(node).id));
    if let Some(given) = given {
        return Step::Done(given.data.clone());
    }
    ask_host(turn, node, inputs, None)
}

/// Asks the host to go on with the work of a node that waited for somebody.
pub(super) fn resume(turn: &mut Turn<'_>, node: NodeIndex, resolution: &Resolution) -> Step {
    let inputs = match turn.inputs(node) {
        Ok(inputs) => inputs,
        Err(error) => return Step::failed(error),
    };
    let before = turn.state.nodes[node].ordinal().saturating_sub(1);
    let resumption = Resumption { invocation: identity(turn, node, before), value: resolution.value.clone() };
    ask_host(turn, node, inputs, Some(resumption))
}

fn identity(turn: &Turn<'_>, node: NodeIndex, ordinal: u32) -> EffectId {
    let subject = turn.node(node);
    ids::logical_invocation_id(&turn.state.genesis, &subject.id, ordinal, subject.type_id())
}

fn ask_host(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    inputs: Map<String, Value>,
    resumption: Option<Resumption>,
) -> Step {
    if turn.has_no_source() {
        return Step::failed(no_source());
    }
    turn.copies_variables(node);
    let subject = turn.node(node);
    let (ordinal, attempt) = (turn.state.nodes[node].ordinal(), turn.state.nodes[node].attempt);
    let logical_invocation_id = identity(turn, node, ordinal);
    // Nobody but a module can ask for channels, and they may be large.
    let channels = if subject.kind == NodeType::Pack {
        ChannelView::of(turn.definition, &turn.state.channels, subject, turn.now)
    } else {
        ChannelView::default()
    };
    let call = Call {
        type_id: subject.type_id().to_owned(),
        config: subject.raw_config.clone(),
        inputs,
        variables: turn.state.variables.clone(),
        channels,
        configurable: turn.state.genesis.configurable.clone(),
        metadata: turn.state.genesis.metadata.clone(),
        agent: subject.agent.clone(),
        prompt_refs: turn.definition.document.pointer("/defaults/promptRefs").cloned(),
        attempt,
        is_test: turn.state.genesis.test,
        envelope_contract: subject.envelope_contract.clone(),
        clarification_rounds: turn.limits.clarification_rounds,
        resumption,
    };
    turn.ask_host(Effect::Activity(Activity {
        node_id: subject.id.clone(),
        ordinal,
        logical_invocation_id,
        request: ActivityRequest::Call(Box::new(call)),
    }));
    Step::Waits
}

/// Records what happened while the host worked, and then what came of it.
pub(super) fn done(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    told: Vec<Reported>,
    outcome: Result<Value, RunError>,
) -> Step {
    // All that it wrote is recorded, or nothing.
    let refused = check_writes(turn, node, &told).err();
    let is_log = |told: &Reported| matches!(told.data(), Some(EventData::LogAppended(_)));
    let told = told.into_iter().filter(|told| refused.is_none() || is_log(told));
    if let Some((asked, causation_id)) = record(turn, node, told) {
        return suspend(turn, node, asked, causation_id);
    }
    if let Some(error) = refused {
        return Step::failed(error);
    }
    match outcome {
        Ok(Value::Object(outputs)) => Step::Done(outputs),
        Ok(value) => Step::done(json!({"output": value})),
        Err(error) => Step::failed_once(error),
    }
}

/// Records what happened while the host worked, up to where the work waits for somebody: for what, and what that follows from, is given
/// back.
pub(super) fn record(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    told: impl IntoIterator<Item = Reported>,
) -> Option<(Map<String, Value>, Option<String>)> {
    let mut sequences = Vec::new();
    for Reported { report, cause } in told {
        let sequence = match report {
            Report::Ask(asked) => {
                let outside = match cause {
                    Some(Cause::Id(id)) => Some(id),
                    Some(Cause::Reported(_)) | None => None,
                };
                return Some((asked, outside));
            }
            Report::SetVariable { name, value } => turn.set_variable(Some(node), &name, &value, None),
            Report::WriteChannel { channel, value } => {
                data::record(turn, node, &channel, &value, &Reducer::Replace)
            }
            Report::Event { data, extra } => {
                let run_id = &turn.state.genesis.run_id;
                let cause = match cause {
                    None => None,
                    Some(Cause::Reported(place)) => {
                        sequences.get(place).map(|sequence| event_id(run_id, *sequence))
                    }
                    Some(Cause::Id(id)) => Some(id),
                };
                turn.record(*data, extra, Some(node), cause)
            }
        };
        sequences.push(sequence);
    }
    None
}

/// Checks what the work of a node wrote to channels, on what is in them now.
fn check_writes(turn: &Turn<'_>, node: NodeIndex, told: &[Reported]) -> Result<(), RunError> {
    let writes = told.iter().filter_map(|told| match &told.report {
        Report::WriteChannel { channel, value } => Some((channel.as_str(), value)),
        Report::Event { .. } | Report::SetVariable { .. } | Report::Ask(_) => None,
    });
    channel::check_writes(turn.definition, &turn.state.channels, turn.node(node), writes, turn.now)
}

/// Suspends the node until somebody answers what its work asks.
fn suspend(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    mut asked: Map<String, Value>,
    causation_id: Option<String>,
) -> Step {
    let refused = |message: String| Step::failed(RunError::of(FailureCode::ValidationError, message));
    if turn.state.nodes[node].interrupts >= MAX_INTERRUPTS {
        return refused(format!("the work of a node may wait {MAX_INTERRUPTS} times"));
    }
    let content_trust = asked.remove("contentTrust");
    asked.retain(|name, _| ["kind", "data", "resumeSchema", "timeoutMs"].contains(&name.as_str()));
    let kind = asked.get("kind").and_then(Value::as_str).unwrap_or_default();
    let waits_for = |kind: InterruptKind| match kind {
        InterruptKind::Approval
        | InterruptKind::Clarification
        | InterruptKind::ExternalEvent
        | InterruptKind::Custom => true,
        // These belong to nodes of the engine's own.
        InterruptKind::ConversationStart
        | InterruptKind::ConversationExchange
        | InterruptKind::ConversationClose
        | InterruptKind::LowConfidence => false,
    };
    let kinds =
        || InterruptKind::ALL.iter().copied().filter(|kind| waits_for(*kind)).map(InterruptKind::as_str);
    if !kinds().any(|known| known == kind) {
        let kinds: Vec<&str> = kinds().collect();
        return refused(format!("what the work of a node waits for has `kind`, one of {}", kinds.join(", ")));
    }
    match config::interrupt(&asked) {
        Err(path) => refused(format!("what the work of the node waits for is no interrupt, at `{path}`")),
        Ok(config) => gates::ask(turn, node, &config, Outside { causation_id, content_trust }),
    }
}
