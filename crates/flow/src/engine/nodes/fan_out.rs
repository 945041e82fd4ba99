//! Several workers at once, and how they are joined.

use serde_json::{Value, json};

use super::super::Effect;
use super::super::drain::Step;
use super::super::turn::Turn;
use super::dispatch::{start, step};
use crate::definition::NodeIndex;
use crate::definition::config::{DispatchConfig, FanOutPolicy, JoinMode, JoinPolicy, OnWorkerFailure};
use crate::event::EventData;
use crate::event::data::dispatch::{ChainPhase, DispatchFanOut, DispatchJoin, JoinOutcome};
use crate::failure::FailureCode;
use crate::id::{RunId, WorkflowId};
use crate::run::RunStatus;
use crate::state::RunError;

/// How the workers stand.
#[derive(Default)]
struct Tally {
    completed: usize,
    failed: usize,
    cancelled: usize,
    open: usize,
}

/// How many workers have to complete, where that is what counts.
fn needed(policy: JoinPolicy) -> Option<usize> {
    match policy.mode {
        JoinMode::Quorum => Some(usize::try_from(policy.quorum.unwrap_or(1)).unwrap_or(usize::MAX)),
        JoinMode::First => Some(1),
        JoinMode::WaitAll | JoinMode::Race => None,
    }
}

/// Records that several workers are started.
pub(super) fn begin(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &DispatchConfig,
    count: usize,
    sequence: u64,
) {
    let fan_out = DispatchFanOut {
        child_count: counted(count),
        fan_out_policy: FanOutPolicy::Parallel.as_str().into(),
        join_mode: config.join_policy.unwrap_or_default().mode,
        max_concurrency: counted(width(turn, config)),
    };
    turn.emit(fan_out, Some(node), Some(sequence));
}

/// How many workers may run at once.
fn width(turn: &Turn<'_>, config: &DispatchConfig) -> usize {
    let limit = u64::from(turn.limits.max_fan_out);
    usize::try_from(config.max_concurrency.unwrap_or(limit).min(limit)).unwrap_or(usize::MAX).max(1)
}

/// Joins the workers where they can be joined, and starts those that wait for a place.
pub(super) fn advance(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &DispatchConfig,
    workers: &[WorkflowId],
    sequence: u64,
) -> Step {
    let policy = config.join_policy.unwrap_or_default();
    let own = turn.own_children(node);
    let tally = tally(turn, &own);
    let waiting = workers.len() - own.len().min(workers.len());
    let lost = tally.failed + tally.cancelled;
    let needed = needed(policy);
    let met = match policy.mode {
        JoinMode::WaitAll => tally.open == 0 && waiting == 0,
        JoinMode::Quorum | JoinMode::First => needed.is_some_and(|needed| tally.completed >= needed),
        JoinMode::Race => tally.completed + lost > 0,
    };
    let unreachable = needed.is_some_and(|needed| tally.completed + tally.open + waiting < needed);
    let (fails_fast, absorbs) = match policy.on_child_failure {
        OnWorkerFailure::FailFast => (true, false),
        OnWorkerFailure::Absorb => (false, true),
        OnWorkerFailure::Collect => (false, false),
    };
    let outcome = if fails_fast && lost > 0 {
        JoinOutcome::Failed
    } else if met && lost == 0 {
        JoinOutcome::Satisfied
    } else if met || (unreachable && absorbs) {
        JoinOutcome::Partial
    } else if unreachable {
        JoinOutcome::Failed
    } else {
        let free = width(turn, config).saturating_sub(tally.open);
        for worker in workers.iter().skip(own.len()).take(free) {
            if !start(turn, node, config, worker, sequence) {
                break;
            }
        }
        return Step::Waits;
    };
    join(turn, node, outcome, &own, sequence)
}

fn tally(turn: &Turn<'_>, own: &[usize]) -> Tally {
    own.iter().fold(Tally::default(), |mut tally, place| {
        let child = &turn.state.children[*place];
        match child.status {
            _ if child.ended.is_none() => tally.open += 1,
            RunStatus::Completed => tally.completed += 1,
            RunStatus::Cancelled => tally.cancelled += 1,
            // Only a terminal status ends a child; in the log of another program, any other one counts as a failure.
            RunStatus::Failed
            | RunStatus::Pending
            | RunStatus::Running
            | RunStatus::Paused
            | RunStatus::WaitingApproval
            | RunStatus::WaitingInput
            | RunStatus::WaitingExternal
            | RunStatus::Cancelling => tally.failed += 1,
        }
        tally
    })
}

/// Ends the workers that run still, and records how all of them ended.
fn join(turn: &mut Turn<'_>, node: NodeIndex, outcome: JoinOutcome, own: &[usize], sequence: u64) -> Step {
    // The order in which they were seen to end is what decides whose value stays, now and whenever the log is read.
    let mut ended: Vec<usize> =
        own.iter().copied().filter(|place| turn.state.children[*place].ended.is_some()).collect();
    ended.sort_by_key(|place| turn.state.children[*place].ended);
    let merge_order: Vec<RunId> =
        ended.iter().map(|place| turn.state.children[*place].run_id.clone()).collect();
    for place in own {
        let child = &turn.state.children[*place];
        if child.ended.is_none() {
            let (run_id, worker, cause) = (child.run_id.clone(), child.workflow_id.clone(), child.chain);
            turn.tell_child(node, *place, RunStatus::Cancelled);
            let cancelled = step(turn, ChainPhase::ChildCancelled, &worker, Some(run_id.clone()));
            turn.emit(cancelled, Some(node), Some(cause));
            turn.ask_host(Effect::CancelChild { run_id });
        }
    }
    let tally = tally(turn, own);
    let children: Vec<Value> = own
        .iter()
        .map(|place| {
            let child = &turn.state.children[*place];
            let mut shown = json!({
                "workflowId": child.workflow_id, "childRunId": child.run_id, "childStatus": child.status.as_str(),
            });
            if let Some(error) = &child.error {
                shown["error"] = error.to_json();
            }
            shown
        })
        .collect();
    let joined = DispatchJoin {
        cancelled_count: counted(tally.cancelled),
        completed_count: counted(tally.completed),
        failed_count: counted(tally.failed),
        join_outcome: outcome,
        merge_order,
    };
    let joined = EventData::from(joined);
    let mut outputs = Value::Object(joined.to_members());
    turn.emit(joined, Some(node), Some(sequence));
    outputs["kind"] = "next-worker".into();
    outputs["children"] = children.into();
    if outcome == JoinOutcome::Failed {
        let message = "too many workers did not complete";
        return Step::failed_once(RunError::of(FailureCode::DispatchJoinFailed, message).with(outputs));
    }
    Step::done(outputs)
}

/// A number of workers in an event.
fn counted(workers: usize) -> u64 {
    u64::try_from(workers).unwrap_or(u64::MAX)
}
