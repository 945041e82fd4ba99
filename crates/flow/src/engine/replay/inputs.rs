//! From a recorded event back to the input that it came from.

use serde_json::{Map, Value, json};

use crate::definition::{Definition, NodeIndex, NodeType};
use crate::engine::{Cause, DrainPolicy, GuideFailure, GuideResult, Input, TimerKey, Told, guide, mapping};
use crate::event::{Event, EventKind, event_id};
use crate::id::{Principal, RunId};
use crate::interrupt::Via;
use crate::run::RunStatus;
use crate::state::{NodeStatus, RunError, RunState};

/// What came from outside.
pub(super) enum Step {
    /// An input.
    Take(Box<Input>),
    /// The deadline of a node's interrupt.
    InterruptDue(NodeIndex),
}

/// What came from outside where the next event was recorded; nothing where that is no event that an append begins with.
pub(super) fn next_step(definition: &Definition, state: &RunState, events: &[Event]) -> Option<Step> {
    let rest = events.get(usize::try_from(state.next_sequence).ok()?..)?;
    let event = rest.first()?;
    let node = event.node_id.as_ref().and_then(|id| state.place(id));
    let input = match &event.kind {
        kind if node.is_some_and(|node| is_called(definition, state, node))
            && !matches!(kind, EventKind::NodeStarted | EventKind::NodeCancelled) =>
        {
            called(definition, state, node?, rest)?
        }
        EventKind::RunStarted => Input::Create,
        EventKind::RunPaused | EventKind::PauseRequested => {
            Input::Pause { reason: text(event, "reason"), policy: policy(event) }
        }
        EventKind::RunResumed if text(event, "cause").is_some() => Input::Recover,
        EventKind::RunResumed => Input::Resume { reason: text(event, "reason") },
        // A run whose patterns were too large ended before anything else could happen.
        EventKind::CapBreached if text(event, "kind").as_deref() == Some("pattern-bytes") => Input::Recover,
        EventKind::CapBreached => Input::RunDeadline,
        EventKind::NodeCancelled | EventKind::RunCancelled => cancel(rest)?,
        EventKind::InterruptResolved if text(event, "reason").as_deref() == Some("timeout") => {
            return Some(Step::InterruptDue(node?));
        }
        EventKind::VariableChanged if node.is_none() => assign(rest),
        EventKind::NodeSuspended
        | EventKind::InterruptResolved
        | EventKind::NodeFailed
        | EventKind::NodeRetried
            if node.is_some_and(|node| definition.nodes[node].kind == NodeType::Guided) =>
        {
            guided(rest)?
        }
        EventKind::NodeDispatched => child_told(definition, node?, rest)?,
        EventKind::InterruptResolved
        | EventKind::ApprovalReceived
        | EventKind::ApprovalGranted
        | EventKind::ApprovalRejected
        | EventKind::ApprovalOverridden
        | EventKind::ConversationExchanged
        | EventKind::LogAppended => resolve(definition, node?, event)?,
        EventKind::NodeStarted
        | EventKind::NodeCompleted
        | EventKind::NodeFailed
        | EventKind::NodeRetried
        | EventKind::VariableChanged => worked(definition, state, node?, event),
        _ => return None,
    };
    Some(Step::Take(Box::new(input)))
}

fn text(event: &Event, name: &str) -> Option<String> {
    event.payload.get(name)?.as_str().map(str::to_owned)
}

fn policy(event: &Event) -> DrainPolicy {
    match text(event, "drainPolicy").as_deref() {
        Some("immediate") => DrainPolicy::Immediate,
        _ => DrainPolicy::DrainCurrentNode,
    }
}

fn assign(rest: &[Event]) -> Input {
    let from_outside =
        rest.iter().take_while(|event| event.kind == EventKind::VariableChanged && event.node_id.is_none());
    let variables =
        from_outside.filter_map(|event| Some((text(event, "name")?, event.payload.get("next")?.clone())));
    Input::Assign { variables: variables.collect() }
}

fn cancel(rest: &[Event]) -> Option<Input> {
    let event = rest.iter().find(|event| event.kind == EventKind::RunCancelled)?;
    Some(Input::Cancel {
        reason: text(event, "reason"),
        by: Principal::new(text(event, "cancelledBy").unwrap_or_default()),
        parent_run_id: text(event, "parentRunId").map(RunId::new),
    })
}

