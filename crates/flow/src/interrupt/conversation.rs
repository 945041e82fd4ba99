//! Turns of a conversation, and its end.

use serde_json::Value;

use super::{Decided, Judgement, Reply, conforms};
use crate::definition::{Node, NodeType};
use crate::engine::Refusal;
use crate::state::{Interrupt, Outcome};

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
        conforms(schema, turn)?;
    }
    let so_far = interrupt.data.get("turnIndex").and_then(Value::as_u64).unwrap_or(0);
    let most = match node.kind {
        // A worker's question is over with its answer.
        NodeType::Dispatch => Some(1),
        _ => node.config.get("turnCount").and_then(Value::as_u64).filter(|count| *count > 0),
    };
    match turn {
        Some(turn) if !closes && most.is_none_or(|most| so_far.saturating_add(1) < most) => {
            Ok(Judgement::Exchanged(turn))
        }
        turn => Ok(Judgement::Decided(Decided {
            value: value.clone(),
            outcome: Outcome::Accepted,
            by: reply.by.to_owned(),
            ballot: None,
            turn,
        })),
    }
}
