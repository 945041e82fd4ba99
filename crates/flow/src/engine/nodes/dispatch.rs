//! A node that runs the workers that the supervisor chose, one after the other.

use serde_json::{Map, Number, Value, json};

use super::super::ask::Question;
use super::super::children::child_failed;
use super::super::drain::Step;
use super::super::mapping;
use super::super::turn::Turn;
use super::{conversation, fan_out};
use crate::definition::NodeIndex;
use crate::definition::config::{AskUserRouting, DispatchConfig, FanOutPolicy};
use crate::definition::decision::DecisionKind;
use crate::event::data::dispatch::{ChainPhase, ConfidenceEscalated, WorkflowChainEvent};
use crate::failure::FailureCode;
use crate::id::{RunId, WorkflowId};
use crate::interrupt::InterruptKind;
use crate::run::RunStatus;
use crate::state::{Resolution, RunError};

/// The minimum confidence of a decision that is executed without asking.
const CONFIDENCE_FLOOR: f64 = 0.5;
/// The question about a decision with low confidence.
const PROCEED: &str = "proceed";

pub(super) fn execute(turn: &mut Turn<'_>, node: NodeIndex, config: &DispatchConfig) -> Step {
    let Some((decision, sequence)) = turn.state.last_decision.clone() else {
        let message =
            "no supervisor has made a decision; put a `core.orchestrator.supervisor` before the dispatch";
        return Step::failed(RunError::of(FailureCode::NoPendingDecision, message));
    };
    match DecisionKind::recorded(&decision) {
        DecisionKind::NextWorker => match decision.get("confidence").and_then(Value::as_f64) {
            Some(confidence) if confidence < CONFIDENCE_FLOOR => {
                escalate(turn, node, &decision, confidence, sequence)
            }
            Some(_) | None => start_workers(turn, node, config, &decision, sequence),
        },
        DecisionKind::AskUser => ask(turn, node, config, &decision, sequence),
        DecisionKind::Terminate => {
            let mut outputs = json!({"kind": "terminate"});
            if let Some(reason) = decision.get("reason") {
                outputs["reason"] = reason.clone();
            }
            Step::done(outputs)
        }
    }
}

/// Continues with the answer of a person: about a decision with low confidence, or to a question of the supervisor.
pub(super) fn answered(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &DispatchConfig,
    resolution: &Resolution,
) -> Step {
    let Some((decision, sequence)) = turn.state.last_decision.clone() else {
        return Step::failed(RunError::of(FailureCode::NoPendingDecision, "the decision no longer exists"));
    };
    if DecisionKind::recorded(&decision) == DecisionKind::NextWorker {
        let answer = resolution.value.get("answers").and_then(|answers| answers.get(PROCEED));
        if answer.is_some_and(is_yes) {
            return start_workers(turn, node, config, &decision, sequence);
        }
        return Step::done(json!({"kind": "declined", "answer": answer}));
    }
    let answer = resolution.value.get("answers").unwrap_or(&resolution.value);
    Step::done(json!({"kind": "ask-user", "answer": answer}))
}

fn is_yes(answer: &Value) -> bool {
    match answer {
        Value::Bool(answer) => *answer,
        Value::String(text) => {
            matches!(text.to_lowercase().as_str(), "yes" | "y" | "true" | "proceed" | "accept" | "ok")
        }
        _ => false,
    }
}

/// Asks a person about a decision with low confidence. No worker is started.
fn escalate(turn: &mut Turn<'_>, node: NodeIndex, decision: &Value, confidence: f64, sequence: u64) -> Step {
    let workers = workers(decision);
    let number = |number| Number::from_f64(number).unwrap_or_else(|| 0.into());
    let escalated = ConfidenceEscalated {
        confidence: number(confidence),
        escalation_kind: "clarify".into(),
        floor: number(CONFIDENCE_FLOOR),
        original_decision: decision.clone(),
        parent_run_id: turn.state.genesis.run_id.clone(),
        worker_id: workers.first().cloned(),
    };
    let cause = turn.emit(escalated, Some(node), Some(sequence));
    let question = format!(
        "The supervisor proposes {} next, with confidence {confidence}. Continue?",
        workers.join(", ")
    );
    let data = json!({"questions": [{"id": PROCEED, "question": question}]});
    clarify(turn, node, data, cause)
}

