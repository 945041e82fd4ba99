//! Turns of a conversation, and its end.

use serde_json::Value;

use super::{Decided, Judgement, Reply, matches_schema};
use crate::definition::{Node, NodeConfig};
use crate::engine::Refusal;
use crate::state::{Interrupt, ResolutionOutcome};

pub(super) fn judge(node: &Node, interrupt: &Interrupt, reply: &Reply<'_>) -> Result<Judgement, Refusal> {
    let value = reply.value;
    let word = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let closes = [word("action"), word("op"), word("kind")]
        .iter()
        .any(|word| matches!(*word, "close" | "conversation.close"));
    let content = ["outcome", "content", "message"].iter().find_map(|name| value.get(name));
    let turn = match (content, closes) {
        (Some(content), _) => Some(content.clone()),
        (None, true) => None,
        (None, false) => Some(value.clone()),
    };
    if let (Some(schema), Some(turn)) = (interrupt.data.get("outcomeSchema"), &turn) {
        matches_schema(schema, turn)?;
    }
    let turns = interrupt.data.get("turnIndex").and_then(Value::as_u64).unwrap_or(0);
    match turn {
        Some(turn) if !closes && turn_limit(node).is_none_or(|most| turns.saturating_add(1) < most) => {
            Ok(Judgement::Exchanged(turn))
        }
        turn => Ok(Judgement::Decided(Decided {
            value: value.clone(),
            outcome: ResolutionOutcome::Accepted,
            by: reply.by.to_owned(),
            ballot: None,
            turn,
        })),
    }
}

/// The number of turns after which the conversation of a node ends automatically.
fn turn_limit(node: &Node) -> Option<u64> {
    let limit = match &node.config {
        NodeConfig::ConversationGate(config) => config.turn_count,
        NodeConfig::Interrupt(config) => config.turn_count.as_ref().and_then(Value::as_u64),
        // A worker asks one question, and the conversation ends with the answer.
        NodeConfig::Dispatch(_) => Some(1),
        NodeConfig::Conditional(_)
        | NodeConfig::Loop(_)
        | NodeConfig::Delay(_)
        | NodeConfig::SetVariable(_)
        | NodeConfig::GetVariable(_)
        | NodeConfig::Fail(_)
        | NodeConfig::ChannelWrite(_)
        | NodeConfig::ApprovalGate(_)
        | NodeConfig::GovernanceGate(_)
        | NodeConfig::ClarificationGate(_)
        | NodeConfig::SubWorkflow(_)
        | NodeConfig::Supervisor(_)
        | NodeConfig::Guided(_)
        | NodeConfig::MockAgent(_)
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
        | NodeConfig::Identity(_)
        | NodeConfig::Exposed(_)
        | NodeConfig::HttpRequest(_)
        | NodeConfig::Called(_)
        | NodeConfig::Pack => None,
    };
    limit.filter(|count| *count > 0)
}
