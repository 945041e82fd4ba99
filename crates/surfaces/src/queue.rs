//! Message queues and streams.

mod embedded;
mod json;
mod messages;
mod streams;

use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::broadcast;

use crate::args::{check_name, refuse};
use crate::call::{Scope, Tenant};
use crate::error::{Code, SurfaceError};
use crate::served::PortFuture;

pub use self::embedded::EmbeddedQueue;
pub use self::json::ServedQueue;

/// The default lease: 30 seconds.
pub const LEASE_MS: u64 = 30_000;
/// The maximum lease: 12 hours.
pub const MAX_LEASE_MS: u64 = 12 * 60 * 60 * 1000;
/// The maximum delay of a message: 12 hours.
pub const MAX_DELAY_MS: u64 = MAX_LEASE_MS;
/// The maximum length of a subject, stream or consumer name, in bytes.
pub const MAX_SUBJECT_BYTES: usize = 256;
/// The maximum number of records per read.
pub const MAX_RECORDS: usize = 1000;
/// The suffix of dead-letter subjects.
pub const DEAD_LETTERS: &str = ".dlq";

/// How often a message may be dead-lettered: each time adds a level of nesting, which is limited.
const MAX_DEAD_LETTERS: usize = 8;
/// The maximum length of a dead-letter reason, in bytes.
const MAX_REASON_BYTES: usize = 4096;

/// Checks the length of a dead-letter reason.
///
/// # Errors
/// `invalid_argument`
pub(crate) fn check_reason(reason: &str) -> Result<(), SurfaceError> {
    if reason.len() > MAX_REASON_BYTES {
        return Err(refuse(format!("`reason` is longer than {MAX_REASON_BYTES} bytes")));
    }
    Ok(())
}

/// Checks a delay.
///
/// # Errors
/// `invalid_argument`
pub(crate) fn check_delay(delay_ms: u64) -> Result<(), SurfaceError> {
    if delay_ms > MAX_DELAY_MS {
        return Err(refuse(format!("the delay of a message is limited to {} seconds", MAX_DELAY_MS / 1000)));
    }
    Ok(())
}

/// The dead-letter subject of a subject.
///
/// # Errors
/// `invalid_argument`: the subject is too long, or the message was dead-lettered too often.
pub(crate) fn dead_letter_subject(subject: &str) -> Result<String, SurfaceError> {
    if subject.matches(DEAD_LETTERS).count() >= MAX_DEAD_LETTERS {
        return Err(refuse(format!(
            "a message can be dead-lettered at most {MAX_DEAD_LETTERS} times; acknowledge it instead"
        )));
    }
    let dead = format!("{subject}{DEAD_LETTERS}");
    check_name("subject", &dead, MAX_SUBJECT_BYTES, Code::InvalidArgument)?;
    Ok(dead)
}

