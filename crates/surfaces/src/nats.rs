//! Queues and streams on a NATS server with JetStream.
//!
//! A tenant's subject is a JetStream stream with work-queue retention and one durable consumer; a tenant's stream is a
//! JetStream stream with a limited number of records. Their names are digests of tenant and name, so they are always
//! valid and unique.
//!
//! | Concept | Implementation |
//! |---|---|
//! | durability | the server acknowledges messages, and confirms acknowledgements |
//! | lease | the server waits 30 seconds; longer leases are extended and shorter ones released by this process |
//! | effect id | publications: deduplicated by the server for [`RECOGNISED`]; other calls: remembered by this process |
//! | delay | a header; a message that arrives too early is returned until it is due. After a restart, early arrivals count as deliveries |
//! | delivery token | valid in the process that consumed; after it ends, the message returns when its lease expires |

mod deliveries;
mod names;
mod streams;
mod watch;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, ConsumerErrorKind, DiscardPolicy, RetentionPolicy};
use async_nats::jetstream::{self, AckKind, Context, ErrorCode};
use canon::time::Timestamp;
use futures_util::{FutureExt as _, StreamExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

use self::deliveries::{Deliveries, DeliveryLookup, HeldMessage};
use self::names::Name;
use crate::args::{check_name, refuse};
use crate::call::Scope;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::queue::{
    Consume, Delivery, LEASE_MS, MAX_LEASE_MS, MAX_SUBJECT_BYTES, Queue, ReadFrom, Records, Topic,
    check_delay, check_reason, dead_letter_subject,
};
use crate::served::PortFuture;
use crate::value::{bytes_of, value_of};

/// How long the server deduplicates publications.
pub const RECOGNISED: Duration = Duration::from_secs(24 * 60 * 60);
/// The timeout of server calls.
const WAIT: Duration = Duration::from_secs(5);
/// The consumer of every queue.
const CONSUMER: &str = "interlock";
/// Buffered notifications per watcher before it lags.
const WATCHED: usize = 1024;
/// The maximum number of remembered JetStream streams.
const KNOWN: usize = 4096;

/// How to reach a server.
#[derive(Clone)]
pub struct NatsOptions {
    /// The URL, `nats://…`, including a password: a resolved secret.
    pub url: String,
}

/// Hides the URL, which is a secret.
impl fmt::Debug for NatsOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NatsOptions").finish_non_exhaustive()
    }
}

/// Queues and streams on a NATS server.
pub struct NatsQueue {
    inner: Arc<Inner>,
    watcher: JoinHandle<()>,
}

struct Inner {
    context: Context,
    limits: Limits,
    /// Known queues with their consumers, and known streams without.
    known: Mutex<HashMap<String, Option<PullConsumer>>>,
    deliveries: Mutex<Deliveries>,
    topics: broadcast::Sender<Topic>,
}

impl Drop for NatsQueue {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl NatsQueue {
    /// Connects. The server may still be down; calls fail until it is reachable.
    ///
    /// # Errors
    /// `queue_backend_unavailable`: the URL is invalid.
    pub async fn connect(options: &NatsOptions, limits: &Limits) -> Result<Self, SurfaceError> {
        let client = async_nats::ConnectOptions::new()
            .name("interlock")
            .retry_on_initial_connect()
            .connection_timeout(WAIT)
            .request_timeout(Some(WAIT))
            .connect(options.url.as_str())
            .await
            .map_err(|_| {
                SurfaceError::new(Code::QueueBackendUnavailable, "the queue server URL is invalid")
            })?;
        let topics = broadcast::Sender::new(WATCHED);
        let watched = client.subscribe(names::EVERYTHING).await.map_err(|_| unavailable())?;
        let watcher = tokio::spawn(watch::forward(watched, topics.clone()));
        let mut context = jetstream::new(client);
        context.set_timeout(WAIT);
        let inner = Inner {
            context,
            limits: limits.clone(),
            known: Mutex::default(),
            deliveries: Mutex::default(),
            topics,
        };
        Ok(Self { inner: Arc::new(inner), watcher })
    }
}

impl Inner {
    fn deliveries(&self) -> MutexGuard<'_, Deliveries> {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Option<PullConsumer>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, name: &Name, consumer: Option<PullConsumer>) {
        let mut known = self.known();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(name.stream.clone(), consumer);
    }

