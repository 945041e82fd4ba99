//! Reconstructs inputs from recorded events.

use serde_json::{Map, Value, json};

use crate::definition::{Definition, NodeConfig, NodeIndex, NodeType};
use crate::engine::{Cause, GuideFailure, GuideResult, Input, Report, Reported, TimerKey, guide, mapping};
use crate::event::data::node::NodeDispatched;
use crate::event::{Event, EventData, event_id};
use crate::id::{Principal, RunId};
use crate::interrupt::Via;
use crate::state::{NodeStatus, RunError, RunState};

/// What happened to the run.
pub(super) enum Step {
    Input(Box<Input>),
    /// The deadline of a node's interrupt.
    InterruptDue(NodeIndex),
}

/// What caused the append that starts with the next recorded event; `None` if no append starts with such an event.
pub(super) fn next_step(definition: &Definition, state: &RunState, events: &[Event]) -> Option<Step> {
    let rest = events.get(usize::try_from(state.next_sequence).ok()?..)?;
    let event = rest.first()?;
    let node = event.node_id.as_ref().and_then(|id| state.node_index(id));
    let is_guided = node.is_some_and(|node| definition.nodes[node].kind == NodeType::Guided);
    let called = node.filter(|node| is_called(definition, state, *node));
    let input = match (&event.data, called) {
        (EventData::NodeStarted(_), _) => timer_due(definition, state, node?),
        (EventData::NodeCancelled(_) | EventData::RunCancelled(_), _) => cancel(rest)?,
        (_, Some(node)) => self::called(definition, state, node, rest)?,

        (EventData::RunStarted(_), None) => Input::Create,
        (EventData::RunPaused(paused), None) => {
            Input::Pause { reason: paused.reason.clone(), policy: paused.drain_policy }
        }
        (EventData::PauseRequested(requested), None) => {
            Input::Pause { reason: requested.reason.clone(), policy: requested.drain_policy }
        }
        (EventData::RunResumed(resumed), None) if resumed.cause.is_some() => Input::Recover,
        (EventData::RunResumed(resumed), None) => {
            Input::Resume { reason: resumed.reason.as_deref().map(str::to_owned) }
        }
        // A run whose patterns exceed the limit fails before anything else can happen.
        (EventData::CapBreached(breached), None) if breached.kind == "pattern-bytes" => Input::Recover,
        (EventData::CapBreached(_), None) => Input::RunDeadline,
        (EventData::InterruptResolved(resolved), None) if resolved.reason.is_some() => {
            return Some(Step::InterruptDue(node?));
        }
        (EventData::VariableChanged(_), None) if node.is_none() => assign(rest),
        (
            EventData::NodeSuspended(_)
            | EventData::InterruptResolved(_)
            | EventData::NodeFailed(_)
            | EventData::NodeRetried(_),
            None,
        ) if is_guided => guided(rest)?,
        (EventData::NodeDispatched(dispatched), None) => child_input(definition, node?, dispatched, rest)?,
        (EventData::InterruptResolved(resolved), None) => {
            let (value, by) = (resolved.resume_value.clone(), resolved.resolved_by.clone());
            resolve(definition, node?, value, by, true)
        }
        (EventData::ApprovalReceived(received), None) => {
            let mut value = event.payload();
            value.insert("voter".into(), received.decided_by.as_str().into());
            resolve(definition, node?, Value::Object(value), received.decided_by.clone(), false)
        }
        (EventData::ApprovalGranted(granted), None) => {
            let value = json!({"action": "accept", "reason": null});
            resolve(definition, node?, value, granted.principal.clone(), false)
        }
        (EventData::ApprovalRejected(rejected), None) => {
            let value = json!({"action": "reject", "reason": rejected.reason});
            resolve(definition, node?, value, rejected.principal.clone(), false)
        }
        (EventData::ApprovalOverridden(overridden), None) => {
            let value = json!({"action": "override", "reason": overridden.reason});
            resolve(definition, node?, value, overridden.principal.clone(), false)
        }
        (EventData::ConversationExchanged(exchanged), None) => {
            let turn = &exchanged.turn;
            resolve(definition, node?, json!({"content": turn.content}), turn.from.clone(), false)
        }
        (EventData::LogAppended(line), None) => {
            let fields = line.fields.as_ref()?;
            let by = fields.get("by").and_then(Value::as_str).unwrap_or_default().to_owned();
            resolve(definition, node?, fields.get("resumeValue").cloned()?, by, false)
        }
        (EventData::VariableChanged(changed), None) => {
            effect_result(definition, state, node?, Ok(changed.next.clone().unwrap_or_default()))
        }
        (EventData::NodeCompleted(completed), None) => {
            let outputs = completed.outputs.clone().unwrap_or_default();
            effect_result(definition, state, node?, Ok(Value::Object(outputs)))
        }
        (EventData::NodeFailed(failed), None) => {
            effect_result(definition, state, node?, Err(failed.error.clone()))
        }
        (EventData::NodeRetried(retried), None) => {
            effect_result(definition, state, node?, Err(retried.last_error.clone()))
        }

        // No append starts with these events: they follow from an earlier event of the same append.
        (
            EventData::RunCompleted(_)
            | EventData::RunFailed(_)
            | EventData::NodeSuspended(_)
            | EventData::NodeResumed(_)
            | EventData::NodeSkipped(_)
            | EventData::InterruptRequested(_)
            | EventData::ApprovalRequested(_)
            | EventData::ClarificationRequested(_)
            | EventData::ClarificationResolved(_)
            | EventData::ConversationOpened(_)
            | EventData::ConversationClosed(_)
            | EventData::ChannelWritten(_)
            | EventData::ArtifactCreated(_)
            | EventData::OutputChunk(_)
            | EventData::VersionPinned(_)
            | EventData::LoopbackLimit(_)
            | EventData::ReplayDiverged(_)
            | EventData::AgentReasoned(_)
            | EventData::AgentReasoningDelta(_)
            | EventData::AgentToolCalled(_)
            | EventData::AgentToolReturned(_)
            | EventData::AgentHandoff(_)
            | EventData::AgentDecided(_)
            | EventData::OrchestratorDecided(_)
            | EventData::AgentPromptResolved(_)
            | EventData::PromptComposed(_)
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
            | EventData::Other { .. },
            None,
        ) => return None,
    };
    Some(Step::Input(Box::new(input)))
}

