//! Queues and streams in the shared database.

use std::sync::Arc;

use canon::time::Timestamp;
use futures_util::FutureExt as _;
use rusqlite::Connection;
use serde_json::Value;
use tokio::sync::broadcast;

use super::{
    Consume, Delivery, MAX_LEASE_MS, MAX_RECORDS, MAX_SUBJECT_BYTES, Queue, ReadFrom, Records, Topic,
};
use super::{check_delay, check_reason, messages, streams};
use crate::args::{check_name, refuse};
use crate::call::{Scope, Tenant};
use crate::embedded::Database;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::served::PortFuture;
use crate::value::bytes_of;

/// Buffered notifications per watcher before it lags.
const WATCHED: usize = 1024;

#[derive(Debug)]
pub struct EmbeddedQueue {
    database: Arc<Database>,
    limits: Arc<Limits>,
    topics: broadcast::Sender<Topic>,
}

impl EmbeddedQueue {
    pub fn new(database: Arc<Database>, limits: Arc<Limits>) -> Self {
        Self { database, limits, topics: broadcast::Sender::new(WATCHED) }
    }

    /// Serializes a message and checks its size.
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

    /// Notifies watchers, if any.
    fn notifier(&self, tenant: &Tenant, name: &str, is_stream: bool) -> impl FnOnce() + Send + 'static {
        let topics = self.topics.clone();
        let topic = Topic { tenant: tenant.clone(), name: name.to_owned(), is_stream };
        move || {
            let _ = topics.send(topic);
        }
    }
}

fn check_subject(what: &str, subject: &str) -> Result<(), SurfaceError> {
    check_name(what, subject, MAX_SUBJECT_BYTES, Code::InvalidArgument)
}

fn check_lease(lease_ms: u64) -> Result<(), SurfaceError> {
    if (1..=MAX_LEASE_MS).contains(&lease_ms) {
        return Ok(());
    }
    let most = MAX_LEASE_MS / 1000;
    Err(refuse(format!("a lease must be more than 0 and at most {most} seconds")))
}

