//! Traces: sent to a collector, each when its run has ended.
//!
//! A trace is read off the log of its run, in a thread of its own, and sent with those of other runs that ended at about the
//! same time. What cannot be sent is given up: a collector that is away costs traces, and nothing else.

mod otlp;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use canon::error::Envelope;
use flow::id::RunId;
use flow::trace::Span;
use host::runs::secrets::{SecretReference, SecretValue};
use host::runs::{Ended, Runs};
use http::Method;
use outbound::{Call, CallError, Client, Limits, Reach, Reply, Target};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

/// Where collectors listen for traces, below their address.
const PATH: &str = "/v1/traces";
/// What a batch may cost. Only the status of the reply counts, so its body is discarded.
const LIMITS: Limits = Limits { head: Duration::from_secs(5), whole: Some(Duration::from_secs(5)), body: 0 };
/// How many spans are sent at once, at most by one run's more.
const SPANS_AT_ONCE: usize = 2000;
/// How long the first of them waits for others.
const GATHERED_FOR: Duration = Duration::from_secs(1);
/// How long the last ones may take when the host stops.
const LAST_CHANCE: Duration = Duration::from_secs(5);
/// How often failures are told: a collector that is away for an hour is one thing, not thousands.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// A collector, and how it is reached.
pub(crate) struct Collector {
    target: Target,
    headers: Vec<(String, SecretValue)>,
    client: Client,
}

impl Collector {
    /// The collector of the settings, where they name one.
    pub(crate) fn of(settings: &Settings) -> Result<Option<Self>, Failure> {
        let Some(endpoint) = &settings.otlp_endpoint.value else { return Ok(None) };
        let client = Client::new(Reach::Anywhere);
        let url = format!("{}{PATH}", endpoint.trim_end_matches('/'));
        let target = client.check(&url).map_err(|_| {
            Envelope::new(CommandErrorCode::ConfigInvalid, "`otlp.endpoint` is no address of a collector")
                .suggest("Write where it listens, such as \"http://127.0.0.1:4318\"; `/v1/traces` is added.")
                .detail("key", "otlp.endpoint")
        })?;
        Ok(Some(Self { target, headers: headers(&settings.otlp_headers.value)?, client }))
    }

    async fn send(&self, spans: &[Span]) -> Result<(), CallError> {
        let mut headers = vec![("content-type", "application/x-protobuf")];
        headers.extend(self.headers.iter().map(|(name, value)| (name.as_str(), value.expose())));
        let (target, body) = (&self.target, otlp::encode(spans).into());
        let call = Call { method: Method::POST, target, headers: &headers, body, limits: LIMITS };
        self.client.send(call).await?.success().map(Reply::discard)
    }
}

fn headers(references: &BTreeMap<String, String>) -> Result<Vec<(String, SecretValue)>, Failure> {
    let mut headers = Vec::new();
    for (name, reference) in references {
        let value = SecretReference::parse(reference).and_then(|reference| reference.read());
        let value = value.map_err(|error| {
            Envelope::new(CommandErrorCode::ConfigInvalid, format!("`otlp.headers.{name}`: {error}"))
                .suggest("Write `env:NAME` or `file:/path`, never the value itself.")
                .detail("key", format!("otlp.headers.{name}"))
        })?;
        headers.push((name.clone(), value));
    }
    Ok(headers)
}

/// Traces on their way.
pub(crate) struct Sending {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Sending {
    /// Sends the traces of all runs that end from now on.
    pub(crate) fn begin(runs: &Runs, collector: Arc<Collector>) -> Option<Self> {
        let ended = runs.ended_runs()?;
        let (stop, stopped) = oneshot::channel();
        let sender = Sender { runs: runs.clone(), collector, ended, told: None, lost: 0 };
        Some(Self { stop, task: tokio::spawn(sender.run(stopped)) })
    }

    /// Sends what is left, for a moment. To be called when no run moves any more.
    pub(crate) async fn end(self) {
        // A task that has ended already needs no word.
        let _ = self.stop.send(());
        if timeout(LAST_CHANCE, self.task).await.is_err() {
            tracing::warn!("the last traces could not be sent in time");
        }
    }
}

struct Sender {
    runs: Runs,
    collector: Arc<Collector>,
    ended: Ended,
    told: Option<Instant>,
    lost: u64,
}

impl Sender {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            let first = tokio::select! {
                run_id = self.ended.next() => run_id,
                _ = &mut stopped => break,
            };
            let Some(first) = first else { return };
            let mut spans = self.spans(first).await;
            let until = Instant::now() + GATHERED_FOR;
            while spans.len() < SPANS_AT_ONCE {
                let next = tokio::select! {
                    next = timeout_at(until, self.ended.next()) => next,
                    // What was gathered is sent below, and what is left after it.
                    _ = &mut stopped => {
                        self.send(&spans).await;
                        return self.rest().await;
                    }
                };
                let Ok(Some(run_id)) = next else { break };
                spans.extend(self.spans(run_id).await);
            }
            self.send(&spans).await;
        }
        self.rest().await;
    }

    /// What ended before the stop.
    async fn rest(&mut self) {
        let mut spans = Vec::new();
        while let Some(run_id) = self.ended.next_now() {
            spans.extend(self.spans(run_id).await);
            if spans.len() >= SPANS_AT_ONCE {
                self.send(&std::mem::take(&mut spans)).await;
            }
        }
        self.send(&spans).await;
    }

    async fn spans(&self, run_id: RunId) -> Vec<Span> {
        let runs = self.runs.clone();
        // A run that was deleted meanwhile has no trace.
        let read = tokio::task::spawn_blocking(move || runs.trace(&run_id).unwrap_or_default()).await;
        read.unwrap_or_default()
    }

    async fn send(&mut self, spans: &[Span]) {
        if spans.is_empty() {
            return;
        }
        if let Err(error) = self.collector.send(spans).await {
            let error = host::causes(&error);
            self.lost += spans.len() as u64;
            if self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
                let (spans_lost, runs_lost) = (self.lost, self.runs.traces_lost());
                tracing::warn!(error, spans_lost, runs_lost, "traces could not be sent to the collector");
                self.told = Some(Instant::now());
            }
        }
    }
}
