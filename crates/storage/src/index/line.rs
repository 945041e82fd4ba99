//! One line of the index: a checksum, a space, and a change as JSON.

use std::collections::BTreeMap;

use guide::project::resume::{RankingInput, TokenText};
use guide::record::{EventIndex, NodeId, RunId, SessionId};
use serde::{Deserialize, Serialize};

use super::PositionKey;

/// The first line of the file. Any other first line means another version, and the file is rebuilt.
pub(super) const HEADER: &[u8] = b"interlock session index 1\n";
/// The digits of the checksum, and the space after it.
const PREFIX: usize = 17;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "k", deny_unknown_fields)]
pub(super) enum Line {
    /// The complete entry of a session.
    #[serde(rename = "s")]
    Session {
        id: SessionId,
        /// How much of the manifest the entry covers, in bytes.
        end: u64,
        runs: Vec<RankingInput>,
        #[serde(rename = "p", default, skip_serializing_if = "BTreeMap::is_empty")]
        positions: BTreeMap<Key, EventIndex>,
    },
    /// The changes of an append.
    #[serde(rename = "a")]
    Append {
        id: SessionId,
        /// How much of the manifest must have been covered before, in bytes. If it was not, a line is missing.
        from: u64,
        end: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runs: Vec<RunChange>,
        /// All runs, if the difference cannot be expressed as changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        all: Option<Vec<RankingInput>>,
        #[serde(rename = "p", default, skip_serializing_if = "BTreeMap::is_empty")]
        positions: BTreeMap<Key, EventIndex>,
    },
    #[serde(rename = "d")]
    Deleted { id: SessionId },
}

/// The parts of a run that an append usually changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunChange {
    run: RunId,
    tip: NodeId,
    last: EventIndex,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    done: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ms: Option<u64>,
    /// Added words.
    #[serde(rename = "+", default, skip_serializing_if = "String::is_empty")]
    added: String,
    /// Removed words.
    #[serde(rename = "-", default, skip_serializing_if = "String::is_empty")]
    dropped: String,
}

impl RunChange {
    /// The change from `before` to `after`. `None` if other fields changed.
    pub(super) fn between(before: &RankingInput, after: &RankingInput) -> Option<Self> {
        let change = Self {
            run: after.run_id.clone(),
            tip: after.tip_node_id.clone(),
            last: after.last_activity_index,
            done: after.is_complete,
            ms: after.last_modified_ms,
            added: without(&after.text_tokens, &before.text_tokens),
            dropped: without(&before.text_tokens, &after.text_tokens),
        };
        let mut reached = before.clone();
        (change.apply(&mut reached) && reached == *after).then_some(change)
    }

    /// Applies the change. Returns `false` if it does not fit.
    pub(super) fn apply(&self, input: &mut RankingInput) -> bool {
        if input.run_id != self.run {
            return false;
        }
        if !self.added.is_empty() || !self.dropped.is_empty() {
            let dropped: Vec<_> = self.dropped.split(' ').collect();
            let mut words: Vec<_> = input.text_tokens.iter().filter(|word| !dropped.contains(word)).collect();
            words.extend(self.added.split(' ').filter(|word| !word.is_empty()));
            words.sort_unstable();
            words.dedup();
            let Ok(text) = TokenText::try_from(words.join(" ")) else { return false };
            input.text_tokens = text;
        }
        input.tip_node_id = self.tip.clone();
        input.last_activity_index = self.last;
        input.is_complete = self.done;
        input.last_modified_ms = self.ms;
        true
    }
}

/// The words of the first text that are not in the second, joined by spaces. Both are sorted.
fn without(words: &TokenText, other: &TokenText) -> String {
    let mut other = other.iter().peekable();
    let missing = words.iter().filter(|word| {
        while other.next_if(|known| known < word).is_some() {}
        other.peek() != Some(word)
    });
    missing.collect::<Vec<_>>().join(" ")
}

impl Line {
    /// The bytes of the line, including its line end.
    pub(super) fn encode(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).expect("a line is plain data, which always serialises");
        let mut bytes = format!("{:016x} ", checksum(&json)).into_bytes();
        bytes.extend_from_slice(&json);
        bytes.push(b'\n');
        bytes
    }

    /// Parses a line without its line end. Returns `None` unless it is exactly what [`Self::encode`] writes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (prefix, json) = bytes.split_at_checked(PREFIX)?;
        if format!("{:016x} ", checksum(json)).as_bytes() != prefix {
            return None;
        }
        serde_json::from_slice(json).ok()
    }
}

/// FNV-1a with 64 bits. Each step is a bijection of the state, so every change of a single byte is detected.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The key of a position, as 24 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Key(pub(super) PositionKey);

impl From<Key> for String {
    fn from(key: Key) -> Self {
        canon::encoding::hex(&key.0)
    }
}

impl TryFrom<String> for Key {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        canon::encoding::from_hex(&text).map(Self).ok_or("24 hexadecimal digits")
    }
}
