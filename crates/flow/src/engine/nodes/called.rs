//! Nodes that the host executes.

use serde_json::{Map, Value, json};

use super::super::ask::ExternalOrigin;
use super::super::children::replay_source_missing;
use super::super::drain::Step;
use super::super::turn::Turn;
use super::super::{Activity, ActivityRequest, Cause, Effect, NodeCall, Report, Reported, Resumption, ids};
use super::{data, gates};
use crate::channel::{self, ChannelView};
use crate::definition::channel::Reducer;
use crate::definition::{NodeIndex, NodeType, config};
use crate::event::{EventData, event_id};
use crate::failure::FailureCode;
use crate::id::EffectId;
use crate::interrupt::InterruptKind;
use crate::state::{Resolution, RunError};

/// The maximum number of interrupts of one node.
const MAX_INTERRUPTS: u32 = 1000;

/// Requests the execution of a node. The node of the trigger that started the run outputs the message instead.
pub(super) fn call(turn: &mut Turn<'_>, node: NodeIndex, inputs: Map<String, Value>) -> Step {
    let trigger = turn.state.genesis.trigger.as_ref();
    let given = trigger.filter(|trigger| trigger.node_id.as_ref() == Some(&turn.node(node).id));
    if let Some(given) = given {
        return Step::Done(given.data.clone());
    }
    request(turn, node, inputs, None)
}

/// Requests that the host continues a node that waited for an interrupt.
pub(super) fn resume(turn: &mut Turn<'_>, node: NodeIndex, resolution: &Resolution) -> Step {
    let inputs = match turn.inputs(node) {
        Ok(inputs) => inputs,
        Err(error) => return Step::failed(error),
    };
    let before = turn.state.nodes[node].ordinal().saturating_sub(1);
    let resumption =
        Resumption { invocation: effect_id(turn, node, before), value: resolution.value.clone() };
    request(turn, node, inputs, Some(resumption))
}

fn effect_id(turn: &Turn<'_>, node: NodeIndex, ordinal: u32) -> EffectId {
    let subject = turn.node(node);
    ids::logical_invocation_id(&turn.state.genesis, &subject.id, ordinal, subject.type_id())
}

fn request(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    inputs: Map<String, Value>,
    resumption: Option<Resumption>,
) -> Step {
    if turn.is_past_recording() {
        return Step::failed(replay_source_missing());
    }
    turn.charge_variables(node);
    let subject = turn.node(node);
    let (ordinal, attempt) = (turn.state.nodes[node].ordinal(), turn.state.nodes[node].attempt);
    let logical_invocation_id = effect_id(turn, node, ordinal);
    // Only modules can read channels, which may be large.
    let channels = if subject.kind == NodeType::Pack {
        ChannelView::of(turn.definition, &turn.state.channels, subject, turn.now)
    } else {
        ChannelView::default()
    };
    let call = NodeCall {
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
        credential: subject.credential.clone(),
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

/// Records the reports of an effect, and then its result.
pub(super) fn done(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    reports: Vec<Reported>,
    outcome: Result<Value, RunError>,
) -> Step {
    // Either all writes are recorded, or none.
    let refused = check_writes(turn, node, &reports).err();
    let is_log = |report: &Reported| matches!(report.data(), Some(EventData::LogAppended(_)));
    let reports = reports.into_iter().filter(|report| refused.is_none() || is_log(report));
    if let Some((asked, causation_id)) = record(turn, node, reports) {
        return suspend(turn, node, asked, causation_id);
    }
    if let Some(error) = refused {
        return Step::failed(error);
    }
    match outcome {
        Ok(Value::Object(outputs)) => Step::Done(outputs),
        Ok(value) => Step::done(json!({"output": value})),
        Err(error) => Step::failed_retryable(error),
    }
}

/// Records the reports of an effect, up to a question. Returns the question and the id of its external cause.
pub(super) fn record(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    reports: impl IntoIterator<Item = Reported>,
) -> Option<(Map<String, Value>, Option<String>)> {
    let mut sequences = Vec::new();
    for Reported { report, cause } in reports {
        let sequence = match report {
            Report::Ask(asked) => {
                let external = match cause {
                    Some(Cause::Id(id)) => Some(id),
                    Some(Cause::Reported(_)) | None => None,
                };
                return Some((asked, external));
            }
            Report::SetVariable { name, value } => turn.set_variable(Some(node), &name, &value, None),
            Report::WriteChannel { channel, value } => {
                data::record(turn, node, &channel, &value, &Reducer::Replace)
            }
            Report::Event { data, extra } => {
                let run_id = &turn.state.genesis.run_id;
                let cause = match cause {
                    None => None,
                    Some(Cause::Reported(index)) => {
                        sequences.get(index).map(|sequence| event_id(run_id, *sequence))
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

/// Validates the channel writes of a node against the current channels.
fn check_writes(turn: &Turn<'_>, node: NodeIndex, reports: &[Reported]) -> Result<(), RunError> {
    let writes = reports.iter().filter_map(|reported| match &reported.report {
        Report::WriteChannel { channel, value } => Some((channel.as_str(), value)),
        Report::Event { .. } | Report::SetVariable { .. } | Report::Ask(_) => None,
    });
    channel::check_writes(turn.definition, &turn.state.channels, turn.node(node), writes, turn.now)
}

/// Suspends the node until its question is answered.
fn suspend(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    mut asked: Map<String, Value>,
    causation_id: Option<String>,
) -> Step {
    let refused = |message: String| Step::failed(RunError::of(FailureCode::ValidationError, message));
    if turn.state.nodes[node].interrupts >= MAX_INTERRUPTS {
        return refused(format!("the node has reached its limit of {MAX_INTERRUPTS} interrupts"));
    }
    let content_trust = asked.remove("contentTrust");
    asked.retain(|name, _| ["kind", "data", "resumeSchema", "timeoutMs"].contains(&name.as_str()));
    let kind = asked.get("kind").and_then(Value::as_str).unwrap_or_default();
    let is_allowed = |kind: InterruptKind| match kind {
        InterruptKind::Approval
        | InterruptKind::Clarification
        | InterruptKind::ExternalEvent
        | InterruptKind::Custom => true,
        // Only nodes of the engine use these.
        InterruptKind::ConversationStart
        | InterruptKind::ConversationExchange
        | InterruptKind::ConversationClose
        | InterruptKind::LowConfidence => false,
    };
    let kinds =
        || InterruptKind::ALL.iter().copied().filter(|kind| is_allowed(*kind)).map(InterruptKind::as_str);
    if !kinds().any(|known| known == kind) {
        let kinds: Vec<&str> = kinds().collect();
        return refused(format!(
            "the `kind` of an interrupt that a node requests must be one of {}",
            kinds.join(", ")
        ));
    }
    match config::interrupt(&asked) {
        Err(path) => refused(format!("the node requested an invalid interrupt: the problem is at `{path}`")),
        Ok(config) => gates::ask(turn, node, &config, ExternalOrigin { causation_id, content_trust }),
    }
}
