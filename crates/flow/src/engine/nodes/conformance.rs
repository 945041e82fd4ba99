//! Nodes for conformance tests of a host.

use serde_json::{Map, Value, json};

use super::super::children::replay_source_missing;
use super::super::drain::Step;
use super::super::turn::Turn;
use super::super::{Activity, ActivityRequest, Effect, ids};
use crate::definition::config::{ArtifactEmitConfig, CostEmitConfig, SecretEchoConfig};
use crate::definition::node_type::MOCK_AGENT;
use crate::definition::{NodeIndex, NodeType};
use crate::event::data::model::ModelCapabilityInsufficient;
use crate::event::data::value::ArtifactCreated;
use crate::failure::FailureCode;
use crate::state::RunError;

const NEVER_PROVIDED: &str = "conformance.never-provided";
const NO_SUCH_MODEL: &str = "nonexistent-capability-9b3f";

/// The allowed attributes of costs. Others are dropped.
pub(crate) const COST_ATTRIBUTES: [&str; 7] = [
    "openwop.cost.tokens.input",
    "openwop.cost.tokens.output",
    "openwop.cost.tokens.total",
    "openwop.cost.usd",
    "openwop.cost.currency",
    "openwop.cost.estimated",
    "openwop.cost.provider",
];

/// The error of a mock node on a host without conformance seams.
pub(super) fn not_supported(type_id: &str) -> RunError {
    let message = format!(
        "`{type_id}` is a mock for conformance suites, and the conformance seams of this host are disabled; \
         remove the node, or start the host with OPENWOP_TEST_SEAM_ENABLED=true"
    );
    RunError::of(FailureCode::CapabilityNotProvided, message).with(json!({"capability": MOCK_AGENT}))
}

/// The error for a capability that no host has.
pub(super) fn requires_missing() -> RunError {
    let message = format!("the host does not provide `{NEVER_PROVIDED}`");
    RunError::of(FailureCode::CapabilityNotProvided, message).with(json!({"capability": NEVER_PROVIDED}))
}

/// The error for a model capability that no host has.
pub(super) fn insufficient_model(turn: &mut Turn<'_>, node: NodeIndex) -> RunError {
    let insufficient = ModelCapabilityInsufficient {
        fallback_attempted: None,
        missing_capabilities: vec![NO_SUCH_MODEL.to_owned()],
        model: "none".to_owned(),
        node_id: turn.node_id(node),
        provider: "none".to_owned(),
    };
    turn.emit(insufficient, Some(node), None);
    let message = format!("no available model has the capability `{NO_SUCH_MODEL}`");
    RunError::of(FailureCode::CapabilityNotProvided, message)
        .with(json!({"missingCapabilities": [NO_SUCH_MODEL]}))
}

/// Requests the digest of a secret.
pub(super) fn fingerprint(turn: &mut Turn<'_>, node: NodeIndex, config: &SecretEchoConfig) -> Step {
    effect(turn, node, ActivityRequest::SecretFingerprint { secret_id: config.secret_id.clone() }, "secrets")
}

/// Requests an increment of a counter.
pub(super) fn count(turn: &mut Turn<'_>, node: NodeIndex) -> Step {
    let name = turn.node(node).id.to_string();
    effect(turn, node, ActivityRequest::Count { name }, "count")
}

/// Requests an effect. Each iteration of a loop has its own effect; retries share one.
fn effect(turn: &mut Turn<'_>, node: NodeIndex, request: ActivityRequest, provider: &str) -> Step {
    if turn.is_past_recording() {
        return Step::failed(replay_source_missing());
    }
    let subject = turn.node(node);
    let ordinal = turn.state.nodes[node].iteration;
    let logical_invocation_id =
        ids::logical_invocation_id(&turn.state.genesis, &subject.id, ordinal, provider);
    turn.ask_host(Effect::Activity(Activity {
        node_id: subject.id.clone(),
        ordinal,
        logical_invocation_id,
        request,
    }));
    Step::Waits
}

pub(super) fn effect_done(turn: &mut Turn<'_>, node: NodeIndex, value: Value) -> Step {
    let id = &turn.node(node).id;
    match (turn.node(node).kind, value) {
        (NodeType::SecretEcho, value) => {
            turn.set_variable(Some(node), id.as_str(), &value, None);
            Step::done(json!({"output": value}))
        }
        (_, Value::Object(outputs)) => Step::Done(outputs),
        (_, value) => Step::done(json!({"output": value})),
    }
}

pub(super) fn cost(config: &CostEmitConfig) -> Step {
    let allowed = config.attrs.iter().filter(|(name, value)| {
        COST_ATTRIBUTES.contains(&name.as_str()) && !value.is_object() && !value.is_array()
    });
    Step::Done(allowed.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>())
}

pub(super) fn artifact(turn: &mut Turn<'_>, node: NodeIndex, config: &ArtifactEmitConfig) -> Step {
    let (run_id, iteration) = (turn.state.genesis.run_id.clone(), turn.state.nodes[node].iteration);
    let id =
        turn.recorded_artifact().unwrap_or_else(|| ids::artifact_id(&run_id, &turn.node(node).id, iteration));
    let kind = config.artifact_type.as_deref().filter(|kind| !kind.is_empty());
    let kind = kind.unwrap_or("document");
    let created = ArtifactCreated {
        artifact_id: id.clone(),
        artifact_type: kind.to_owned(),
        node_id: turn.node_id(node),
        summary: None,
    };
    turn.emit(created, Some(node), None);
    let document = json!({
        "artifactId": id, "artifactType": kind, "runId": run_id, "nodeId": turn.node(node).id,
        "data": config.data,
    });
    turn.ask_host(Effect::StoreArtifact { artifact_id: id.clone(), document });
    Step::done(json!({"artifactId": id}))
}
