//! What each type of node does.
//!
//! [`execute`] begins the work of a node; [`answered`] and [`performed`] go on with it once a person or an effect has
//! answered. A node that waits has asked the host for what wakes it.

mod agent;
mod called;
pub(crate) mod conformance;
mod conversation;
mod data;
pub(super) mod dispatch;
mod exposed;
mod fan_out;
mod gates;
pub(super) mod sub_workflow;
mod supervisor;

use serde_json::{Map, Value, json};

pub(super) use self::conversation::{exchange, hang_up};
use super::Told;
use super::drain::Step;
use super::turn::Turn;
use crate::definition::{ExposedType, NodeIndex, NodeType};
use crate::interrupt::InterruptKind;
use crate::state::{Outcome, Resolution, RunError};

/// The longest delay: a year, as for everything else that waits.
const MAX_DELAY_MS: u64 = 31_536_000_000;

/// Why a node never begins, where its type says so, or the host does not serve it.
pub(super) fn refused(turn: &mut Turn<'_>, node: NodeIndex) -> Option<RunError> {
    // Earlier versions registered mock nodes on hosts without seams. What was recorded of one is repeated as it was.
    if turn.node(node).is_mock() && turn.recorded.is_none() && !turn.children.mocks() {
        return Some(conformance::not_served(turn.node(node).type_id()));
    }
    match turn.node(node).kind {
        NodeType::RequiresMissing => Some(conformance::requires_missing()),
        NodeType::ModelCapabilityInsufficient => Some(conformance::insufficient_model(turn, node)),
        _ => None,
    }
}

/// Begins the work of a node.
pub(super) fn execute(turn: &mut Turn<'_>, node: NodeIndex, inputs: Map<String, Value>) -> Step {
    match turn.node(node).kind {
        NodeType::Start | NodeType::End | NodeType::Parallel => Step::Done(inputs),
        NodeType::Noop => Step::Done(Map::new()),
        NodeType::Identity => data::identity(turn, node, inputs),
        NodeType::Conditional => data::conditional(turn, node, &inputs),
        NodeType::Loop => data::count(turn, node, &inputs),
        NodeType::Merge => data::merge(turn, node, inputs),
        NodeType::SetVariable => data::set_variable(turn, node, &inputs),
        NodeType::GetVariable => data::get_variable(turn, node),
        NodeType::ChannelWrite => data::channel_write(turn, node, &inputs),
        NodeType::Delay => delay(turn, node),
        NodeType::Fail => Step::failed_once(intended(turn, node)),
        NodeType::Interrupt => gates::interrupt(turn, node),
        NodeType::ApprovalGate => gates::approval(turn, node, &inputs),
        NodeType::ClarificationGate => gates::clarification(turn, node),
        NodeType::GovernanceGate => gates::governance(turn, node, &inputs),
        NodeType::SubWorkflow => sub_workflow::execute(turn, node),
        NodeType::Guided => turn.guide(node, inputs),
        NodeType::Supervisor => supervisor::execute(turn, node),
        NodeType::Dispatch => dispatch::execute(turn, node),
        NodeType::ConversationGate => conversation::execute(turn, node),
        NodeType::MockAgent => agent::execute(turn, node),
        NodeType::SideEffect | NodeType::SecretEcho => conformance::effect(turn, node),
        NodeType::CostEmit => conformance::cost(turn, node),
        NodeType::ArtifactEmit => conformance::artifact(turn, node),
        NodeType::Exposed(kind) => exposed::execute(turn, node, kind, &inputs),
        NodeType::Called(_) | NodeType::Pack => called::call(turn, node, inputs),
        NodeType::RequiresMissing | NodeType::ModelCapabilityInsufficient => {
            Step::failed(conformance::requires_missing())
        }
    }
}

/// Goes on with the answer to an interrupt.
pub(super) fn answered(turn: &mut Turn<'_>, node: NodeIndex, resolution: &Resolution) -> Step {
    let kind = turn.node(node).kind;
    let is_approval = resolution.interrupt.kind == InterruptKind::Approval;
    if resolution.outcome == Outcome::TimedOut && !is_approval {
        return Step::failed(Turn::timed_out());
    }
    match kind {
        NodeType::Supervisor => supervisor::ratified(turn, node, resolution),
        NodeType::Dispatch => dispatch::answered(turn, node, resolution),
        NodeType::MockAgent => agent::ratified(resolution),
        NodeType::Guided => turn.guide_answered(node, resolution),
        NodeType::Exposed(ExposedType::Elicitation) => exposed::elicited(resolution),
        kind if kind.is_called() => called::resume(turn, node, resolution),
        _ if is_approval => gates::decided(turn, node, resolution),
        _ => gates::resumed(resolution),
    }
}

/// Whether nodes of a type ask the host for an effect.
pub(super) const fn has_effect(kind: NodeType) -> bool {
    kind.is_called() || matches!(kind, NodeType::SideEffect | NodeType::SecretEcho)
}

/// Goes on with what came of an effect.
pub(super) fn performed(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    told: Vec<Told>,
    outcome: Result<Value, RunError>,
) -> Step {
    if turn.node(node).kind.is_called() {
        return called::done(turn, node, told, outcome);
    }
    match outcome {
        Ok(value) => conformance::performed(turn, node, value),
        Err(error) => Step::failed_once(error),
    }
}

/// Records what happens while the host does the work of a node, if it decides nothing. Whether it was.
pub(super) fn tells(turn: &mut Turn<'_>, node: NodeIndex, told: Vec<Told>) -> bool {
    let recorded = turn.node(node).kind.is_called() && !told.iter().any(Told::decides);
    if recorded {
        called::record(turn, node, told);
    }
    recorded
}

/// How long a delay takes: as its port says, or else its configuration.
pub(super) fn delay_ms(turn: &Turn<'_>, node: NodeIndex, inputs: &Map<String, Value>) -> u64 {
    let config = &turn.node(node).config;
    let of = |value: Option<&Value>| value.and_then(Value::as_f64);
    let given = of(inputs.get("delayMs"))
        .or_else(|| of(config.get("delayMs")))
        .or_else(|| of(config.get("durationMs")))
        .or_else(|| of(config.get("ms")));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is within the bounds"
    )]
    let milliseconds = given.unwrap_or(0.0).clamp(0.0, MAX_DELAY_MS as f64) as u64;
    milliseconds
}

fn delay(turn: &mut Turn<'_>, node: NodeIndex) -> Step {
    if turn.state.nodes[node].due.is_none_or(|due| due <= turn.now) {
        return delay_over(turn, node);
    }
    turn.set_node_timer(node);
    Step::Waits
}

/// A delay is over.
pub(super) fn delay_over(turn: &Turn<'_>, node: NodeIndex) -> Step {
    let state = &turn.state.nodes[node];
    let waited = match (state.started_at, state.due) {
        (Some(from), Some(until)) => until.since(from),
        _ => 0,
    };
    Step::done(json!({"delayMs": waited}))
}

fn intended(turn: &Turn<'_>, node: NodeIndex) -> RunError {
    let config = &turn.node(node).config;
    let text = |name: &str, or: &str| {
        let text = config.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.unwrap_or(or).to_owned()
    };
    RunError::new(
        text("code", "conformance_test_failure"),
        text("message", "Intentional conformance failure"),
    )
}
