//! What each node type does.
//!
//! [`execute`] starts a node. [`answered`] continues it with the answer to an interrupt, and [`effect_done`] with the result of an effect.
//! A node that waits has requested from the host what wakes it.

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

pub(super) use self::conversation::{end_conversation, exchange};
use super::Reported;
use super::ask::ExternalOrigin;
use super::drain::Step;
use super::turn::Turn;
use crate::definition::config::{DelayConfig, FailConfig};
use crate::definition::{ExposedType, NodeConfig, NodeIndex, NodeType};
use crate::interrupt::InterruptKind;
use crate::state::{Resolution, ResolutionOutcome, RunError};

/// The maximum delay: one year, like all other waiting times.
const MAX_DELAY_MS: u64 = 31_536_000_000;

/// Why a node cannot start: because of its type, or because the host does not support it.
pub(super) fn refused(turn: &mut Turn<'_>, node: NodeIndex) -> Option<RunError> {
    // Earlier versions registered mock nodes on hosts without conformance seams. A replay repeats what was recorded.
    if turn.node(node).is_mock() && turn.recorded.is_none() && !turn.environment.mocks() {
        return Some(conformance::not_supported(turn.node(node).type_id()));
    }
    if let NodeConfig::RequiresMissing = turn.node(node).config {
        return Some(conformance::requires_missing());
    }
    if let NodeConfig::ModelCapabilityInsufficient = turn.node(node).config {
        return Some(conformance::insufficient_model(turn, node));
    }
    None
}

/// Starts a node.
pub(super) fn execute(turn: &mut Turn<'_>, node: NodeIndex, inputs: Map<String, Value>) -> Step {
    match &turn.node(node).config {
        NodeConfig::Identity(config) => data::identity(turn, node, config, inputs),
        NodeConfig::Conditional(config) => data::conditional(turn, node, config, &inputs),
        NodeConfig::Loop(config) => data::count(turn, node, config, &inputs),
        NodeConfig::SetVariable(config) => data::set_variable(turn, node, config, &inputs),
        NodeConfig::GetVariable(config) => data::get_variable(turn, node, config),
        NodeConfig::ChannelWrite(config) => data::channel_write(turn, node, config, &inputs),
        NodeConfig::Delay(_) => delay(turn, node),
        NodeConfig::Fail(config) => Step::failed_retryable(configured_failure(config)),
        NodeConfig::Interrupt(config) => gates::ask(turn, node, config, ExternalOrigin::default()),
        NodeConfig::ApprovalGate(config) => gates::approval(turn, node, config, &inputs),
        NodeConfig::ClarificationGate(config) => gates::clarification(turn, node, config),
        NodeConfig::GovernanceGate(config) => gates::governance(turn, node, config, &inputs),
        NodeConfig::SubWorkflow(config) => sub_workflow::execute(turn, node, config),
        NodeConfig::Guided(config) => turn.guide(node, config, inputs),
        NodeConfig::Supervisor(config) => supervisor::execute(turn, node, config),
        NodeConfig::Dispatch(config) => dispatch::execute(turn, node, config),
        NodeConfig::ConversationGate(config) => conversation::execute(turn, node, config),
        NodeConfig::MockAgent(config) => agent::execute(turn, node, config),
        NodeConfig::SecretEcho(config) => conformance::fingerprint(turn, node, config),
        NodeConfig::CostEmit(config) => conformance::cost(config),
        NodeConfig::ArtifactEmit(config) => conformance::artifact(turn, node, config),
        NodeConfig::Exposed(config) => exposed::execute(turn, node, config, inputs),
        NodeConfig::HttpRequest(_) | NodeConfig::Called(_) | NodeConfig::Pack => {
            called::call(turn, node, inputs)
        }
        NodeConfig::Start | NodeConfig::End | NodeConfig::Parallel => Step::Done(inputs),
        NodeConfig::Noop => Step::Done(Map::new()),
        NodeConfig::Merge => data::merge(turn, node, inputs),
        NodeConfig::SideEffect => conformance::count(turn, node),
        NodeConfig::RequiresMissing | NodeConfig::ModelCapabilityInsufficient => {
            Step::failed(conformance::requires_missing())
        }
    }
}

