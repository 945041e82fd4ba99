//! A node that has a conversation with a person: it opens, exchanges turns, and closes.

use serde_json::{Value, json};

use super::super::ask::{Question, SuspendReason};
use super::super::drain::Step;
use super::super::turn::Turn;
use super::data;
use crate::definition::NodeIndex;
use crate::definition::config::ConversationGateConfig;
use crate::event::data::conversation::{
    ConversationClosed, ConversationExchanged, ConversationOpened, ConversationTurn,
};
use crate::interrupt::{Decided, InterruptKind};
use crate::state::{Interrupt, ResolutionOutcome};

/// The channel for turns, if the workflow declares it.
const CHANNEL: &str = "conversation";
const PROMPT: &str = "How can I help?";

pub(super) fn execute(turn: &mut Turn<'_>, node: NodeIndex, config: &ConversationGateConfig) -> Step {
    let prompt = config.prompt.as_deref().filter(|prompt| !prompt.is_empty()).unwrap_or(PROMPT);
    if config.mock_auto_resume {
        return simulate(turn, node, prompt, config.turn_count.unwrap_or(1));
    }
    open(turn, node, prompt, config.schema.clone(), None);
    Step::Waits
}

/// The id of a conversation. It is the same in a replay and in its source run.
fn conversation_id(turn: &Turn<'_>, node: NodeIndex) -> String {
    let state = &turn.state.nodes[node];
    let id = format!("conversation:{}:{}:{}", turn.node(node).id, state.iteration, state.interrupts);
    // The length of node ids is not limited here.
    id.chars().take(200).collect()
}

/// Opens a conversation and waits for the first turn.
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
    let why = SuspendReason { conversation_id: Some(id), ..SuspendReason::reason("conversation-input") };
    let question =
        Question { why, cause: Some(cause), ..Question::new(InterruptKind::ConversationExchange, data) };
    turn.raise(node, question);
}

/// Simulates a complete conversation without a person, for tests. Its ids and times do not depend on the run.
fn simulate(turn: &mut Turn<'_>, node: NodeIndex, prompt: &str, count: u64) -> Step {
    let id = conversation_id(turn, node);
    let mut cause = opened(turn, node, &id, prompt, 0, None);
    let mut last = agent_turn(&id, prompt, 0);
    for index in 1..=count {
        last = user_turn(&id, index, format!("Turn {index}").into(), index);
        cause = exchanged(turn, node, &id, index, last.clone(), cause);
    }
    closed(turn, node, id.clone(), count, last, Value::Null, cause);
    Step::done(json!({"conversationId": id, "turnCount": count}))
}

/// Records one turn of a conversation that continues.
pub(in crate::engine) fn exchange(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    content: &Value,
    by: &str,
    cause: Option<u64>,
) {
    let Some(open) = turn.state.interrupts.get(&turn.node(node).id) else { return };
    let (id, index) = position(open);
    let index = index.saturating_add(1);
    let turn_made = with_speaker(by, user_turn(&id, index, content.clone(), turn.now.0));
    exchanged(turn, node, &id, index, turn_made, cause.unwrap_or_default());
}

/// Records the end of a conversation, with its last turn if there is one.
pub(in crate::engine) fn end_conversation(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    open: &Interrupt,
    decided: &Decided,
    cause: u64,
) {
    let (id, mut index) = position(open);
    let mut cause = cause;
    let content = match (&decided.turn, decided.outcome) {
        (Some(content), _) => {
            index = index.saturating_add(1);
            content.clone()
        }
        (None, ResolutionOutcome::TimedOut) => "timeout".into(),
        (None, _) => "close".into(),
    };
    let last = with_speaker(&decided.by, user_turn(&id, index, content, turn.now.0));
    if decided.turn.is_some() {
        cause = exchanged(turn, node, &id, index, last.clone(), cause);
    }
    let outcome = decided.turn.clone().unwrap_or_default();
    closed(turn, node, id, index, last, outcome, cause);
}

/// The id of the conversation, and the index of its current turn.
fn position(open: &Interrupt) -> (String, u64) {
    let id = open.data.get("conversationId").and_then(Value::as_str).unwrap_or_default().to_owned();
    (id, open.data.get("turnIndex").and_then(Value::as_u64).unwrap_or(0))
}

/// A turn of a person.
fn user_turn(id: &str, turn_index: u64, content: Value, ts: u64) -> ConversationTurn {
    ConversationTurn {
        content,
        from: "user".to_owned(),
        message_id: format!("{id}:{turn_index}"),
        role: "user".into(),
        speaker_id: None,
        ts,
        turn_index,
    }
}

/// A turn of the workflow: the first one.
fn agent_turn(id: &str, prompt: &str, ts: u64) -> ConversationTurn {
    let agent = "agent";
    ConversationTurn {
        from: agent.to_owned(),
        role: agent.into(),
        speaker_id: Some(agent.into()),
        ..user_turn(id, 0, prompt.into(), ts)
    }
}

/// Sets the speaker of a turn, unless the name is empty or too long.
fn with_speaker(by: &str, turn: ConversationTurn) -> ConversationTurn {
    if (1..=256).contains(&by.len()) { ConversationTurn { from: by.to_owned(), ..turn } } else { turn }
}

fn opened(turn: &mut Turn<'_>, node: NodeIndex, id: &str, prompt: &str, at: u64, cause: Option<u64>) -> u64 {
    let first = agent_turn(id, prompt, at);
    let written = first.to_json();
    let opened = ConversationOpened {
        capabilities: vec!["multi-turn".into()],
        conversation_id: id.to_owned(),
        initial_turn: first,
    };
    let cause = turn.emit(opened, Some(node), cause);
    data::write_if_declared(turn, node, CHANNEL, &written);
    cause
}

fn exchanged(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    id: &str,
    turn_index: u64,
    made: ConversationTurn,
    cause: u64,
) -> u64 {
    let written = made.to_json();
    let exchanged = ConversationExchanged { conversation_id: id.to_owned(), turn: made, turn_index };
    let cause = turn.emit(exchanged, Some(node), Some(cause));
    data::write_if_declared(turn, node, CHANNEL, &written);
    cause
}

fn closed(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    conversation_id: String,
    turn_index: u64,
    final_turn: ConversationTurn,
    outcome: Value,
    cause: u64,
) {
    let outcome = Some(outcome).filter(|outcome| !outcome.is_null());
    turn.emit(
        ConversationClosed { conversation_id, final_turn, outcome, turn_index },
        Some(node),
        Some(cause),
    );
}
