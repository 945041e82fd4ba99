//! Several workers at once, and how they are joined.

use serde_json::{Value, json};

use super::super::Effect;
use super::super::drain::Step;
use super::super::turn::Turn;
use super::dispatch::{start, step};
use crate::definition::NodeIndex;
use crate::definition::config::JoinMode;
use crate::event::EventData;
use crate::event::data::dispatch::{ChainPhase, DispatchFanOut, DispatchJoin, JoinOutcome};
use crate::failure::FailureCode;
use crate::id::{RunId, WorkflowId};
use crate::run::RunStatus;
use crate::state::RunError;

/// When the workers are joined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    WaitAll,
    Quorum(usize),
    First,
    Race,
}

/// What the failure of one worker does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnFailure {
    Collect,
    FailFast,
    Absorb,
}

/// How the workers stand.
#[derive(Default)]
struct Tally {
    completed: usize,
    failed: usize,
    cancelled: usize,
    open: usize,
}

impl Mode {
    fn of(turn: &Turn<'_>, node: NodeIndex) -> Self {
        let policy = turn.node(node).config.get("joinPolicy");
        let member = |name: &str| policy.and_then(|policy| policy.get(name));
        match member("mode").and_then(Value::as_str) {
            Some("quorum") => {
                let quorum = member("quorum").and_then(Value::as_u64).unwrap_or(1);
                Self::Quorum(usize::try_from(quorum).unwrap_or(usize::MAX))
            }
            Some("first") => Self::First,
            Some("race") => Self::Race,
            _ => Self::WaitAll,
        }
    }

    const fn told(self) -> JoinMode {
        match self {
            Self::WaitAll => JoinMode::WaitAll,
            Self::Quorum(_) => JoinMode::Quorum,
            Self::First => JoinMode::First,
            Self::Race => JoinMode::Race,
        }
    }

    /// How many workers have to complete, where that is what counts.
    const fn needed(self) -> Option<usize> {
        match self {
            Self::Quorum(needed) => Some(needed),
            Self::First => Some(1),
            Self::WaitAll | Self::Race => None,
        }
    }
}

impl OnFailure {
    fn of(turn: &Turn<'_>, node: NodeIndex) -> Self {
        let policy = turn.node(node).config.get("joinPolicy").and_then(|policy| policy.get("onChildFailure"));
        match policy.and_then(Value::as_str) {
            Some("fail-fast") => Self::FailFast,
            Some("absorb") => Self::Absorb,
            _ => Self::Collect,
        }
    }
}

/// Records that several workers are started.
pub(super) fn begin(turn: &mut Turn<'_>, node: NodeIndex, count: usize, sequence: u64) {
    let fan_out = DispatchFanOut {
        child_count: counted(count),
        fan_out_policy: "parallel".into(),
        join_mode: Mode::of(turn, node).told(),
        max_concurrency: counted(width(turn, node)),
    };
    turn.emit(fan_out, Some(node), Some(sequence));
}

/// How many workers may run at once.
fn width(turn: &Turn<'_>, node: NodeIndex) -> usize {
    let own = turn.node(node).config.get("maxConcurrency").and_then(Value::as_u64);
    let limit = u64::from(turn.limits.max_fan_out);
    usize::try_from(own.unwrap_or(limit).min(limit)).unwrap_or(usize::MAX).max(1)
}

/// Joins the workers where they can be joined, and starts those that wait for a place.
pub(super) fn advance(turn: &mut Turn<'_>, node: NodeIndex, workers: &[WorkflowId], sequence: u64) -> Step {
    let (mode, on_failure) = (Mode::of(turn, node), OnFailure::of(turn, node));
    let own = turn.own_children(node);
    let tally = tally(turn, &own);
    let waiting = workers.len() - own.len().min(workers.len());
    let lost = tally.failed + tally.cancelled;
    let met = match mode {
        Mode::WaitAll => tally.open == 0 && waiting == 0,
        Mode::Quorum(needed) => tally.completed >= needed,
        Mode::First => tally.completed > 0,
        Mode::Race => tally.completed + lost > 0,
    };
    let unreachable = mode.needed().is_some_and(|needed| tally.completed + tally.open + waiting < needed);
    let outcome = if on_failure == OnFailure::FailFast && lost > 0 {
        JoinOutcome::Failed
    } else if met && lost == 0 {
        JoinOutcome::Satisfied
    } else if met || (unreachable && on_failure == OnFailure::Absorb) {
        JoinOutcome::Partial
    } else if unreachable {
        JoinOutcome::Failed
    } else {
        let free = width(turn, node).saturating_sub(tally.open);
        for worker in workers.iter().skip(own.len()).take(free) {
            if !start(turn, node, worker, sequence) {
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
        match (child.ended, child.status) {
            (None, _) => tally.open += 1,
            (_, RunStatus::Completed) => tally.completed += 1,
            (_, RunStatus::Cancelled) => tally.cancelled += 1,
            _ => tally.failed += 1,
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
