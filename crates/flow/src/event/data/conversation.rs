//! Events of conversations.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::present;

/// One turn of a conversation. `ts` is in milliseconds. It is 0 in scripted turns, because they do not depend on the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationTurn {
    pub content: Value,
    pub from: String,
    pub message_id: String,
    pub role: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker_id: Option<Cow<'static, str>>,
    pub ts: u64,
    pub turn_index: u64,
}

impl ConversationTurn {
    /// The turn as it is written to a channel.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("all member names are strings, so serialization cannot fail")
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationOpened {
    pub capabilities: Vec<Cow<'static, str>>,
    pub conversation_id: String,
    pub initial_turn: ConversationTurn,
}

/// A turn of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationExchanged {
    pub conversation_id: String,
    pub turn: ConversationTurn,
    pub turn_index: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationClosed {
    pub conversation_id: String,
    pub final_turn: ConversationTurn,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Value>,
    pub turn_index: u64,
}
