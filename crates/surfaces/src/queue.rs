//! Messages that are handed over, and streams that are read.

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
use crate::served::Answer;

pub use self::embedded::EmbeddedQueue;
pub use self::json::ServedQueue;

/// How long a delivery is kept for its consumer where nothing is said: 30 seconds.
pub const LEASE_MS: u64 = 30_000;
/// How long a delivery may be kept for its consumer: 12 hours.
pub const MAX_LEASE_MS: u64 = 12 * 60 * 60 * 1000;
/// How long a message may be kept back when it is published: 12 hours.
pub const MAX_DELAY_MS: u64 = MAX_LEASE_MS;
/// How many bytes the name of a subject, a stream or a consumer may have.
pub const MAX_SUBJECT_BYTES: usize = 256;
/// How many records are read at once.
pub const MAX_RECORDS: usize = 1000;
/// What dead letters of a subject are published under: its name and this.
pub const DEAD_LETTERS: &str = ".dlq";

/// How often a message may be dead-lettered: every time it is wrapped once more, and what is nested too deep cannot be read.
const MAX_DEAD_LETTERS: usize = 8;
/// How many bytes the reason of a dead letter may have.
const MAX_REASON_BYTES: usize = 4096;

/// Refuses the reason of a dead letter that is too long.
///
/// # Errors
/// `invalid_argument`
pub(crate) fn check_reason(reason: &str) -> Result<(), SurfaceError> {
    if reason.len() > MAX_REASON_BYTES {
        return Err(refuse(format!("`reason` has at most {MAX_REASON_BYTES} bytes")));
    }
    Ok(())
}

/// Refuses a delay that is too long.
///
/// # Errors
/// `invalid_argument`
pub(crate) fn check_delay(delay_ms: u64) -> Result<(), SurfaceError> {
    if delay_ms > MAX_DELAY_MS {
        return Err(refuse(format!("a message is kept back for at most {} seconds", MAX_DELAY_MS / 1000)));
    }
    Ok(())
}

/// Under what subject a message of that one is put aside, where it may be.
///
/// # Errors
/// `invalid_argument`: the subject is too long, or the message was put aside too often.
pub(crate) fn dead_letter_subject(subject: &str) -> Result<String, SurfaceError> {
    if subject.matches(DEAD_LETTERS).count() >= MAX_DEAD_LETTERS {
        return Err(refuse(format!(
            "a message is dead-lettered at most {MAX_DEAD_LETTERS} times; acknowledge it"
        )));
    }
    let dead = format!("{subject}{DEAD_LETTERS}");
    check_name("subject", &dead, MAX_SUBJECT_BYTES, Code::InvalidArgument)?;
    Ok(dead)
}

