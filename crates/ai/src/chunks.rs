//! Streams a model's output as `output.chunk` events.

use serde_json::Value;

use crate::event::{EventKind, RunEvent};
use crate::redact::Redactor;

/// The chunks of one streamed reply.
///
/// Text that may be the start of a secret is held back until more text arrives. If there are no secrets to redact, each
/// chunk is emitted immediately. The emitted chunks, joined, are the redacted reply.
#[derive(Clone, Debug)]
pub struct Chunks {
    run_id: String,
    node_id: String,
    redactor: Redactor,
    held: String,
}

impl Chunks {
    pub fn new(run_id: impl Into<String>, node_id: impl Into<String>, redactor: Redactor) -> Self {
        Self { run_id: run_id.into(), node_id: node_id.into(), redactor, held: String::new() }
    }

    /// Adds a chunk and returns an event if any of the text can be emitted now.
    pub fn piece(&mut self, text: &str) -> Option<RunEvent> {
        self.held.push_str(text);
        let settled = self.redactor.settled(&self.held);
        let rest = self.held.split_off(settled);
        let emitted = std::mem::replace(&mut self.held, rest);
        (!emitted.is_empty()).then(|| self.event(self.redactor.clean(&emitted), false, Value::Null))
    }

    /// Emits the last chunk: the held-back text, `text`, and the metadata of the reply.
    pub fn last(mut self, text: &str, meta: Value) -> RunEvent {
        self.held.push_str(text);
        let emitted = self.redactor.clean(&self.held);
        self.event(emitted, true, meta)
    }

    fn event(&self, chunk: String, is_last: bool, meta: Value) -> RunEvent {
        RunEvent::new(
            EventKind::OutputChunk,
            [
                ("nodeId", self.node_id.as_str().into()),
                ("runId", self.run_id.as_str().into()),
                ("chunk", chunk.into()),
                ("isLast", is_last.into()),
                ("meta", meta),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Secret;

    fn emitted(redactor: &Redactor, pieces: &[&str]) -> Vec<String> {
        let mut chunks = Chunks::new("r", "n", redactor.clone());
        let (last, first) = pieces.split_last().unwrap();
        let mut events: Vec<RunEvent> = first.iter().filter_map(|piece| chunks.piece(piece)).collect();
        events.push(chunks.last(last, Value::Null));
        events.iter().map(|event| event.payload["chunk"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn without_secrets_chunks_are_emitted_immediately() {
        assert_eq!(emitted(&Redactor::default(), &["mock", "", " res", "ponse"]), ["mock", " res", "ponse"]);
    }

    #[test]
    fn only_a_possible_secret_prefix_is_held_back() {
        let redactor = Redactor::new([Secret::new("k", "super-secret")]);
        assert_eq!(
            emitted(&redactor, &["The signal", " is set, sup", "posedly", "."]),
            ["The signal", " is set, ", "supposedly", "."]
        );
    }

    #[test]
    fn a_split_secret_is_redacted() {
        let redactor = Redactor::new([Secret::new("k", "super-secret"), Secret::new("l", "secret-longer")]);
        let whole = "a super-secret-longer b super-secret. super-secr";
        for size in 1..whole.len() {
            let pieces: Vec<&str> =
                whole.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
            let seen = emitted(&redactor, &pieces).concat();
            assert_eq!(seen, redactor.clean(whole), "in pieces of {size}");
        }
    }
}
