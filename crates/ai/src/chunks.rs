//! What a model says, piece by piece, as events.

use serde_json::Value;

use crate::event::{EventKind, RunEvent};
use crate::redact::Redactor;

/// The pieces of one reply.
///
/// As much as may be the beginning of a secret is held back until more has come; without secrets to look for, a piece is
/// told as it comes. What is told, joined, is the reply without secrets.
#[derive(Clone, Debug)]
pub struct Chunks {
    run_id: String,
    node_id: String,
    redactor: Redactor,
    held: String,
}

impl Chunks {
    /// The pieces of a reply that begins.
    pub fn new(run_id: impl Into<String>, node_id: impl Into<String>, redactor: Redactor) -> Self {
        Self { run_id: run_id.into(), node_id: node_id.into(), redactor, held: String::new() }
    }

    /// The next piece, as an event if anything of it can be told.
    pub fn piece(&mut self, text: &str) -> Option<RunEvent> {
        self.held.push_str(text);
        let settled = self.redactor.settled(&self.held);
        let rest = self.held.split_off(settled);
        let told = std::mem::replace(&mut self.held, rest);
        (!told.is_empty()).then(|| self.event(self.redactor.clean(&told), false, Value::Null))
    }

    /// The last piece: `text`, with what was held back before it, and what is known now.
    pub fn last(mut self, text: &str, meta: Value) -> RunEvent {
        self.held.push_str(text);
        let told = self.redactor.clean(&self.held);
        self.event(told, true, meta)
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

    fn told(redactor: &Redactor, pieces: &[&str]) -> Vec<String> {
        let mut chunks = Chunks::new("r", "n", redactor.clone());
        let (last, first) = pieces.split_last().unwrap();
        let mut events: Vec<RunEvent> = first.iter().filter_map(|piece| chunks.piece(piece)).collect();
        events.push(chunks.last(last, Value::Null));
        events.iter().map(|event| event.payload["chunk"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn pieces_are_told_as_they_come_where_there_are_no_secrets() {
        assert_eq!(told(&Redactor::default(), &["mock", "", " res", "ponse"]), ["mock", " res", "ponse"]);
    }

    #[test]
    fn nothing_is_held_back_that_is_no_beginning_of_a_secret() {
        let redactor = Redactor::new([Secret::new("k", "super-secret")]);
        assert_eq!(
            told(&redactor, &["The signal", " is set, sup", "posedly", "."]),
            ["The signal", " is set, ", "supposedly", "."]
        );
    }

    #[test]
    fn a_secret_that_comes_in_pieces_is_not_told() {
        let redactor = Redactor::new([Secret::new("k", "super-secret"), Secret::new("l", "secret-longer")]);
        let whole = "a super-secret-longer b super-secret. super-secr";
        for size in 1..whole.len() {
            let pieces: Vec<&str> =
                whole.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
            let seen = told(&redactor, &pieces).concat();
            assert_eq!(seen, redactor.clean(whole), "in pieces of {size}");
        }
    }
}