/// Messages and streams of a tenant.
///
/// # Contract
/// * Messages and records of one tenant are invisible to every other, by every method. A delivery token is good for its tenant alone.
/// * A message is with one consumer at a time. It comes back when its lease is over or when it is given back, in its old place, until it
///   is acknowledged, dropped or dead-lettered; then it never comes back.
/// * Messages of a subject are handed over in the order of their publication. One that was published for later is handed over once its delay is
///   over, before those that wait.
/// * The id of a message is the same at every delivery, and is given to no other message of any tenant: whoever starts something under
///   an identity made from it starts it once for each message.
/// * Records of a stream are read in the order of their publication, any number of times, as long as they are kept.
/// * A change is durable when it returns, and happens once for an effect's identity.
pub trait Queue: Send + Sync {
    /// Publishes a message, and tells its id.
    fn publish<'a>(&'a self, scope: &'a Scope, subject: String, payload: Value) -> Answer<'a, String>;
    /// Publishes a message that nobody gets before a delay is over, and tells its id. Without a delay, as [`Queue::publish`].
    fn publish_later<'a>(
        &'a self,
        scope: &'a Scope,
        subject: String,
        payload: Value,
        delay_ms: u64,
    ) -> Answer<'a, String>;
    /// The next message, which is kept for this consumer for a while.
    fn consume<'a>(&'a self, scope: &'a Scope, consume: Consume) -> Answer<'a, Option<Delivery>>;
    /// The message is done with. Says whether the token was known.
    ///
    /// A token is good until the message is handed over again, even when its lease is over; from then on it is refused with
    /// `queue_delivery_token_expired`.
    fn ack<'a>(&'a self, scope: &'a Scope, token: String) -> Answer<'a, bool>;
    /// Gives the message back, or drops it. Says whether the token was known; as [`Queue::ack`].
    fn nack<'a>(&'a self, scope: &'a Scope, token: String, requeue: bool) -> Answer<'a, bool>;
    /// Keeps the message from everybody for a while, from now on, and then it comes back. Says whether the token was known; as
    /// [`Queue::ack`]. A name that the consumer gave still holds for it: see [`Queue::release`].
    fn postpone<'a>(&'a self, scope: &'a Scope, token: String, delay_ms: u64) -> Answer<'a, bool>;
    /// Moves the message to the dead letters of its subject, and tells their subject; nothing where the token was not known.
    fn dead_letter<'a>(
        &'a self,
        scope: &'a Scope,
        token: String,
        reason: String,
    ) -> Answer<'a, Option<String>>;
    /// Gives back all that a named consumer holds, as after its crash. Says how many; none where the adapter knows no names.
    fn release<'a>(&'a self, scope: &'a Scope, consumer: String) -> Answer<'a, u64>;
    /// When it is worth looking at a subject again, if no message is published before: the end of the first lease, or now where
    /// something waits.
    fn due<'a>(&'a self, scope: &'a Scope, subject: &'a str) -> Answer<'a, Option<Timestamp>>;
    /// Adds a record to a stream, and tells its id.
    fn stream_publish<'a>(&'a self, scope: &'a Scope, stream: String, record: Value) -> Answer<'a, String>;
    /// Records of a stream.
    fn stream_read<'a>(
        &'a self,
        scope: &'a Scope,
        stream: String,
        from: From,
        limit: usize,
    ) -> Answer<'a, Records>;
    /// Tells of every subject and stream in which something was published or given back. Whoever falls behind is told so and looks at
    /// everything; what was published before is not told of.
    fn watch(&self) -> broadcast::Receiver<Topic>;
    /// Whether a [`Queue::consume`] waits as long as it is told for a message, by an event of the server. Where not, it answers at once,
    /// and [`Queue::watch`] and [`Queue::due`] say when it is worth asking again.
    fn waits(&self) -> bool {
        false
    }
    /// What the adapter is, as the discovery document spells it.
    fn backend(&self) -> &'static str;
}

/// Which message is wanted, and for how long.
#[derive(Clone, Debug)]
pub struct Consume {
    /// Of which subject.
    pub subject: String,
    /// The name of the consumer, where it has one; see [`Queue::release`].
    pub consumer: Option<String>,
    /// For how many milliseconds it is kept for this consumer.
    pub lease_ms: u64,
    /// For how many milliseconds it is waited for, where the adapter [waits](Queue::waits) and there is none.
    pub wait_ms: u64,
}

impl Consume {
    /// The next message of a subject, for the usual while.
    pub fn of(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), consumer: None, lease_ms: LEASE_MS, wait_ms: 0 }
    }
}

/// A message that was handed over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// What acknowledges it.
    pub token: String,
    /// Its id.
    pub id: String,
    /// Its subject.
    pub subject: String,
    /// What it says.
    pub payload: Value,
    /// How often it was handed over, this time included.
    pub deliveries: u64,
}

/// Where reading begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// With the oldest record that is kept.
    Beginning,
    /// Behind the newest.
    Now,
    /// Where an earlier page ended.
    Cursor(String),
}

/// Some records of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Records {
    /// In the order of their publication.
    pub records: Vec<Record>,
    /// Where the next page begins.
    pub next: String,
    /// Whether there are records behind these already.
    pub more: bool,
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its id.
    pub id: String,
    /// What it says.
    pub payload: Value,
    /// Where reading goes on behind it.
    pub next: String,
}

/// Where something was published.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Topic {
    /// Whose.
    pub tenant: Tenant,
    /// The subject or the stream.
    pub name: String,
    /// Which of the two.
    pub is_stream: bool,
}
