//! A reply that is told while it comes.

use std::time::Duration;

use ai::chunks::Chunks;
use ai::provider::{Delta, ProviderError, Reply, Request, anthropic, openai};
use flow::engine::Reported;
use tokio::time::Instant;

use super::providers::Wire;
use super::{Asked, event};
use crate::executors::Listener;

/// How often a reply is told of, at most: every time is a commit. With the time that a model may take, this bounds how many there are.
const EVERY: Duration = Duration::from_millis(100);

/// What is told of one reply, and to whom.
pub(super) struct Live<'a> {
    listener: &'a dyn Listener,
    /// What happened before the reply began, and is told before it.
    before: Vec<Reported>,
    chunks: Chunks,
    /// What came since the last time.
    unsaid: String,
    /// When to tell what came; nothing came otherwise.
    due: Option<Instant>,
    said_at: Option<Instant>,
    /// Nobody takes more: the run is paused or over, or the store is in trouble. The end of the work tells the rest.
    deaf: bool,
}

impl<'a> Live<'a> {
    /// Nothing was said yet.
    pub(super) fn new(asked: Asked<'a>, redactor: &ai::redact::Redactor, before: Vec<Reported>) -> Self {
        Self {
            listener: asked.listener,
            before,
            chunks: Chunks::new(asked.run_id.as_str(), asked.node_id.as_str(), redactor.clone()),
            unsaid: String::new(),
            due: None,
            said_at: None,
            deaf: false,
        }
    }

    /// Takes what came. What a model thinks is told when it is over, and so is what may be an envelope: nobody reads over its shoulder
    /// what it says to the engine.
    pub(super) fn hear(&mut self, deltas: Vec<Delta>) {
        for delta in deltas {
            if let Delta::Text(text) = delta {
                self.unsaid.push_str(&text);
            }
        }
        if self.said_at.is_none() {
            let begun = self.unsaid.trim_start();
            if begun.is_empty() {
                return;
            }
            self.deaf |= begun.starts_with(['{', '`']);
        }
        if self.due.is_none() && !self.unsaid.is_empty() && !self.deaf {
            self.due = Some(self.said_at.map_or_else(Instant::now, |at| at + EVERY));
        }
    }

    /// Whether any of the reply came.
    pub(super) const fn has_begun(&self) -> bool {
        self.said_at.is_some() || !self.unsaid.is_empty()
    }

    /// When to tell, where there is something to tell.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Tells what came.
    pub(super) async fn tell(&mut self) {
        self.due = None;
        self.said_at = Some(Instant::now());
        let piece = self.chunks.piece(&std::mem::take(&mut self.unsaid));
        if let Some(piece) = piece {
            let mut told = std::mem::take(&mut self.before);
            told.push(event(piece));
            self.deaf = !self.listener.tell(told).await;
        }
    }
}

/// A reply of either form, while it comes.
pub(super) enum Reading {
    OpenAi(openai::Stream),
    Anthropic(anthropic::Stream),
}

impl Reading {
    pub(super) fn new(wire: Wire, request: &Request) -> Self {
        match wire {
            Wire::OpenAi => Self::OpenAi(openai::Stream::new()),
            Wire::Anthropic => Self::Anthropic(anthropic::Stream::new(request)),
        }
    }

    /// Takes the next bytes, and gives the pieces that are in them.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, ProviderError> {
        match self {
            Self::OpenAi(stream) => stream.feed(bytes),
            Self::Anthropic(stream) => stream.feed(bytes),
        }
    }

    /// The reply, when all bytes were taken.
    pub(super) fn finish(self) -> Result<Reply, ProviderError> {
        match self {
            Self::OpenAi(stream) => stream.finish(),
            Self::Anthropic(stream) => stream.finish(),
        }
    }
}