impl Queue for EmbeddedQueue {
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
        async move {
            check_subject("subject", &subject)?;
            check_delay(delay_ms)?;
            let delay = (delay_ms > 0).then_some(delay_ms);
            let payload = self.checked("payload", &payload)?;
            let notify = self.notifier(&scope.tenant, &subject, false);
            let (at, limits) = (scope.clone(), Arc::clone(&self.limits));
            let change = move |connection: &Connection| {
                messages::publish(connection, &at, &limits, &subject, &payload, delay)
            };
            self.database.change_then(scope, "queueBus.publish", change, |_| notify()).await
        }
        .boxed()
    }

    fn consume<'a>(&'a self, scope: &'a Scope, consume: Consume) -> PortFuture<'a, Option<Delivery>> {
        async move {
            check_subject("subject", &consume.subject)?;
            if let Some(consumer) = &consume.consumer {
                check_subject("consumer", consumer)?;
            }
            check_lease(consume.lease_ms)?;
            let at = scope.clone();
            let change = move |connection: &Connection| messages::consume(connection, &at, &consume);
            self.database.change(scope, "queueBus.consume", change).await
        }
        .boxed()
    }

    fn ack<'a>(&'a self, scope: &'a Scope, token: String) -> PortFuture<'a, bool> {
        let at = scope.clone();
        let change = move |connection: &Connection| messages::ack(connection, &at, &token);
        self.database.change(scope, "queueBus.ack", change).boxed()
    }

    fn nack<'a>(&'a self, scope: &'a Scope, token: String, requeue: bool) -> PortFuture<'a, bool> {
        async move {
            let (at, topics) = (scope.clone(), self.topics.clone());
            let change = move |connection: &Connection| messages::nack(connection, &at, &token, requeue);
            let tenant = scope.tenant.clone();
            let notify = move |back: &Option<String>| {
                if let Some(name) = back.clone().filter(|_| requeue) {
                    let _ = topics.send(Topic { tenant, name, is_stream: false });
                }
            };
            let subject = self.database.change_then(scope, "queueBus.nack", change, notify).await?;
            Ok(subject.is_some())
        }
        .boxed()
    }

    fn postpone<'a>(&'a self, scope: &'a Scope, token: String, delay_ms: u64) -> PortFuture<'a, bool> {
        async move {
            check_lease(delay_ms)?;
            let at = scope.clone();
            let change = move |connection: &Connection| messages::postpone(connection, &at, &token, delay_ms);
            self.database.change(scope, "queueBus.postpone", change).await
        }
        .boxed()
    }

    fn dead_letter<'a>(
        &'a self,
        scope: &'a Scope,
        token: String,
        reason: String,
    ) -> PortFuture<'a, Option<String>> {
        async move {
            check_reason(&reason)?;
            let (at, topics) = (scope.clone(), self.topics.clone());
            let change =
                move |connection: &Connection| messages::dead_letter(connection, &at, &token, &reason);
            let tenant = scope.tenant.clone();
            let notify = move |moved: &Option<String>| {
                if let Some(name) = moved.clone() {
                    let _ = topics.send(Topic { tenant, name, is_stream: false });
                }
            };
            self.database.change_then(scope, "queueBus.deadLetter", change, notify).await
        }
        .boxed()
    }

    fn release<'a>(&'a self, scope: &'a Scope, consumer: String) -> PortFuture<'a, u64> {
        async move {
            check_subject("consumer", &consumer)?;
            let mut released = 0;
            loop {
                let (at, name) = (scope.clone(), consumer.clone());
                let (topics, tenant) = (self.topics.clone(), scope.tenant.clone());
                let change = move |connection: &Connection| messages::release(connection, &at, &name);
                let notify = move |subjects: &Vec<String>| {
                    for name in subjects {
                        let topic = Topic { tenant: tenant.clone(), name: name.clone(), is_stream: false };
                        let _ = topics.send(topic);
                    }
                };
                // Without an effect id: releasing messages is idempotent.
                let plain = Scope { effect: None, ..scope.clone() };
                let subjects = self.database.change_then(&plain, "queueBus.release", change, notify).await?;
                if subjects.is_empty() {
                    return Ok(released);
                }
                released += subjects.len() as u64;
            }
        }
        .boxed()
    }

    fn due<'a>(&'a self, scope: &'a Scope, subject: &'a str) -> PortFuture<'a, Option<Timestamp>> {
        async move { self.database.read(|connection| Ok(messages::due(connection, scope, subject)?)) }.boxed()
    }

    fn stream_publish<'a>(
        &'a self,
        scope: &'a Scope,
        stream: String,
        record: Value,
    ) -> PortFuture<'a, String> {
        async move {
            check_subject("stream", &stream)?;
            let record = self.checked("record", &record)?;
            let notify = self.notifier(&scope.tenant, &stream, true);
            let (at, limits) = (scope.clone(), Arc::clone(&self.limits));
            let change =
                move |connection: &Connection| streams::publish(connection, &at, &limits, &stream, &record);
            self.database.change_then(scope, "queueBus.streamPublish", change, |_| notify()).await
        }
        .boxed()
    }

    fn stream_read<'a>(
        &'a self,
        scope: &'a Scope,
        stream: String,
        from: ReadFrom,
        limit: usize,
    ) -> PortFuture<'a, Records> {
        async move {
            check_subject("stream", &stream)?;
            let (tenant, limit) = (scope.tenant.clone(), limit.clamp(1, MAX_RECORDS));
            self.database
                .read_blocking(move |connection| streams::read(connection, &tenant, &stream, &from, limit))
                .await
        }
        .boxed()
    }

    fn watch(&self) -> broadcast::Receiver<Topic> {
        self.topics.subscribe()
    }

    fn backend(&self) -> &'static str {
        // The protocol's closed list has no name for a durable in-process database.
        "in-memory"
    }
}