fn assign(rest: &[Event]) -> Input {
    let variables = rest.iter().map_while(|event| match &event.data {
        EventData::VariableChanged(changed) if event.node_id.is_none() => Some(changed),
        _ => None,
    });
    let variables = variables.filter_map(|changed| Some((changed.name.clone(), changed.next.clone()?)));
    Input::Assign { variables: variables.collect() }
}

fn cancel(rest: &[Event]) -> Option<Input> {
    rest.iter().find_map(|event| match &event.data {
        EventData::RunCancelled(cancelled) => Some(Input::Cancel {
            reason: cancelled.reason.clone(),
            by: cancelled.cancelled_by.clone(),
            parent_run_id: cancelled.parent_run_id.clone(),
        }),
        _ => None,
    })
}

/// The answer of a person.
fn resolve(definition: &Definition, node: NodeIndex, value: Value, by: String, closes: bool) -> Input {
    let by = Principal::new(by);
    // The answer was accepted, so the person had the required grants.
    let grants = if let NodeConfig::GovernanceGate(config) = &definition.nodes[node].config {
        let required =
            [config.required_role.as_deref(), config.required_scope.as_deref(), config.overriding_role()];
        required.into_iter().flatten().map(str::to_owned).collect()
    } else {
        Vec::new()
    };
    let node_id = definition.nodes[node].id.clone();
    let via = Via::Log { closes };
    Input::Resolve { node_id, interrupt_id: None, resume_value: value, by, grants, via }
}

fn timer_due(definition: &Definition, state: &RunState, node: NodeIndex) -> Input {
    let (subject, at) = (&definition.nodes[node], &state.nodes[node]);
    let timer = TimerKey::Node { node_id: subject.id.clone(), iteration: at.iteration, attempt: at.attempt };
    Input::TimerDue { timer }
}

/// The end of a delay or an effect.
fn effect_result(
    definition: &Definition,
    state: &RunState,
    node: NodeIndex,
    outcome: Result<Value, RunError>,
) -> Input {
    let (subject, at) = (&definition.nodes[node], &state.nodes[node]);
    if subject.kind == NodeType::Delay {
        return timer_due(definition, state, node);
    }
    Input::ActivityDone { node_id: subject.id.clone(), ordinal: at.ordinal(), reports: Vec::new(), outcome }
}

/// Whether a node waits for the host to execute it.
fn is_called(definition: &Definition, state: &RunState, node: NodeIndex) -> bool {
    let at = &state.nodes[node];
    definition.nodes[node].kind.is_called() && at.status == NodeStatus::Running && at.retry_at.is_none()
}

/// The reports and the result of a node's effect, from its recorded events.
fn called(definition: &Definition, state: &RunState, node: NodeIndex, rest: &[Event]) -> Option<Input> {
    let subject = &definition.nodes[node];
    let (first, at) = rest.first().map(|event| (event.sequence, event.timestamp))?;
    // The events of one append have the same time. Later events come from another input.
    let of_node = |event: &&Event| {
        event.node_id.as_ref() == Some(&subject.id)
            && event.timestamp == at
            && !matches!(event.data, EventData::NodeCancelled(_))
    };
    let cause_of =
        |event: &Event| event.causation_id.as_deref().map(|id| cause(id, first, &state.genesis.run_id));
    let reports = rest.iter().take_while(of_node).take_while(|event| !is_end(event));
    let mut reports: Vec<_> = reports.map(|event| Reported::recorded(event, cause_of(event))).collect();
    let (node_id, ordinal) = (subject.id.clone(), state.nodes[node].ordinal());
    let Some(end) = rest.get(reports.len()).filter(|event| of_node(event) && is_end(event)) else {
        // Progress of an effect that continued.
        return (!reports.is_empty()).then_some(Input::ActivityReports { node_id, ordinal, reports });
    };
    if let EventData::NodeSuspended(suspended) = &end.data {
        let asked = rest.get(reports.len() + 1);
        let asked = asked.filter(|event| matches!(event.data, EventData::InterruptRequested(_)))?;
        let mut payload = asked.payload();
        if let Some(trust) = &suspended.content_trust {
            payload.insert("contentTrust".to_owned(), trust.clone());
        }
        reports.push(Reported { report: Report::Ask(payload), cause: cause_of(asked) });
    }
    let outcome = match &end.data {
        EventData::NodeFailed(failed) => Err(failed.error.clone()),
        EventData::NodeRetried(retried) => Err(retried.last_error.clone()),
        EventData::NodeCompleted(completed) => {
            Ok(Value::Object(completed.outputs.clone().unwrap_or_default()))
        }
        _ => Ok(json!({})),
    };
    Some(Input::ActivityDone { node_id, ordinal, reports, outcome })
}