fn ask(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &DispatchConfig,
    decision: &Value,
    sequence: u64,
) -> Step {
    let prompt = decision.get("prompt").and_then(Value::as_str).unwrap_or("What is next?").to_owned();
    if !converses(turn, config) {
        let data = json!({"questions": [{"id": "answer", "question": prompt}]});
        return clarify(turn, node, data, sequence);
    }
    if let Some(step) = question_limit(turn, node) {
        return step;
    }
    conversation::open(turn, node, &prompt, None, Some(sequence));
    Step::Waits
}

/// Whether a question becomes a conversation. If the host does not support conversations, it is a single question.
fn converses(turn: &Turn<'_>, config: &DispatchConfig) -> bool {
    match config.ask_user_routing {
        AskUserRouting::Clarification => return false,
        AskUserRouting::Conversation | AskUserRouting::Auto => {}
    }
    match &turn.recorded {
        Some(recorded) => recorded.converses(turn.state.next_sequence),
        None => turn.environment.converses(),
    }
}

fn clarify(turn: &mut Turn<'_>, node: NodeIndex, data: Value, cause: u64) -> Step {
    if let Some(step) = question_limit(turn, node) {
        return step;
    }
    turn.raise(node, Question { cause: Some(cause), ..Question::new(InterruptKind::Clarification, data) });
    Step::Waits
}

fn question_limit(turn: &mut Turn<'_>, node: NodeIndex) -> Option<Step> {
    let limit = turn.limits.clarification_rounds;
    if turn.state.questions < limit {
        return None;
    }
    let cause = turn.breach("clarification", limit.into(), u64::from(limit) + 1, Some(node));
    let message = format!("the run reached its limit of {limit} questions");
    let error = RunError::of(FailureCode::ClarificationLimitExceeded, message);
    turn.fail_run(&error, Some(node), Some(cause));
    Some(Step::Waits)
}

pub(super) fn workers(decision: &Value) -> Vec<WorkflowId> {
    let list = decision.get("nextWorkerIds").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|id| Some(WorkflowId::new(id.as_str()?))).collect()
}

fn start_workers(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &DispatchConfig,
    decision: &Value,
    sequence: u64,
) -> Step {
    let workers = workers(decision);
    let several = workers.len() > 1;
    let in_parallel = match config.fan_out_policy {
        FanOutPolicy::Parallel => several,
        FanOutPolicy::Reject if several => {
            let message =
                "the dispatch starts one worker at a time; set `fanOutPolicy` to `sequential` or `parallel`";
            return Step::failed(RunError::of(FailureCode::FanOutUnsupported, message));
        }
        FanOutPolicy::Sequential | FanOutPolicy::Reject => false,
    };
    for worker in &workers {
        if let Some(error) = turn.refuse_child(worker) {
            let began = chain_event(turn, ChainPhase::DispatchBegan, worker, None);
            let began = turn.emit(began, Some(node), Some(sequence));
            let failed = chain_event(turn, ChainPhase::DispatchFailed, worker, None);
            let failed = WorkflowChainEvent { error: Some(error.clone()), ..failed };
            turn.emit(failed, Some(node), Some(began));
            return Step::failed(error);
        }
    }
    if in_parallel {
        fan_out::begin(turn, node, config, workers.len(), sequence);
    }
    advance(turn, node, config)
}