/// The answer that a person gave.
fn resolve(definition: &Definition, node: NodeIndex, event: &Event) -> Option<Input> {
    let (value, by) = match &event.kind {
        EventKind::InterruptResolved => {
            (event.payload.get("resumeValue").cloned()?, text(event, "resolvedBy"))
        }
        EventKind::LogAppended => {
            let fields = event.payload.get("fields")?;
            let by = fields.get("by").and_then(Value::as_str).map(str::to_owned);
            (fields.get("resumeValue").cloned()?, by)
        }
        EventKind::ConversationExchanged => {
            let turn = event.payload.get("turn")?;
            let by = turn.get("from").and_then(Value::as_str).map(str::to_owned);
            (json!({"content": turn.get("content")}), by)
        }
        EventKind::ApprovalReceived => {
            let mut value = event.payload.clone();
            let by = text(event, "decidedBy");
            value.insert("voter".into(), by.clone().into());
            (Value::Object(value), by)
        }
        kind => {
            let action = match kind {
                EventKind::ApprovalGranted => "accept",
                EventKind::ApprovalOverridden => "override",
                _ => "reject",
            };
            (json!({"action": action, "reason": text(event, "reason")}), text(event, "principal"))
        }
    };
    let config = &definition.nodes[node].config;
    // Whoever answered then had what the gate asks for.
    let overriding = config.get("override").and_then(|other| other.get("requiredRole"));
    let asked = [config.get("requiredRole"), config.get("requiredScope"), overriding];
    let grants = asked.into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
    let node_id = definition.nodes[node].id.clone();
    let by = Principal::new(by.unwrap_or_default());
    let via = Via::Log { closes: event.kind == EventKind::InterruptResolved };
    Some(Input::Resolve { node_id, interrupt_id: None, resume_value: value, by, grants, via })
}

/// The end of a delay, a retry or an effect.
fn worked(definition: &Definition, state: &RunState, node: NodeIndex, event: &Event) -> Input {
    let (subject, at) = (&definition.nodes[node], &state.nodes[node]);
    let failed = event.payload.get("error").or_else(|| event.payload.get("lastError"));
    if event.kind == EventKind::NodeStarted || subject.kind == NodeType::Delay {
        let timer =
            TimerKey::Node { node_id: subject.id.clone(), iteration: at.iteration, attempt: at.attempt };
        return Input::TimerDue { timer };
    }
    let outcome = match (&event.kind, failed) {
        (EventKind::VariableChanged, _) => Ok(event.payload.get("next").cloned().unwrap_or_default()),
        (_, Some(error)) => Err(RunError::from_json(error)),
        _ => Ok(event.payload.get("outputs").cloned().unwrap_or_else(|| json!({}))),
    };
    Input::ActivityDone { node_id: subject.id.clone(), ordinal: at.ordinal(), told: Vec::new(), outcome }
}

/// Whether a node waits for the host to do its work.
fn is_called(definition: &Definition, state: &RunState, node: NodeIndex) -> bool {
    let at = &state.nodes[node];
    definition.nodes[node].kind.is_called() && at.status == NodeStatus::Running && at.retry_at.is_none()
}

/// What the host made of a node, from all that was recorded of it.
fn called(definition: &Definition, state: &RunState, node: NodeIndex, rest: &[Event]) -> Option<Input> {
    let subject = &definition.nodes[node];
    let (first, at) = rest.first().map(|event| (event.sequence, event.timestamp))?;
    let is_end = |event: &Event| {
        use EventKind::{NodeCompleted, NodeFailed, NodeRetried, NodeSuspended};
        matches!(event.kind, NodeCompleted | NodeFailed | NodeRetried | NodeSuspended)
    };
    // What is recorded at once is recorded at one time; what came later came from another input.
    let of_node = |event: &&Event| {
        event.node_id.as_ref() == Some(&subject.id)
            && event.timestamp == at
            && event.kind != EventKind::NodeCancelled
    };
    let told = rest.iter().take_while(of_node).take_while(|event| !is_end(event));
    let mut told: Vec<_> = told
        .map(|event| Told {
            kind: event.kind.clone(),
            payload: event.payload.clone(),
            cause: event.causation_id.as_deref().map(|id| cause(id, first, &state.genesis.run_id)),
        })
        .collect();
    let (node_id, ordinal) = (subject.id.clone(), state.nodes[node].ordinal());
    let Some(end) = rest.get(told.len()).filter(|event| of_node(event) && is_end(event)) else {
        // The work went on, and something else happened meanwhile.
        return (!told.is_empty()).then_some(Input::ActivityTells { node_id, ordinal, told });
    };
    if end.kind == EventKind::NodeSuspended {
        let asked = rest.get(told.len() + 1).filter(|event| event.kind == EventKind::InterruptRequested)?;
        let cause = asked.causation_id.as_deref().map(|id| cause(id, first, &state.genesis.run_id));
        let mut payload = asked.payload.clone();
        if let Some(trust) = end.payload.get("contentTrust") {
            payload.insert("contentTrust".to_owned(), trust.clone());
        }
        told.push(Told { kind: asked.kind.clone(), payload, cause });
    }
    let outcome = match end.payload.get("error").or_else(|| end.payload.get("lastError")) {
        Some(error) => Err(RunError::from_json(error)),
        None => Ok(end.payload.get("outputs").cloned().unwrap_or_else(|| json!({}))),
    };
    Some(Input::ActivityDone { node_id, ordinal, told, outcome })
}

