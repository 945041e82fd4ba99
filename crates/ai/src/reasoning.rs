//! Records a model's reasoning, in chunks and as a whole.

use serde_json::Value;

use crate::event::{EventKind, RunEvent};
use crate::redact::Redactor;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// How much is recorded.
    pub enum Verbosity {
        /// The beginning.
        Summary => "summary",
        Full => "full",
        Off => "off",
    }
}

/// The default size of a summary, in tokens.
pub const DEFAULT_TOKEN_LIMIT: usize = 512;
/// The assumed bytes per token.
const BYTES_PER_TOKEN: usize = 4;

/// How reasoning is recorded.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The agent: 3 to 256 characters.
    pub agent_id: String,
    pub verbosity: Verbosity,
    /// The maximum size of a summary, in tokens of four bytes.
    pub token_limit: usize,
    /// Whether chunks are recorded too.
    pub streaming: bool,
    /// Removes secrets.
    pub redactor: Redactor,
}

/// One block of reasoning.
///
/// If there are secrets to redact, chunks are held back until the end of the block: a secret may be split.
#[derive(Clone, Debug)]
pub struct Block {
    settings: Settings,
    whole: String,
    pieces: Vec<String>,
    sequence: u64,
}

impl Block {
    pub const fn new(settings: Settings) -> Self {
        Self { settings, whole: String::new(), pieces: Vec::new(), sequence: 0 }
    }

    /// Adds a chunk and returns an event if it is recorded now.
    pub fn piece(&mut self, text: &str) -> Option<RunEvent> {
        if self.settings.verbosity == Verbosity::Off || text.is_empty() {
            return None;
        }
        let room = self.limit().saturating_sub(self.whole.len());
        let text = up_to(text, room);
        self.whole.push_str(text);
        if text.is_empty() || !self.settings.streaming {
            return None;
        }
        if self.settings.redactor.has_secrets() {
            self.pieces.push(text.to_owned());
            return None;
        }
        Some(self.delta(text.to_owned()))
    }

    /// Ends the block: returns the held-back chunks and the whole text. `whole` is used if no chunks arrived.
    pub fn close(mut self, whole: Option<&str>) -> Vec<RunEvent> {
        if self.settings.verbosity == Verbosity::Off {
            return Vec::new();
        }
        if let Some(text) = whole.filter(|_| self.whole.is_empty()) {
            self.whole = up_to(text, self.limit()).to_owned();
        }
        if self.whole.is_empty() {
            return Vec::new();
        }
        let (clean, replaced) = self.settings.redactor.text(&self.whole);
        let clean = clean.into_owned();
        let pieces = std::mem::take(&mut self.pieces);
        // Chunks with a secret in or between them are recorded as one.
        let pieces = if replaced > 0 && !pieces.is_empty() { vec![clean.clone()] } else { pieces };
        let mut events: Vec<RunEvent> = pieces.into_iter().map(|piece| self.delta(piece)).collect();
        events.push(RunEvent::new(
            EventKind::Reasoned,
            [
                ("agentId", self.settings.agent_id.as_str().into()),
                ("reasoning", clean.into()),
                ("verbosity", self.settings.verbosity.into()),
            ],
        ));
        events
    }

    fn delta(&mut self, text: String) -> RunEvent {
        let sequence = self.sequence;
        self.sequence += 1;
        RunEvent::new(
            EventKind::ReasoningDelta,
            [
                ("agentId", self.settings.agent_id.as_str().into()),
                ("delta", text.into()),
                ("sequence", Value::from(sequence)),
                ("verbosity", self.settings.verbosity.into()),
            ],
        )
    }

    const fn limit(&self) -> usize {
        match self.settings.verbosity {
            Verbosity::Off => 0,
            Verbosity::Summary => self.settings.token_limit.saturating_mul(BYTES_PER_TOKEN),
            Verbosity::Full => crate::provider::MAX_REPLY_BYTES,
        }
    }
}

/// The longest prefix of at most `bytes` bytes that ends at a character boundary.
fn up_to(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Secret;

    fn settings(verbosity: Verbosity, secrets: Vec<Secret>) -> Settings {
        Settings {
            agent_id: "host:ask".to_owned(),
            verbosity,
            token_limit: 2,
            streaming: true,
            redactor: Redactor::new(secrets),
        }
    }

    fn texts(events: &[RunEvent]) -> Vec<String> {
        let text = |event: &RunEvent| {
            event
                .payload
                .get("delta")
                .or(event.payload.get("reasoning"))
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned()
        };
        events.iter().map(text).collect()
    }

    #[test]
    fn chunks_are_numbered_and_the_whole_is_recorded() {
        let mut block = Block::new(settings(Verbosity::Full, Vec::new()));
        let mut events: Vec<_> = ["a", "", "b", "c"].iter().filter_map(|piece| block.piece(piece)).collect();
        let sequence: Vec<_> = events.iter().map(|event| event.payload["sequence"].clone()).collect();
        assert_eq!(sequence, [0, 1, 2]);
        events.extend(block.close(None));
        assert_eq!(texts(&events), ["a", "b", "c", "abc"]);
    }

    #[test]
    fn summary_is_shortened_and_off_records_nothing() {
        let mut block = Block::new(settings(Verbosity::Summary, Vec::new()));
        assert_eq!(texts(&[block.piece("12345ü7890").unwrap()]), ["12345ü7"]);
        assert_eq!(block.piece("more"), None);
        assert_eq!(texts(&block.close(None)), ["12345ü7"]);
        let mut block = Block::new(settings(Verbosity::Off, Vec::new()));
        assert_eq!((block.piece("x"), block.close(Some("x"))), (None, Vec::new()));
    }

    #[test]
    fn a_split_secret_is_redacted() {
        let secrets = vec![Secret::new("k", "super-secret")];
        let mut block = Block::new(settings(Verbosity::Full, secrets.clone()));
        assert_eq!((block.piece("the super-"), block.piece("secret is out")), (None, None));
        assert_eq!(texts(&block.close(None)), ["the [REDACTED:k] is out", "the [REDACTED:k] is out"]);
        let mut block = Block::new(settings(Verbosity::Full, secrets));
        block.piece("plain");
        block.piece(" words");
        assert_eq!(texts(&block.close(None)), ["plain", " words", "plain words"]);
    }
}