/// The queues and streams of a tenant.
///
/// # Contract
///
/// * Messages and records are visible only to their tenant. A delivery token is valid only for its tenant.
/// * A message is held by one consumer at a time. It returns to its old position when its lease expires or it is
///   released, until it is acknowledged, dropped or dead-lettered; then it never returns.
/// * Messages of a subject are delivered in publication order. A delayed message is delivered when it is due, before
///   waiting ones.
/// * The id of a message is the same for every delivery and globally unique. An effect id derived from it makes a
///   consumer idempotent.
/// * Records of a stream are read in publication order, any number of times, while they are kept.
/// * A change is durable when the call returns, and is applied once per effect id.
pub trait Queue: Send + Sync {
    /// Publishes a message and returns its id.
    fn publish<'a>(&'a self, scope: &'a Scope, subject: String, payload: Value) -> PortFuture<'a, String>;
    /// Publishes a message with a delay and returns its id. A delay of 0 is [`Queue::publish`].
    fn publish_later<'a>(
        &'a self,
        scope: &'a Scope,
        subject: String,
        payload: Value,
        delay_ms: u64,
    ) -> PortFuture<'a, String>;
    /// Delivers the next message with a lease.
    fn consume<'a>(&'a self, scope: &'a Scope, consume: Consume) -> PortFuture<'a, Option<Delivery>>;
    /// Acknowledges a message. Returns whether the token was known.
    ///
    /// A token stays valid until the message is delivered again, even after its lease; then it fails with
    /// `queue_delivery_token_expired`.
    fn ack<'a>(&'a self, scope: &'a Scope, token: String) -> PortFuture<'a, bool>;
    /// Returns the message to the queue, or drops it. Returns whether the token was known; see [`Queue::ack`].
    fn nack<'a>(&'a self, scope: &'a Scope, token: String, requeue: bool) -> PortFuture<'a, bool>;
    /// Hides the message for a while; then it returns. Returns whether the token was known; see [`Queue::ack`]. The
    /// message stays assigned to its named consumer; see [`Queue::release`].
    fn postpone<'a>(&'a self, scope: &'a Scope, token: String, delay_ms: u64) -> PortFuture<'a, bool>;
    /// Moves the message to the dead letters of its subject and returns their subject; `None` if the token is unknown.
    fn dead_letter<'a>(
        &'a self,
        scope: &'a Scope,
        token: String,
        reason: String,
    ) -> PortFuture<'a, Option<String>>;
    /// Releases all messages of a named consumer, for example after it crashed. Returns how many; 0 if the adapter has
    /// no consumer names.
    fn release<'a>(&'a self, scope: &'a Scope, consumer: String) -> PortFuture<'a, u64>;
    /// When to check a subject again if nothing is published before: the end of the first lease, or now if a message
    /// waits.
    fn due<'a>(&'a self, scope: &'a Scope, subject: &'a str) -> PortFuture<'a, Option<Timestamp>>;
    /// Appends a record to a stream and returns its id.
    fn stream_publish<'a>(
        &'a self,
        scope: &'a Scope,
        stream: String,
        record: Value,
    ) -> PortFuture<'a, String>;
    fn stream_read<'a>(
        &'a self,
        scope: &'a Scope,
        stream: String,
        from: ReadFrom,
        limit: usize,
    ) -> PortFuture<'a, Records>;
    /// Notifies of every subject and stream with new or returned messages. A watcher that lags must check all of them;
    /// earlier publications are not reported.
    fn watch(&self) -> broadcast::Receiver<Topic>;
    /// Whether [`Queue::consume`] waits for a message on the server. If not, it returns immediately; use
    /// [`Queue::watch`] and [`Queue::due`] to know when to call again.
    fn waits(&self) -> bool {
        false
    }
    /// The adapter name in the discovery document.
    fn backend(&self) -> &'static str;
}

#[derive(Clone, Debug)]
pub struct Consume {
    pub subject: String,
    /// The consumer name, if any; see [`Queue::release`].
    pub consumer: Option<String>,
    /// The lease in milliseconds.
    pub lease_ms: u64,
    /// How long to wait for a message, in milliseconds, if the adapter [waits](Queue::waits).
    pub wait_ms: u64,
}

impl Consume {
    /// The next message of a subject, with the default lease.
    pub fn of(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), consumer: None, lease_ms: LEASE_MS, wait_ms: 0 }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Settles the message.
    pub token: String,
    pub id: String,
    pub subject: String,
    pub payload: Value,
    /// How often the message was delivered, including this time.
    pub deliveries: u64,
}

/// Where reading starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// The oldest record.
    Beginning,
    /// After the newest record.
    Now,
    /// The end of an earlier page.
    Cursor(String),
}

/// A page of records.
#[derive(Clone, Debug, PartialEq)]
pub struct Records {
    /// In publication order.
    pub records: Vec<Record>,
    /// The cursor of the next page.
    pub next: String,
    /// Whether more records follow.
    pub more: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub id: String,
    pub payload: Value,
    /// The cursor after this record.
    pub next: String,
}

/// A subject or stream with a new message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Topic {
    pub tenant: Tenant,
    /// The subject or stream name.
    pub name: String,
    pub is_stream: bool,
}