/// What caused an event: another one of the same append, whose first is `first`; an earlier one, which has another id in the run that
/// repeats it; or something outside.
fn cause(id: &str, first: u64, run_id: &RunId) -> Cause {
    let sequence = id.strip_prefix("evt_").and_then(|id| id.rsplit_once('_')?.1.parse::<u64>().ok());
    let Some(sequence) = sequence else { return Cause::Id(id.to_owned()) };
    match sequence.checked_sub(first).map(usize::try_from) {
        Some(Ok(place)) => Cause::Told(place),
        _ => Cause::Id(event_id(run_id, sequence)),
    }
}

/// The beginning or the end of a guided session, from what the node made of it.
fn guided(rest: &[Event]) -> Option<Input> {
    let event = rest.first()?;
    let node_id = event.node_id.clone()?;
    let of_node = || rest.iter().filter(|other| other.node_id == event.node_id);
    if event.kind == EventKind::NodeSuspended {
        let asked = of_node().find(|other| other.kind == EventKind::InterruptRequested)?;
        let session_id = guide::session_of(asked.payload.get("data")?)?.to_owned();
        return Some(Input::GuideStarted { node_id, session_id });
    }
    let session_id = event.payload.get("resumeValue").and_then(|value| value.get("sessionId"));
    let session_id = session_id.and_then(Value::as_str).unwrap_or_default().to_owned();
    let outcome = of_node().find_map(|other| match &other.kind {
        EventKind::NodeCompleted => Some(Ok(GuideResult::recorded(other.payload.get("outputs")?))),
        EventKind::NodeFailed => {
            let error = RunError::from_json(other.payload.get("error")?);
            Some(Err(GuideFailure { error, is_retryable: false }))
        }
        EventKind::NodeRetried => {
            let error = RunError::from_json(other.payload.get("lastError")?);
            Some(Err(GuideFailure { error, is_retryable: true }))
        }
        _ => None,
    });
    Some(Input::GuideEnded { node_id, session_id, outcome: outcome? })
}

/// That a child waits or goes on, or its end, with as much of its variables as was taken over.
fn child_told(definition: &Definition, node: NodeIndex, rest: &[Event]) -> Option<Input> {
    let event = rest.first()?;
    let status = text(event, "childStatus").as_deref().and_then(RunStatus::parse)?;
    if !status.is_terminal() {
        return Some(Input::ChildWaits { run_id: RunId::new(text(event, "childRunId")?), status });
    }
    let mapping = mapping::outputs(&definition.nodes[node], &text(event, "childWorkflowId")?);
    let (mut variables, mut error) = (Map::new(), None);
    for event in rest[1..].iter().take_while(|other| other.node_id == event.node_id) {
        match &event.kind {
            EventKind::WorkflowChainEvent => {
                error = error.or_else(|| event.payload.get("error").map(RunError::from_json));
            }
            EventKind::VariableChanged => {
                let name = text(event, "name")?;
                let from = mapping.iter().filter(|(parent, _)| *parent == name);
                for (_, child) in from {
                    variables.insert((*child).to_owned(), event.payload.get("next").cloned()?);
                }
            }
            _ => {
                error = error.or_else(|| child_error(event));
                break;
            }
        }
    }
    Some(Input::ChildEnded { run_id: RunId::new(text(event, "childRunId")?), status, variables, error })
}

fn child_error(event: &Event) -> Option<RunError> {
    let of_failure = |error: &Value| error.get("details")?.get("childError").cloned();
    let error = match &event.kind {
        EventKind::NodeFailed => of_failure(event.payload.get("error")?)?,
        EventKind::NodeRetried => of_failure(event.payload.get("lastError")?)?,
        EventKind::NodeCompleted => event.payload.get("outputs")?.get("error").cloned()?,
        _ => return None,
    };
    Some(RunError::from_json(&error))
}