/// Whether an event ends the effect of a node.
const fn is_end(event: &Event) -> bool {
    matches!(
        event.data,
        EventData::NodeCompleted(_)
            | EventData::NodeFailed(_)
            | EventData::NodeRetried(_)
            | EventData::NodeSuspended(_)
    )
}

/// The cause of an event: another event of the same append, which starts at `first`; an earlier event, which has another id in the
/// replay; or something external.
fn cause(id: &str, first: u64, run_id: &RunId) -> Cause {
    let sequence = id.strip_prefix("evt_").and_then(|id| id.rsplit_once('_')?.1.parse::<u64>().ok());
    let Some(sequence) = sequence else { return Cause::Id(id.to_owned()) };
    match sequence.checked_sub(first).map(usize::try_from) {
        Some(Ok(index)) => Cause::Reported(index),
        _ => Cause::Id(event_id(run_id, sequence)),
    }
}

/// The start or the end of a guided session, from the events of its node.
fn guided(rest: &[Event]) -> Option<Input> {
    let event = rest.first()?;
    let node_id = event.node_id.clone()?;
    let of_node = || rest.iter().filter(|other| other.node_id == event.node_id).map(|other| &other.data);
    if matches!(event.data, EventData::NodeSuspended(_)) {
        let asked = of_node().find_map(|data| match data {
            EventData::InterruptRequested(requested) => Some(&requested.data),
            _ => None,
        })?;
        return Some(Input::GuideStarted { node_id, session_id: guide::session_of(asked)?.to_owned() });
    }
    let session_id = match &event.data {
        EventData::InterruptResolved(resolved) => resolved.resume_value.get("sessionId"),
        _ => None,
    };
    let session_id = session_id.and_then(Value::as_str).unwrap_or_default().to_owned();
    let outcome = of_node().find_map(|data| match data {
        EventData::NodeCompleted(completed) => Some(Ok(GuideResult::recorded(completed.outputs.clone()?))),
        EventData::NodeFailed(failed) => {
            Some(Err(GuideFailure { error: failed.error.clone(), is_retryable: false }))
        }
        EventData::NodeRetried(retried) => {
            Some(Err(GuideFailure { error: retried.last_error.clone(), is_retryable: true }))
        }
        _ => None,
    });
    Some(Input::GuideEnded { node_id, session_id, outcome: outcome? })
}

/// The new status or the end of a child, with the variables that were copied from it.
fn child_input(
    definition: &Definition,
    node: NodeIndex,
    dispatched: &NodeDispatched,
    rest: &[Event],
) -> Option<Input> {
    let (run_id, status) = (dispatched.child_run_id.clone(), dispatched.child_status?);
    if !status.is_terminal() {
        return Some(Input::ChildWaits { run_id, status });
    }
    let mapping = mapping::outputs(&definition.nodes[node], dispatched.child_workflow_id.as_str());
    let (mut variables, mut error) = (Map::new(), None);
    let node_id = rest.first()?.node_id.as_ref();
    for event in rest[1..].iter().take_while(|other| other.node_id.as_ref() == node_id) {
        match &event.data {
            EventData::WorkflowChainEvent(chain) => error = error.or_else(|| chain.error.clone()),
            EventData::VariableChanged(changed) => {
                let from = mapping.iter().filter(|(parent, _)| *parent == changed.name);
                for (_, child) in from {
                    variables.insert((*child).to_owned(), changed.next.clone()?);
                }
            }
            data => {
                error = error.or_else(|| child_error(data));
                break;
            }
        }
    }
    Some(Input::ChildEnded { run_id, status, variables, error })
}

/// The error of a child, from the events of its node.
fn child_error(data: &EventData) -> Option<RunError> {
    let of_failure = |error: &RunError| error.details.as_ref()?.get("childError").map(RunError::from_json);
    match data {
        EventData::NodeFailed(failed) => of_failure(&failed.error),
        EventData::NodeRetried(retried) => of_failure(&retried.last_error),
        EventData::NodeCompleted(completed) => {
            completed.outputs.as_ref()?.get("error").map(RunError::from_json)
        }
        _ => None,
    }
}
