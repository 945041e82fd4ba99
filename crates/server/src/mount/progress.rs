//! Reports the progress of a call's run to its client, on request.
//!
//! A client sends a token with its request and receives `notifications/progress` with it before the response.
//! A report contains only a number and nothing of the run. A slow reader misses reports: the run does not
//! wait for it.

use flow::event::EventKind;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::message::Message;

/// The maximum length of a token, in bytes.
const MAX_TOKEN_BYTES: usize = 256;

#[derive(Debug)]
pub(crate) struct Progress {
    token: Value,
    to: mpsc::Sender<Value>,
    /// The number of nodes of the workflow, and how many nodes were completed, including repetitions.
    total: u64,
    done: u64,
    /// The number of reports since then that the run still waits.
    beats: u32,
}

/// The progress token of a message: a number, or a string within the limit.
pub(crate) fn token(message: &Message) -> Option<Value> {
    let token = message.params.get("_meta")?.get("progressToken")?;
    match token {
        Value::Number(_) => Some(token.clone()),
        Value::String(text) if text.len() <= MAX_TOKEN_BYTES => Some(token.clone()),
        _ => None,
    }
}

impl Progress {
    /// Reports with a token, for a workflow with `nodes` nodes.
    pub(super) fn new(token: Value, to: mpsc::Sender<Value>, nodes: usize) -> Self {
        Self { token, to, total: u64::try_from(nodes).unwrap_or(u64::MAX), done: 0, beats: 0 }
    }

    /// Counts events of the run, and sends at most one report.
    pub(super) fn note<'e>(&mut self, kinds: impl Iterator<Item = &'e EventKind>) {
        let ends = |kind: &&EventKind| {
            matches!(kind, EventKind::NodeCompleted | EventKind::NodeSkipped | EventKind::NodeFailed)
        };
        let more = u64::try_from(kinds.filter(ends).count()).unwrap_or(0);
        if more == 0 {
            return;
        }
        self.done += more;
        self.beats = 0;
        self.send(&self.done.into());
    }

    /// Reports that the run still waits, so that the client does not consider the call lost. Numbers must
    /// increase although no node was completed, so they approach the next node without reaching it.
    pub(super) fn tick(&mut self) {
        self.beats = self.beats.saturating_add(1);
        let (done, beats) = (self.done.min(1 << 50), f64::from(self.beats));
        #[expect(clippy::cast_precision_loss, reason = "it is small enough to be exact")]
        let progress = done as f64 + beats / (beats + 1.0);
        self.send(&json!(progress));
    }

    fn send(&self, progress: &Value) {
        let mut params = json!({"progressToken": self.token, "progress": progress});
        // Nodes of a loop run more than once, so the total is unknown.
        if self.done + u64::from(self.beats > 0) <= self.total {
            params["total"] = self.total.into();
        }
        let messages = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        drop(self.to.try_send(messages));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_only_grows_and_never_waits_for_the_client() {
        let (to, mut messages) = mpsc::channel(2);
        let mut progress = Progress::new(json!("t"), to, 2);
        let done = EventKind::NodeCompleted;
        for batch in [
            vec![EventKind::RunStarted],
            vec![done.clone(), EventKind::NodeSkipped],
            vec![done.clone()],
            vec![done],
        ] {
            progress.note(batch.iter());
        }
        let first = messages.try_recv().unwrap();
        assert_eq!(first["params"], json!({"progressToken": "t", "progress": 2, "total": 2}));
        assert_eq!(messages.try_recv().unwrap()["params"], json!({"progressToken": "t", "progress": 3}));
        assert!(messages.try_recv().is_err(), "the full channel drops the last message");
    }

    #[test]
    fn a_waiting_run_reports_growing_progress() {
        let (to, mut messages) = mpsc::channel(100);
        let mut progress = Progress::new(json!("t"), to, 3);
        for _ in 0..3 {
            progress.note([EventKind::NodeCompleted].iter());
            (0..20).for_each(|_| progress.tick());
        }
        let mut before = 0.0;
        while let Ok(message) = messages.try_recv() {
            let now = message["params"]["progress"].as_f64().unwrap();
            assert!(now > before, "{message}");
            before = now;
        }
        assert!(before > 3.0 && before < 4.0);
    }

    #[test]
    fn invalid_progress_tokens_are_not_returned() {
        let read = |token: Value| {
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"_meta": {"progressToken": token}}});
            match Message::read(body) {
                super::super::ParsedMessage::Request(message) => super::token(&message),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((read(json!(7)), read(json!("a"))), (Some(json!(7)), Some(json!("a"))));
        for token in [json!(null), json!({}), json!("x".repeat(257))] {
            assert_eq!(read(token), None);
        }
    }
}
