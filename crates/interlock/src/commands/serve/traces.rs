//! Sends the trace of each finished run to a collector.
//!
//! A separate thread derives traces from run logs and sends them in batches. Traces that cannot be
//! sent are dropped: an unavailable collector costs only traces.

mod otlp;

use std::collections::BTreeMap;
use std::time::Duration;

use canon::error::Envelope;
use flow::id::RunId;
use flow::trace::Span;
use http::Method;
use outbound::{Call, CallError, Client, Limits, Reach, Reply, Target};
use runs::{Ended, EndedRuns, Runs};
use system::secrets::{SecretReference, SecretValue};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

/// The path of the collector's traces endpoint.
const PATH: &str = "/v1/traces";
/// Limits of a request. Only the response status matters, so the body is discarded.
const LIMITS: Limits = Limits { head: Duration::from_secs(5), whole: Some(Duration::from_secs(5)), body: 0 };
/// The batch size in spans; the last run may exceed it.
const SPANS_AT_ONCE: usize = 2000;
/// How long the first span waits for others.
const GATHERED_FOR: Duration = Duration::from_secs(1);
/// How long shutdown waits for the last spans.
const LAST_CHANCE: Duration = Duration::from_secs(5);
/// How often failures are logged, so that an unavailable collector does not flood the log.
const LOG_EVERY: Duration = Duration::from_secs(60);

pub(crate) struct Collector {
    target: Target,
    headers: Vec<(String, SecretValue)>,
    client: Client,
}

impl Collector {
    /// The configured collector, if any.
    pub(crate) fn of(settings: &Settings) -> Result<Option<Self>, Failure> {
        let Some(endpoint) = &settings.otlp_endpoint.value else { return Ok(None) };
        let client = Client::new(Reach::Anywhere);
        let url = format!("{}{PATH}", endpoint.trim_end_matches('/'));
        let target = client.check(&url).map_err(|_| {
            Envelope::new(CommandErrorCode::ConfigInvalid, "`otlp.endpoint` is not a valid collector URL")
                .suggest("Use its base URL, such as \"http://127.0.0.1:4318\"; `/v1/traces` is appended.")
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
                .suggest("Use `env:NAME` or `file:/path`, never the value itself.")
                .detail("key", format!("otlp.headers.{name}"))
        })?;
        headers.push((name.clone(), value));
    }
    Ok(headers)
}

/// Sends the traces of all runs that end, once it is started.
pub(crate) struct TraceExporter {
    collector: Collector,
    ended: Ended,
}

impl TraceExporter {
    /// The exporter, and the queue through which the runs notify it.
    pub(crate) fn new(collector: Collector) -> (Self, EndedRuns) {
        let (ended_runs, ended) = EndedRuns::queue();
        (Self { collector, ended }, ended_runs)
    }

    pub(crate) fn start(self, runs: &Runs) -> Sending {
        let Self { collector, ended } = self;
        let (stop, stopped) = oneshot::channel();
        let sender = Sender { runs: runs.clone(), collector, ended, last_logged: None, lost: 0 };
        Sending { stop, task: tokio::spawn(sender.run(stopped)) }
    }
}

/// A started exporter.
pub(crate) struct Sending {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Sending {
    /// Sends the remaining traces, with a timeout. Call it when no run can change any more.
    pub(crate) async fn end(self) {
        // The task may have ended already.
        let _ = self.stop.send(());
        if timeout(LAST_CHANCE, self.task).await.is_err() {
            tracing::warn!("timed out sending the last traces");
        }
    }
}

struct Sender {
    runs: Runs,
    collector: Collector,
    ended: Ended,
    last_logged: Option<Instant>,
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
                    // The collected spans are sent below, and the remaining ones after that.
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

    /// Runs that ended before the stop.
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
        let (runs, runtime) = (self.runs.clone(), tokio::runtime::Handle::current());
        // A long log takes a while. A run that was deleted meanwhile has no trace.
        let read = move || runtime.block_on(runs.traces().of(&run_id)).unwrap_or_default();
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }

    async fn send(&mut self, spans: &[Span]) {
        if spans.is_empty() {
            return;
        }
        if let Err(error) = self.collector.send(spans).await {
            let error = system::causes(&error);
            self.lost += spans.len() as u64;
            if self.last_logged.is_none_or(|logged| logged.elapsed() >= LOG_EVERY) {
                let (spans_lost, runs_lost) = (self.lost, self.runs.traces().lost());
                tracing::warn!(error, spans_lost, runs_lost, "cannot send traces to the collector");
                self.last_logged = Some(Instant::now());
            }
        }
    }
}
