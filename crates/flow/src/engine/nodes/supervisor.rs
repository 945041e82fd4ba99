//! The supervisor, which decides which workers run next.

use serde_json::{Value, json};

use super::super::ask::{LowConfidence, Question};
use super::super::drain::Step;
use super::super::turn::Turn;
use super::agent;
use crate::definition::NodeIndex;
use crate::definition::config::SupervisorConfig;
use crate::definition::decision::is_decision;
use crate::event::data::agent::{AgentDecided, OrchestratorDecided};
use crate::failure::FailureCode;
use crate::state::{Resolution, ResolutionOutcome, RunError};

pub(super) fn execute(turn: &mut Turn<'_>, node: NodeIndex, config: &SupervisorConfig) -> Step {
    let confidence = config.mock_confidence.as_ref().and_then(Value::as_f64);
    let agent_id = agent_id(turn, node, config);
    let (threshold, decision) = (agent::threshold(turn, &agent_id), next(turn, config));
    match confidence {
        Some(observed) if observed.is_finite() && observed < threshold => {
            let held = config.mock_pending_decision.clone().unwrap_or(decision);
            let low_confidence = LowConfidence { agent_id, observed, threshold };
            turn.raise(node, Question::low_confidence(low_confidence, &held));
            Step::Waits
        }
        Some(_) | None => decide(turn, node, config, &decision),
    }
}

/// An operator accepted the decision, or replaced it.
pub(super) fn reviewed(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &SupervisorConfig,
    resolution: &Resolution,
) -> Step {
    if resolution.outcome == ResolutionOutcome::Rejected {
        return Step::failed(RunError::of(FailureCode::InterruptRejected, "the decision was rejected"));
    }
    let other = resolution.value.get("decision").filter(|decision| is_decision(decision)).cloned();
    let held = resolution.interrupt.data.get("decision").cloned();
    decide(turn, node, config, &other.or(held).unwrap_or_else(|| json!({"kind": "terminate"})))
}

/// The next decision of the plan, or `terminate` at its end.
fn next(turn: &Turn<'_>, config: &SupervisorConfig) -> Value {
    let plan = config.mock_dispatch_plan.as_ref().or(config.mock_decisions.as_ref());
    let tick = usize::try_from(turn.state.decisions).unwrap_or(usize::MAX);
    match plan {
        Some(plan) => plan.get(tick).cloned(),
        None if tick == 0 => Some(json!({"kind": "next-worker", "nextWorkerIds": ["conformance-noop"]})),
        None => None,
    }
    .unwrap_or_else(|| json!({"kind": "terminate", "reason": "goal-reached"}))
}

fn decide(turn: &mut Turn<'_>, node: NodeIndex, config: &SupervisorConfig, decision: &Value) -> Step {
    let (limit, iteration) = (turn.max_decisions(), turn.state.decisions.saturating_add(1));
    if iteration > limit {
        let cause = turn.breach("loop-iterations", limit, iteration, Some(node));
        let error = RunError::of(
            FailureCode::LoopLimitExceeded,
            format!("the supervisor reached its limit of {limit} decisions"),
        );
        turn.fail_run(&error, Some(node), Some(cause));
        return Step::Waits;
    }
    let agent_id = agent_id(turn, node, config);
    let decided = AgentDecided {
        agent_id: agent_id.clone(),
        confidence: decision.get("confidence").cloned(),
        content_trust: None,
        decision: decision.clone(),
        reasoning: None,
    };
    let cause = turn.emit(decided, Some(node), None);
    let decided = OrchestratorDecided { agent_id, decision: decision.clone(), iteration };
    turn.emit(decided, Some(node), Some(cause));
    Step::done(json!({"decision": decision}))
}

fn agent_id(turn: &Turn<'_>, node: NodeIndex, config: &SupervisorConfig) -> String {
    let subject = turn.node(node);
    let named = match &config.agent_id {
        Some(configured) => configured.as_str(),
        None => agent::pinned(subject),
    };
    agent::agent_id(subject, named, "supervisor")
}