/// Starts the next worker, waits for the current one, or ends after the last.
pub(in crate::engine) fn advance(turn: &mut Turn<'_>, node: NodeIndex, config: &DispatchConfig) -> Step {
    let Some((decision, sequence)) = turn.state.last_decision.clone() else { return Step::Waits };
    let workers = workers(&decision);
    if turn.state.nodes[node].fan_out.is_some() {
        return fan_out::advance(turn, node, config, &workers, sequence);
    }
    let own = turn.own_children(node);
    if let Some(last) = own.last() {
        let child = &turn.state.children[*last];
        if child.ended.is_none() {
            return Step::Waits;
        }
        if child.status != RunStatus::Completed {
            return Step::failed_retryable(child_failed(child, child.error.as_ref()));
        }
    }
    match (workers.get(own.len()), own.last()) {
        (Some(worker), _) => {
            start(turn, node, config, worker, sequence);
            Step::Waits
        }
        (None, Some(last)) => {
            let child = &turn.state.children[*last];
            Step::done(json!({
                "kind": "next-worker", "childRunId": child.run_id, "childStatus": child.status.as_str(),
            }))
        }
        (None, None) => Step::done(json!({"kind": "next-worker"})),
    }
}

/// Starts one worker. Returns whether it was started.
pub(super) fn start(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &DispatchConfig,
    worker: &WorkflowId,
    sequence: u64,
) -> bool {
    if let Some(limit) = config.iteration_cap {
        let observed = turn.state.workers.saturating_add(1);
        if observed > limit {
            let cause = turn.breach("dispatch-iterations", limit, observed, Some(node));
            let message = format!("the dispatch reached its limit of {limit} workers");
            let error = RunError::of(FailureCode::DispatchLimitExceeded, message);
            turn.fail_run(&error, Some(node), Some(cause));
            return false;
        }
    }
    let began = chain_event(turn, ChainPhase::DispatchBegan, worker, None);
    let began = turn.emit(began, Some(node), Some(sequence));
    turn.record_handoff(node, worker, began);
    let index = turn.start_child(node, worker, Some(sequence));
    let run_id = turn.state.children[index].run_id.clone();
    let succeeded = chain_event(turn, ChainPhase::DispatchSucceeded, worker, Some(run_id));
    turn.emit(succeeded, Some(node), Some(began));
    true
}

/// Records the end of a worker, and copies its outputs.
pub(in crate::engine) fn child_ended(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    index: usize,
    variables: &Map<String, Value>,
    error: Option<RunError>,
) {
    let child = &turn.state.children[index];
    let (worker, run_id, cause) = (child.workflow_id.clone(), child.run_id.clone(), child.chain);
    let phase = match child.status {
        RunStatus::Completed => ChainPhase::ChildCompleted,
        RunStatus::Cancelled => ChainPhase::ChildCancelled,
        // Only a terminal status ends a child; see `Turn::child_ended`.
        RunStatus::Failed
        | RunStatus::Pending
        | RunStatus::Running
        | RunStatus::Paused
        | RunStatus::WaitingApproval
        | RunStatus::WaitingInput
        | RunStatus::WaitingExternal
        | RunStatus::Cancelling => ChainPhase::ChildFailed,
    };
    let ended = WorkflowChainEvent { error, ..chain_event(turn, phase, &worker, Some(run_id.clone())) };
    let cause = turn.emit(ended, Some(node), Some(cause));
    let names = turn.harvest(node, index, variables);
    if phase == ChainPhase::ChildCompleted && !mapping::outputs(turn.node(node), worker.as_str()).is_empty() {
        let harvested = chain_event(turn, ChainPhase::OutputHarvested, &worker, Some(run_id));
        let harvested = WorkflowChainEvent { harvested_keys: Some(names), ..harvested };
        turn.emit(harvested, Some(node), Some(cause));
    }
}

/// An event of the handoff to a worker.
pub(super) fn chain_event(
    turn: &Turn<'_>,
    phase: ChainPhase,
    worker: &WorkflowId,
    child_run_id: Option<RunId>,
) -> WorkflowChainEvent {
    WorkflowChainEvent {
        child_run_id,
        error: None,
        harvested_keys: None,
        parent_run_id: turn.state.genesis.run_id.clone(),
        phase,
        worker_id: worker.clone(),
    }
}
