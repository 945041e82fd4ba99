//! A node that talks with a person: it opens, exchanges turns, and closes.

use serde_json::{Value, json};

use super::super::ask::Question;
use super::super::drain::Step;
use super::super::turn::Turn;
use super::data;
use crate::definition::NodeIndex;
use crate::event::EventKind;
use crate::interrupt::Decided;
use crate::state::{Interrupt, Outcome};

/// The channel that turns are written to, where the workflow declares it.
const CHANNEL: &str = "conversation";
const PROMPT: &str = "How can I help?";

pub(super) fn execute(turn: &mut Turn<'_>, node: NodeIndex) -> Step {
    let config = &turn.node(node).config;
    let prompt = config.get("prompt").and_then(Value::as_str).filter(|prompt| !prompt.is_empty());
    let prompt = prompt.unwrap_or(PROMPT);
    if config.get("mockAutoResume") == Some(&Value::Bool(true)) {
        return rehearse(turn, node, prompt);
    }
    open(turn, node, prompt, config.get("schema").cloned(), None);
    Step::Waits
}

/// The id of a conversation: the same in a replay as in the run that it repeats.
fn conversation_id(turn: &Turn<'_>, node: NodeIndex) -> String {
    let state = &turn.state.nodes[node];
    let id = format!("conversation:{}:{}:{}", turn.node(node).id, state.iteration, state.interrupts);
    // The ids of nodes have no bound of their own.
    id.chars().take(200).collect()
}

/// Opens a conversation, and waits for the first turn.
pub(super) fn open(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    prompt: &str,
    schema: Option<Value>,
    cause: Option<u64>,
) {
    let id = conversation_id(turn, node);
    let at = turn.now.0;
    let cause = opened(turn, node, &id, prompt, at, cause);
    let mut data = json!({"conversationId": id, "prompt": prompt, "turnIndex": 0});
    if let Some(schema) = schema {
        data["outcomeSchema"] = schema;
    }
    let suspended = json!({"reason": "conversation-input", "conversationId": id});
    let question = Question { suspended, cause: Some(cause), ..Question::new("conversation.exchange", data) };
    turn.raise(node, question);
}

/// A whole conversation with nobody, for tests: its ids and times do not depend on the run.
fn rehearse(turn: &mut Turn<'_>, node: NodeIndex, prompt: &str) -> Step {
    let id = conversation_id(turn, node);
    let count = turn.node(node).config.get("turnCount").and_then(Value::as_u64).unwrap_or(1);
    let mut cause = opened(turn, node, &id, prompt, 0, None);
    let mut last = message(&id, 0, "agent", &prompt.into(), 0);
    for index in 1..=count {
        last = message(&id, index, "user", &format!("Turn {index}").into(), index);
        cause = exchanged(turn, node, &id, index, &last, cause);
    }
    closed(turn, node, &id, count, &last, Value::Null, cause);
    Step::done(json!({"conversationId": id, "turnCount": count}))
}

/// Records one turn of a conversation that goes on.
pub(in crate::engine) fn exchange(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    content: &Value,
    by: &str,
    cause: Option<u64>,
) {
    let Some(open) = turn.state.interrupts.get(&turn.node(node).id) else { return };
    let (id, index) = place(open);
    let index = index.saturating_add(1);
    let turn_made = from(by, message(&id, index, "user", content, turn.now.0));
    exchanged(turn, node, &id, index, &turn_made, cause.unwrap_or_default());
}

/// Records the end of a conversation, with its last turn where there is one.
pub(in crate::engine) fn hang_up(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    open: &Interrupt,
    decided: &Decided,
    cause: u64,
) {
    let (id, mut index) = place(open);
    let mut cause = cause;
    let content = match (&decided.turn, decided.outcome) {
        (Some(content), _) => {
            index = index.saturating_add(1);
            content.clone()
        }
        (None, Outcome::TimedOut) => "timeout".into(),
        (None, _) => "close".into(),
    };
    let last = from(&decided.by, message(&id, index, "user", &content, turn.now.0));
    if decided.turn.is_some() {
        cause = exchanged(turn, node, &id, index, &last, cause);
    }
    let outcome = decided.turn.clone().unwrap_or_default();
    closed(turn, node, &id, index, &last, outcome, cause);
}

fn place(open: &Interrupt) -> (String, u64) {
    let id = open.data.get("conversationId").and_then(Value::as_str).unwrap_or_default().to_owned();
    (id, open.data.get("turnIndex").and_then(Value::as_u64).unwrap_or(0))
}

fn message(id: &str, index: u64, role: &str, content: &Value, at: u64) -> Value {
    let mut message = json!({
        "messageId": format!("{id}:{index}"), "from": role, "role": role, "content": content, "ts": at,
        "turnIndex": index,
    });
    if role == "agent" {
        message["speakerId"] = role.into();
    }
    message
}

/// Names who made a turn; a name that does not fit is left out.
fn from(by: &str, mut message: Value) -> Value {
    if (1..=256).contains(&by.len()) {
        message["from"] = by.into();
    }
    message
}

fn opened(turn: &mut Turn<'_>, node: NodeIndex, id: &str, prompt: &str, at: u64, cause: Option<u64>) -> u64 {
    let first = message(id, 0, "agent", &prompt.into(), at);
    let payload = json!({"conversationId": id, "initialTurn": first, "capabilities": ["multi-turn"]});
    let cause = turn.emit(EventKind::ConversationOpened, Some(node), payload, cause);
    data::write_if_declared(turn, node, CHANNEL, &first);
    cause
}

fn exchanged(turn: &mut Turn<'_>, node: NodeIndex, id: &str, index: u64, message: &Value, cause: u64) -> u64 {
    let payload = json!({"conversationId": id, "turnIndex": index, "turn": message});
    let cause = turn.emit(EventKind::ConversationExchanged, Some(node), payload, Some(cause));
    data::write_if_declared(turn, node, CHANNEL, message);
    cause
}

fn closed(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    id: &str,
    index: u64,
    last: &Value,
    outcome: Value,
    cause: u64,
) {
    let mut payload = json!({"conversationId": id, "turnIndex": index, "finalTurn": last});
    if !outcome.is_null() {
        payload["outcome"] = outcome;
    }
    turn.emit(EventKind::ConversationClosed, Some(node), payload, Some(cause));
}
