//! Reports a streamed reply while it arrives.

use std::time::Duration;

use ai::chunks::Chunks;
use ai::provider::{Delta, ProviderError, Reply, Request, anthropic, openai};
use flow::engine::Reported;
use tokio::time::Instant;

use super::providers::Wire;
use super::{NodeRequest, event};
use crate::Listener;

/// The minimum time between two reports of a reply. Each report is a commit. Together with the timeout of a model, it limits their number.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// The reporter of one reply.
pub(super) struct Live<'a> {
    listener: &'a dyn Listener,
    /// What happened before the reply, to be reported first.
    before: Vec<Reported>,
    chunks: Chunks,
    /// The text since the last report.
    unreported: String,
    /// When to report the text, if there is any.
    due: Option<Instant>,
    reported_at: Option<Instant>,
    /// Whether reporting has stopped: the run is paused or has ended, or the store fails. The end of the effect reports the rest.
    is_stopped: bool,
}

impl<'a> Live<'a> {
    /// A reporter before the first byte.
    pub(super) fn new(
        asked: NodeRequest<'a>,
        redactor: &ai::redact::Redactor,
        before: Vec<Reported>,
    ) -> Self {
        Self {
            listener: asked.listener,
            before,
            chunks: Chunks::new(asked.run_id.as_str(), asked.node_id.as_str(), redactor.clone()),
            unreported: String::new(),
            due: None,
            reported_at: None,
            is_stopped: false,
        }
    }

    /// Adds received text. Reasoning is reported at the end. So is a reply that may be an envelope, because envelopes are addressed to the engine
    /// and not to readers.
    pub(super) fn add(&mut self, deltas: Vec<Delta>) {
        for delta in deltas {
            if let Delta::Text(text) = delta {
                self.unreported.push_str(&text);
            }
        }
        if self.reported_at.is_none() {
            let start = self.unreported.trim_start();
            if start.is_empty() {
                return;
            }
            self.is_stopped |= start.starts_with(['{', '`']);
        }
        if self.due.is_none() && !self.unreported.is_empty() && !self.is_stopped {
            self.due = Some(self.reported_at.map_or_else(Instant::now, |at| at + REPORT_INTERVAL));
        }
    }

    /// Whether any text has arrived.
    pub(super) const fn has_begun(&self) -> bool {
        self.reported_at.is_some() || !self.unreported.is_empty()
    }

    /// When to report, if there is something to report.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Reports the received text.
    pub(super) async fn report(&mut self) {
        self.due = None;
        self.reported_at = Some(Instant::now());
        let piece = self.chunks.piece(&std::mem::take(&mut self.unreported));
        if let Some(piece) = piece {
            let mut reports = std::mem::take(&mut self.before);
            reports.push(event(piece));
            self.is_stopped = !self.listener.report(reports).await;
        }
    }
}

/// The parser of a streamed reply, for either protocol.
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

    /// Parses the next bytes, and returns the contained deltas.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, ProviderError> {
        match self {
            Self::OpenAi(stream) => stream.feed(bytes),
            Self::Anthropic(stream) => stream.feed(bytes),
        }
    }

    /// The complete reply, after all bytes.
    pub(super) fn finish(self) -> Result<Reply, ProviderError> {
        match self {
            Self::OpenAi(stream) => stream.finish(),
            Self::Anthropic(stream) => stream.finish(),
        }
    }
}
