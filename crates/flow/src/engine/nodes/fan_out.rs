//! Starts several workers in parallel, and joins them.

use serde_json::{Value, json};

use super::super::Effect;
use super::super::drain::Step;
use super::super::turn::Turn;
use super::dispatch::{chain_event, start};
use crate::definition::NodeIndex;
use crate::definition::config::{DispatchConfig, FanOutPolicy, JoinMode, JoinPolicy, OnWorkerFailure};
use crate::event::EventData;
use crate::event::data::dispatch::{ChainPhase, DispatchFanOut, DispatchJoin, JoinOutcome};
use crate::failure::FailureCode;
use crate::id::{RunId, WorkflowId};
use crate::run::RunStatus;
use crate::state::RunError;

/// The numbers of workers by status.
#[derive(Default)]
struct Tally {
    completed: usize,
    failed: usize,
    cancelled: usize,
    open: usize,
}

/// The number of workers that must complete, if the mode has one.
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
        child_count: as_u64(count),
        fan_out_policy: FanOutPolicy::Parallel.as_str().into(),
        join_mode: config.join_policy.unwrap_or_default().mode,
        max_concurrency: as_u64(max_concurrency(turn, config)),
    };
    turn.emit(fan_out, Some(node), Some(sequence));
}

/// The maximum number of concurrent workers.
fn max_concurrency(turn: &Turn<'_>, config: &DispatchConfig) -> usize {
    let limit = u64::from(turn.limits.max_fan_out);
    usize::try_from(config.max_concurrency.unwrap_or(limit).min(limit)).unwrap_or(usize::MAX).max(1)
}

/// Joins the workers if possible. Otherwise starts more workers, up to the limit.
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
        let free = max_concurrency(turn, config).saturating_sub(tally.open);
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
    own.iter().fold(Tally::default(), |mut tally, index| {
        let child = &turn.state.children[*index];
        match child.status {
            _ if child.ended.is_none() => tally.open += 1,
            RunStatus::Completed => tally.completed += 1,
            RunStatus::Cancelled => tally.cancelled += 1,
            // Only a terminal status ends a child. In the log of another program, any other status counts as a failure.
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

/// Cancels the running workers, and records the result of all of them.
fn join(turn: &mut Turn<'_>, node: NodeIndex, outcome: JoinOutcome, own: &[usize], sequence: u64) -> Step {
    // The order in which the parent saw them end decides whose variables remain. It is recorded, so it is the same in every replay.
    let mut ended: Vec<usize> =
        own.iter().copied().filter(|index| turn.state.children[*index].ended.is_some()).collect();
    ended.sort_by_key(|index| turn.state.children[*index].ended);
    let merge_order: Vec<RunId> =
        ended.iter().map(|index| turn.state.children[*index].run_id.clone()).collect();
    for index in own {
        let child = &turn.state.children[*index];
        if child.ended.is_none() {
            let (run_id, worker, cause) = (child.run_id.clone(), child.workflow_id.clone(), child.chain);
            turn.record_child_status(node, *index, RunStatus::Cancelled);
            let cancelled = chain_event(turn, ChainPhase::ChildCancelled, &worker, Some(run_id.clone()));
            turn.emit(cancelled, Some(node), Some(cause));
            turn.ask_host(Effect::CancelChild { run_id });
        }
    }
    let tally = tally(turn, own);
    let children: Vec<Value> = own
        .iter()
        .map(|index| {
            let child = &turn.state.children[*index];
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
        cancelled_count: as_u64(tally.cancelled),
        completed_count: as_u64(tally.completed),
        failed_count: as_u64(tally.failed),
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
        return Step::failed_retryable(RunError::of(FailureCode::DispatchJoinFailed, message).with(outputs));
    }
    Step::done(outputs)
}

/// A number of workers, as events record it.
fn as_u64(workers: usize) -> u64 {
    u64::try_from(workers).unwrap_or(u64::MAX)
}