    /// Returns the remembered result of the effect id, or runs `change` and remembers its result.
    async fn once<T, F>(&self, scope: &Scope, op: &'static str, change: F) -> Result<T, SurfaceError>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, SurfaceError>>,
    {
        let Some(effect) = &scope.effect else { return change.await };
        if let Some(stored) = self.deliveries().answered(&scope.tenant, effect, op)? {
            return serde_json::from_value(stored).map_err(|_| unavailable());
        }
        let answer = change.await?;
        let stored = serde_json::to_value(&answer).map_err(|_| unavailable())?;
        self.deliveries().answer(&scope.tenant, effect, op, stored);
        Ok(answer)
    }

    fn checked(&self, what: &str, payload: &Value) -> Result<Vec<u8>, SurfaceError> {
        let (bytes, most) = (bytes_of(payload), self.limits.message_bytes);
        if bytes.len() > most {
            let size = bytes.len();
            return Err(refuse(format!(
                "`{what}` is {size} bytes as JSON; the limit is {most}; store it as a blob and send its \
                    key"
            )));
        }
        Ok(bytes)
    }

    /// Creates the queue if it does not exist.
    async fn ensure_queue(&self, name: &Name) -> Result<(), SurfaceError> {
        if self.known().contains_key(&name.stream) {
            return Ok(());
        }
        let bound = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let config = Config {
            name: name.stream.clone(),
            subjects: vec![name.subject.clone()],
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            max_messages: bound(self.limits.messages),
            max_bytes: bound(self.limits.queue_bytes),
            duplicate_window: RECOGNISED,
            ..Config::default()
        };
        let stream = self.context.get_or_create_stream(config).await.map_err(|_| unavailable())?;
        let consumer = pull::Config {
            durable_name: Some(CONSUMER.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: Duration::from_millis(LEASE_MS),
            max_ack_pending: 100_000,
            ..pull::Config::default()
        };
        let consumer = stream.get_or_create_consumer(CONSUMER, consumer).await.map_err(|_| unavailable())?;
        self.remember(name, Some(consumer));
        Ok(())
    }

    /// The consumer of the queue, if the queue exists.
    async fn consumer(&self, name: &Name) -> Result<Option<PullConsumer>, SurfaceError> {
        if let Some(known) = self.known().get(&name.stream) {
            return Ok(known.clone());
        }
        match self.context.get_consumer_from_stream(CONSUMER, &name.stream).await {
            Ok(consumer) => {
                let consumer: PullConsumer = consumer;
                self.remember(name, Some(consumer.clone()));
                Ok(Some(consumer))
            }
            Err(error) => match error.kind() {
                ConsumerErrorKind::JetStream(why)
                    if [ErrorCode::CONSUMER_NOT_FOUND, ErrorCode::STREAM_NOT_FOUND]
                        .contains(&why.error_code()) =>
                {
                    Ok(None)
                }
                _ => Err(unavailable()),
            },
        }
    }

    /// Publishes and returns the sequence number. The same effect id returns the same number.
    async fn send(
        &self,
        name: &Name,
        bytes: Vec<u8>,
        identity: Option<&str>,
        not_before: Option<Timestamp>,
    ) -> Result<u64, SurfaceError> {
        let mut message = PublishMessage::build().payload(bytes.into());
        for (header, value) in name.headers() {
            message = message.header(header, value);
        }
        if let Some(identity) = identity {
            message = message.message_id(identity);
        }
        if let Some(not_before) = not_before {
            message = message.header(names::NOT_BEFORE, not_before.0.to_string());
        }
        let refused = |error: jetstream::context::PublishError| match error.kind() {
            PublishErrorKind::MaxPayloadExceeded => refuse(
                "the message is larger than the queue server allows; store it as a blob and send its key",
            ),
            kind => {
                if kind == PublishErrorKind::StreamNotFound {
                    self.known().remove(&name.stream);
                }
                unavailable()
            }
        };
        let sent = self.context.send_publish(name.subject.clone(), message).await.map_err(refused)?;
        Ok(sent.await.map_err(refused)?.sequence)
    }

    async fn publish(
        &self,
        scope: &Scope,
        subject: &str,
        payload: &Value,
        delay_ms: u64,
    ) -> Result<String, SurfaceError> {
        check_delay(delay_ms)?;
        check_name("subject", subject, MAX_SUBJECT_BYTES, Code::InvalidArgument)?;
        if let Some(effect) = &scope.effect {
            crate::sql::check_effect(effect)?;
        }
        let bytes = self.checked("payload", payload)?;
        let later = (delay_ms > 0).then(|| Timestamp(scope.now.0.saturating_add(delay_ms)));
        self.publish_bytes(scope, subject, bytes, scope.effect.as_deref(), later).await
    }

    async fn publish_bytes(
        &self,
        scope: &Scope,
        subject: &str,
        bytes: Vec<u8>,
        identity: Option<&str>,
        not_before: Option<Timestamp>,
    ) -> Result<String, SurfaceError> {
        let name = Name::queue(&scope.tenant, subject);
        self.ensure_queue(&name).await?;
        let number = self.send(&name, bytes, identity, not_before).await?;
        Ok(format!("{}.{number}", name.stream))
    }

    async fn consume(
        self: &Arc<Self>,
        scope: &Scope,
        consume: Consume,
    ) -> Result<Option<Delivery>, SurfaceError> {
        check_name("subject", &consume.subject, MAX_SUBJECT_BYTES, Code::InvalidArgument)?;
        if consume.lease_ms == 0 || consume.lease_ms > MAX_LEASE_MS {
            return Err(refuse(format!("a lease must be 1 to {MAX_LEASE_MS} milliseconds")));
        }
        let name = Name::queue(&scope.tenant, &consume.subject);
        let wait = Duration::from_millis(consume.wait_ms);
        if !wait.is_zero() {
            // A queue must exist before its messages can be awaited.
            self.ensure_queue(&name).await?;
        }
        let began = Instant::now();
        let (message, id, delivered) = loop {
            let Some(message) = self.fetch(&name, wait).await? else { return Ok(None) };
            let (number, delivered) = {
                let info = message.info().map_err(|_| unavailable())?;
                (info.stream_sequence, u64::try_from(info.delivered).unwrap_or(1))
            };
            let id = format!("{}.{number}", name.stream);
            if self.deliveries().is_settled(&id) {
                // It was redelivered while its acknowledgement was in flight. A settled message must not return.
                let _ = message.ack().await;
                continue;
            }
            // The call may have waited since `now`.
            let now =
                scope.now.0.saturating_add(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
            let early = not_before(&message).saturating_sub(now);
            if early == 0 {
                break (message, id, delivered);
            }
            self.deliveries().too_early(&id);
            // If this is lost, the message returns after the server's lease and is checked again.
            let _ = message.ack_with(AckKind::Nak(Some(Duration::from_millis(early)))).await;
        };
        let deliveries = delivered.saturating_sub(self.deliveries().times_early(&id)).max(1);
        let payload = value_of(&message.payload)?;
        let token = format!("{id}.{delivered}");
        let held = HeldMessage {
            tenant: scope.tenant.clone(),
            subject: consume.subject.clone(),
            id: id.clone(),
            message: Arc::new(message),
        };
        self.deliveries().hold(&token, held);
        if consume.lease_ms != LEASE_MS {
            tokio::spawn(lease(Arc::downgrade(self), token.clone(), Duration::from_millis(consume.lease_ms)));
        }
        Ok(Some(Delivery { token, id, subject: consume.subject, payload, deliveries }))
    }

    /// Fetches the next message, immediately or after waiting.
    async fn fetch(&self, name: &Name, wait: Duration) -> Result<Option<jetstream::Message>, SurfaceError> {
        let Some(consumer) = self.consumer(name).await? else { return Ok(None) };
        let fetched = if wait.is_zero() {
            consumer.fetch().max_messages(1).expires(WAIT).messages().await
        } else {
            consumer.batch().max_messages(1).expires(wait).messages().await
        };
        let Ok(mut fetched) = fetched else {
            self.known().remove(&name.stream);
            return Err(unavailable());
        };
        match fetched.next().await {
            None => Ok(None),
            Some(message) => Ok(Some(message.map_err(|_| unavailable())?)),
        }
    }

    /// The delivery of that token, if it belongs to the tenant and is the newest.
    fn held(&self, scope: &Scope, token: &str) -> Result<Option<HeldMessage>, SurfaceError> {
        match self.deliveries().find(&scope.tenant, token) {
            DeliveryLookup::HeldMessage(held) => Ok(Some(held)),
            DeliveryLookup::Unknown => Ok(None),
            DeliveryLookup::Expired => {
                let message = "the message was delivered again; use the token of the newer delivery";
                Err(SurfaceError::new(Code::QueueDeliveryTokenExpired, message))
            }
        }
    }

    async fn settle(&self, held: &HeldMessage, kind: AckKind) -> Result<(), SurfaceError> {
        held.message.double_ack_with(kind).await.map_err(|_| unavailable())?;
        let mut deliveries = self.deliveries();
        deliveries.forget(&held.id);
        if matches!(kind, AckKind::Ack) {
            deliveries.settle(&held.id);
        }
        Ok(())
    }

    async fn dead_letter(
        &self,
        scope: &Scope,
        token: &str,
        reason: String,
    ) -> Result<Option<String>, SurfaceError> {
        check_reason(&reason)?;
        let Some(held) = self.held(scope, token)? else { return Ok(None) };
        let subject = dead_letter_subject(&held.subject)?;
        let letter = json!({ "original": value_of(&held.message.payload)?, "deadLetterReason": reason });
        // The copy is published before the original is acknowledged: a crash leaves both, never neither. The copy is
        // deduplicated if published again.
        let at = Scope { effect: None, ..scope.clone() };
        // Not limited in size: an accepted message can always be moved.
        let identity = format!("dead-{}", held.id);
        self.publish_bytes(&at, &subject, bytes_of(&letter), Some(&identity), None).await?;
        self.settle(&held, AckKind::Ack).await?;
        Ok(Some(subject))
    }

    async fn nack(&self, scope: &Scope, token: &str, requeue: bool) -> Result<bool, SurfaceError> {
        let Some(held) = self.held(scope, token)? else { return Ok(false) };
        self.settle(&held, if requeue { AckKind::Nak(None) } else { AckKind::Ack }).await?;
        if requeue {
            self.notify_watchers(&held);
        }
        Ok(true)
    }

    async fn postpone(&self, scope: &Scope, token: &str, delay: Duration) -> Result<bool, SurfaceError> {
        let Some(held) = self.held(scope, token)? else { return Ok(false) };
        self.settle(&held, AckKind::Nak(Some(delay))).await?;
        Ok(true)
    }

    /// Notifies watchers, if any.
    fn notify_watchers(&self, held: &HeldMessage) {
        let _ = self.topics.send(Topic {
            tenant: held.tenant.clone(),
            name: held.subject.clone(),
            is_stream: false,
        });
    }

    async fn due(&self, scope: &Scope, subject: &str) -> Result<Option<Timestamp>, SurfaceError> {
        let name = Name::queue(&scope.tenant, subject);
        let Some(consumer) = self.consumer(&name).await? else { return Ok(None) };
        let info = consumer.get_info().await.map_err(|_| unavailable())?;
        Ok(match (info.num_pending, info.num_ack_pending) {
            (0, 0) => None,
            (0, _) => Some(Timestamp(scope.now.0.saturating_add(LEASE_MS))),
            _ => Some(scope.now),
        })
    }
}

/// When a message is due; 0 if it has no delay.
fn not_before(message: &jetstream::Message) -> u64 {
    let header = message.headers.as_ref().and_then(|headers| headers.get(names::NOT_BEFORE));
    header.and_then(|moment| moment.as_str().parse().ok()).unwrap_or(0)
}

/// Extends a delivery beyond the server's lease, or releases it earlier.
async fn lease(inner: std::sync::Weak<Inner>, token: String, lease: Duration) {
    let usual = Duration::from_millis(LEASE_MS);
    let mut left = lease;
    loop {
        let step = left.min(usual / 3);
        tokio::time::sleep(step).await;
        left -= step;
        let Some(inner) = inner.upgrade() else { return };
        let Some(held) = inner.deliveries().current(&token) else { return };
        if !left.is_zero() {
            // A lost extension is compensated by the next; at worst the message returns early.
            let _ = held.message.ack_with(AckKind::Progress).await;
        } else {
            if held.message.ack_with(AckKind::Nak(None)).await.is_ok() {
                inner.notify_watchers(&held);
            }
            return;
        }
    }
}

fn unavailable() -> SurfaceError {
    SurfaceError::new(Code::QueueBackendUnavailable, "the queue server is unreachable or full; retry later")
}

impl Queue for NatsQueue {
    fn publish<'a>(&'a self, scope: &'a Scope, subject: String, payload: Value) -> PortFuture<'a, String> {
        self.publish_later(scope, subject, payload, 0)
    }

    fn publish_later<'a>(
        &'a self,
        scope: &'a Scope,
        subject: String,
        payload: Value,
        delay_ms: u64,
    ) -> PortFuture<'a, String> {
        async move { self.inner.publish(scope, &subject, &payload, delay_ms).await }.boxed()
    }

    fn consume<'a>(&'a self, scope: &'a Scope, consume: Consume) -> PortFuture<'a, Option<Delivery>> {
        self.inner.once(scope, "queueBus.consume", self.inner.consume(scope, consume)).boxed()
    }

    fn ack<'a>(&'a self, scope: &'a Scope, token: String) -> PortFuture<'a, bool> {
        let ack = async move {
            let Some(held) = self.inner.held(scope, &token)? else { return Ok(false) };
            self.inner.settle(&held, AckKind::Ack).await?;
            Ok(true)
        };
        self.inner.once(scope, "queueBus.ack", ack).boxed()
    }

    fn nack<'a>(&'a self, scope: &'a Scope, token: String, requeue: bool) -> PortFuture<'a, bool> {
        let nack = async move { self.inner.nack(scope, &token, requeue).await };
        self.inner.once(scope, "queueBus.nack", nack).boxed()
    }

    fn postpone<'a>(&'a self, scope: &'a Scope, token: String, delay_ms: u64) -> PortFuture<'a, bool> {
        let delay = Duration::from_millis(delay_ms);
        let postpone = async move { self.inner.postpone(scope, &token, delay).await };
        self.inner.once(scope, "queueBus.postpone", postpone).boxed()
    }

    fn waits(&self) -> bool {
        true
    }

    fn dead_letter<'a>(
        &'a self,
        scope: &'a Scope,
        token: String,
        reason: String,
    ) -> PortFuture<'a, Option<String>> {
        let dead = async move { self.inner.dead_letter(scope, &token, reason).await };
        self.inner.once(scope, "queueBus.deadLetter", dead).boxed()
    }

    fn release<'a>(&'a self, _scope: &'a Scope, _consumer: String) -> PortFuture<'a, u64> {
        std::future::ready(Ok(0)).boxed()
    }

    fn due<'a>(&'a self, scope: &'a Scope, subject: &'a str) -> PortFuture<'a, Option<Timestamp>> {
        self.inner.due(scope, subject).boxed()
    }

    fn stream_publish<'a>(
        &'a self,
        scope: &'a Scope,
        stream: String,
        record: Value,
    ) -> PortFuture<'a, String> {
        async move { self.inner.stream_publish(scope, &stream, &record).await }.boxed()
    }

    fn stream_read<'a>(
        &'a self,
        scope: &'a Scope,
        stream: String,
        from: ReadFrom,
        limit: usize,
    ) -> PortFuture<'a, Records> {
        async move { self.inner.stream_read(scope, &stream, &from, limit).await }.boxed()
    }

    fn watch(&self) -> broadcast::Receiver<Topic> {
        self.inner.topics.subscribe()
    }

    fn backend(&self) -> &'static str {
        "nats"
    }
}