/// Continues a node with the answer to an interrupt.
pub(super) fn answered(turn: &mut Turn<'_>, node: NodeIndex, resolution: &Resolution) -> Step {
    let is_approval = resolution.interrupt.kind == InterruptKind::Approval;
    if resolution.outcome == ResolutionOutcome::TimedOut && !is_approval {
        return Step::failed(Turn::timed_out());
    }
    match &turn.node(node).config {
        NodeConfig::Supervisor(config) => supervisor::reviewed(turn, node, config, resolution),
        NodeConfig::Dispatch(config) => dispatch::answered(turn, node, config, resolution),
        NodeConfig::MockAgent(_) => agent::reviewed(resolution),
        NodeConfig::Guided(config) => turn.guide_answered(node, config, resolution),
        NodeConfig::HttpRequest(_) | NodeConfig::Called(_) | NodeConfig::Pack => {
            called::resume(turn, node, resolution)
        }
        NodeConfig::Exposed(config) => match config.kind() {
            ExposedType::Elicitation => exposed::elicited(resolution),
            ExposedType::Sampling => called::resume(turn, node, resolution),
            ExposedType::ServerTrigger
            | ExposedType::Tool
            | ExposedType::Resource
            | ExposedType::ResourceTemplate
            | ExposedType::Prompt
            | ExposedType::Roots => gates::answered(turn, node, resolution),
        },
        // Only gates wait for an answer. The others are listed in case the log of another program says that they do.
        NodeConfig::Conditional(_)
        | NodeConfig::Loop(_)
        | NodeConfig::Delay(_)
        | NodeConfig::SetVariable(_)
        | NodeConfig::GetVariable(_)
        | NodeConfig::Fail(_)
        | NodeConfig::ChannelWrite(_)
        | NodeConfig::Interrupt(_)
        | NodeConfig::ApprovalGate(_)
        | NodeConfig::GovernanceGate(_)
        | NodeConfig::ClarificationGate(_)
        | NodeConfig::ConversationGate(_)
        | NodeConfig::SubWorkflow(_)
        | NodeConfig::SecretEcho(_)
        | NodeConfig::CostEmit(_)
        | NodeConfig::ArtifactEmit(_)
        | NodeConfig::Start
        | NodeConfig::End
        | NodeConfig::Noop
        | NodeConfig::Parallel
        | NodeConfig::Merge
        | NodeConfig::SideEffect
        | NodeConfig::RequiresMissing
        | NodeConfig::ModelCapabilityInsufficient
        | NodeConfig::Identity(_) => gates::answered(turn, node, resolution),
    }
}

/// Whether nodes of a type request an effect from the host.
pub(super) fn has_effect(config: &NodeConfig) -> bool {
    match config {
        NodeConfig::HttpRequest(_)
        | NodeConfig::Called(_)
        | NodeConfig::Pack
        | NodeConfig::SideEffect
        | NodeConfig::SecretEcho(_) => true,
        NodeConfig::Exposed(config) => NodeType::Exposed(config.kind()).is_called(),
        NodeConfig::Conditional(_)
        | NodeConfig::Loop(_)
        | NodeConfig::Delay(_)
        | NodeConfig::SetVariable(_)
        | NodeConfig::GetVariable(_)
        | NodeConfig::Fail(_)
        | NodeConfig::ChannelWrite(_)
        | NodeConfig::Interrupt(_)
        | NodeConfig::ApprovalGate(_)
        | NodeConfig::GovernanceGate(_)
        | NodeConfig::ClarificationGate(_)
        | NodeConfig::ConversationGate(_)
        | NodeConfig::SubWorkflow(_)
        | NodeConfig::Supervisor(_)
        | NodeConfig::Dispatch(_)
        | NodeConfig::Guided(_)
        | NodeConfig::MockAgent(_)
        | NodeConfig::CostEmit(_)
        | NodeConfig::ArtifactEmit(_)
        | NodeConfig::Start
        | NodeConfig::End
        | NodeConfig::Noop
        | NodeConfig::Parallel
        | NodeConfig::Merge
        | NodeConfig::RequiresMissing
        | NodeConfig::ModelCapabilityInsufficient
        | NodeConfig::Identity(_) => false,
    }
}

/// Continues a node with the result of an effect.
pub(super) fn effect_done(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    reports: Vec<Reported>,
    outcome: Result<Value, RunError>,
) -> Step {
    if turn.node(node).kind.is_called() {
        return called::done(turn, node, reports, outcome);
    }
    match outcome {
        Ok(value) => conformance::effect_done(turn, node, value),
        Err(error) => Step::failed_retryable(error),
    }
}

/// Records progress reports of an effect, unless one of them changes the run. Returns whether they were recorded.
pub(super) fn record_progress(turn: &mut Turn<'_>, node: NodeIndex, reports: Vec<Reported>) -> bool {
    let recorded = turn.node(node).kind.is_called() && !reports.iter().any(Reported::changes_run);
    if recorded {
        called::record(turn, node, reports);
    }
    recorded
}

/// The duration of a delay: from its port, or else from its configuration.
pub(super) fn delay_ms(config: &DelayConfig, inputs: &Map<String, Value>) -> u64 {
    let configured = config.delay_ms.or(config.duration_ms).or(config.ms);
    let given = inputs.get("delayMs").and_then(Value::as_f64).or(configured);
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

pub(super) fn delay_over(turn: &Turn<'_>, node: NodeIndex) -> Step {
    let state = &turn.state.nodes[node];
    let waited = match (state.started_at, state.due) {
        (Some(from), Some(until)) => until.since(from),
        _ => 0,
    };
    Step::done(json!({"delayMs": waited}))
}

fn configured_failure(config: &FailConfig) -> RunError {
    let text = |text: &Option<String>, or: &str| {
        text.as_deref().filter(|text| !text.is_empty()).unwrap_or(or).to_owned()
    };
    RunError::new(
        text(&config.code, "conformance_test_failure"),
        text(&config.message, "Intentional conformance failure"),
    )
}
