//! Rows of messages.
//!
//! ```text
//!   published ──► ready ──consume──► leased ──ack──► gone
//!                   ▲                  │ ├──dead letter──► ready under <subject>.dlq
//!                   └──nack, release───┘ └──lease expired──► may be consumed again
//! ```
//!
//! A delayed message starts as leased, without a consumer, until it is due. Ready rows are in one partial index by
//! position, leased ones in another by lease end. The next message is always the first entry of one of them, so nothing
//! is scanned.

use canon::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::Value;

use super::{Consume, Delivery, dead_letter_subject};
use crate::call::{Scope, Tenant};
use crate::embedded::Refused;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::usage::{Usage, signed};
use crate::value::{bytes_of, value_of};

const SURFACE: &str = "queue";
/// The maximum number of messages released in one transaction.
const RELEASED_AT_ONCE: usize = 256;

pub(super) fn publish(
    connection: &Connection,
    scope: &Scope,
    limits: &Limits,
    subject: &str,
    payload: &[u8],
    delay_ms: Option<u64>,
) -> Result<String, Refused> {
    let usage = Usage::new(1, signed(payload.len())).add(connection, &scope.tenant, SURFACE)?;
    if !usage.within(limits.messages, limits.queue_bytes) {
        let (messages, bytes) = (limits.messages, limits.queue_bytes);
        let message = format!(
            "the tenant's quota of {messages} waiting messages or {bytes} bytes is reached; \
                consume some first"
        );
        return Err(SurfaceError::new(Code::QueueBackendUnavailable, message).into());
    }
    Ok(insert(connection, scope, subject, payload, scope.expiry(delay_ms))?)
}

/// The salt is random and created once per tenant and file, so a recreated file does not reuse ids.
fn insert(
    connection: &Connection,
    scope: &Scope,
    subject: &str,
    payload: &[u8],
    until: Option<i64>,
) -> rusqlite::Result<String> {
    let tenant = &scope.tenant;
    let (place, salt): (i64, String) = connection
        .prepare_cached(
            "INSERT INTO counters (tenant, name, next, salt) VALUES (?1, 'messages', 2, lower(hex(randomblob(8))))
             ON CONFLICT (tenant, name) DO UPDATE SET next = next + 1 RETURNING next - 1, salt",
        )?
        .query_row(params![tenant.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let id = format!("{salt}-{place}");
    connection
        .prepare_cached(
            "INSERT INTO messages (tenant, place, id, subject, published_at, deliveries, lease_until, payload)
             VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7)",
        )?
        .execute(params![tenant.as_str(), place, id, subject, scope.at(), until, payload])?;
    Ok(id)
}

pub(super) fn consume(
    connection: &Connection,
    scope: &Scope,
    consume: &Consume,
) -> Result<Option<Delivery>, Refused> {
    let tenant = scope.tenant.as_str();
    let place = |sql: &str, at: Option<i64>| {
        let mut statement = connection.prepare_cached(sql)?;
        let place = |row: &Row<'_>| row.get::<_, i64>(0);
        match at {
            Some(at) => statement.query_row(params![tenant, consume.subject, at], place).optional(),
            None => statement.query_row(params![tenant, consume.subject], place).optional(),
        }
    };
    // Returned messages are older than new ones.
    let over = place(
        "SELECT place FROM messages WHERE tenant = ?1 AND subject = ?2 AND lease_until <= ?3
         ORDER BY lease_until, place LIMIT 1",
        Some(scope.at()),
    )?;
    let next = match over {
        Some(place) => Some(place),
        None => place(
            "SELECT place FROM messages WHERE tenant = ?1 AND subject = ?2 AND lease_until IS NULL
             ORDER BY place LIMIT 1",
            None,
        )?,
    };
    let Some(next) = next else { return Ok(None) };
    let until = scope.expiry(Some(consume.lease_ms));
    let (id, deliveries, payload): (String, i64, Vec<u8>) = connection
        .prepare_cached(
            "UPDATE messages SET lease_until = ?3, consumer = ?4, deliveries = deliveries + 1
             WHERE tenant = ?1 AND place = ?2 RETURNING id, deliveries, payload",
        )?
        .query_row(params![tenant, next, until, consume.consumer], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    Ok(Some(Delivery {
        token: format!("{id}.{deliveries}"),
        id,
        subject: consume.subject.clone(),
        payload: value_of(&payload)?,
        deliveries: u64::try_from(deliveries).unwrap_or(0),
    }))
}

pub(super) fn ack(connection: &Connection, scope: &Scope, token: &str) -> Result<bool, Refused> {
    let Some(held) = held(connection, &scope.tenant, token)? else { return Ok(false) };
    remove(connection, &scope.tenant, &held)?;
    Ok(true)
}

/// The subject of the message, if the token is known.
pub(super) fn nack(
    connection: &Connection,
    scope: &Scope,
    token: &str,
    requeue: bool,
) -> Result<Option<String>, Refused> {
    let Some(held) = held(connection, &scope.tenant, token)? else { return Ok(None) };
    if requeue {
        give_back(connection, &scope.tenant, held.place)?;
    } else {
        remove(connection, &scope.tenant, &held)?;
    }
    Ok(Some(held.subject))
}

/// Whether the token is known. The message stays assigned to its consumer and returns when the lease ends.
pub(super) fn postpone(
    connection: &Connection,
    scope: &Scope,
    token: &str,
    delay_ms: u64,
) -> Result<bool, Refused> {
    let Some(held) = held(connection, &scope.tenant, token)? else { return Ok(false) };
    connection
        .prepare_cached("UPDATE messages SET lease_until = ?3 WHERE tenant = ?1 AND place = ?2")?
        .execute(params![scope.tenant.as_str(), held.place, scope.expiry(Some(delay_ms))])?;
    Ok(true)
}

/// The dead-letter subject, if the token is known.
pub(super) fn dead_letter(
    connection: &Connection,
    scope: &Scope,
    token: &str,
    reason: &str,
) -> Result<Option<String>, Refused> {
    let Some(held) = held(connection, &scope.tenant, token)? else { return Ok(None) };
    let subject = dead_letter_subject(&held.subject)?;
    let original: Vec<u8> = connection
        .prepare_cached("SELECT payload FROM messages WHERE tenant = ?1 AND place = ?2")?
        .query_row(params![scope.tenant.as_str(), held.place], |row| row.get(0))?;
    let reason = bytes_of(&Value::from(reason));
    let payload =
        [&b"{\"original\":"[..], &original, &b",\"deadLetterReason\":"[..], &reason, &b"}"[..]].concat();
    remove(connection, &scope.tenant, &held)?;
    // Exempt from the quota: an existing message can always be moved.
    Usage::new(1, signed(payload.len())).add(connection, &scope.tenant, SURFACE)?;
    insert(connection, scope, &subject, &payload, None)?;
    Ok(Some(subject))
}

/// Releases some messages of a consumer; returns one subject per message.
pub(super) fn release(
    connection: &Connection,
    scope: &Scope,
    consumer: &str,
) -> Result<Vec<String>, Refused> {
    let mut statement = connection
        .prepare_cached("SELECT place, subject FROM messages WHERE tenant = ?1 AND consumer = ?2 LIMIT ?3")?;
    let bound = params![scope.tenant.as_str(), consumer, RELEASED_AT_ONCE];
    let rows = statement.query_map(bound, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let held: Vec<(i64, String)> = rows.collect::<rusqlite::Result<_>>()?;
    for (place, _) in &held {
        give_back(connection, &scope.tenant, *place)?;
    }
    Ok(held.into_iter().map(|(_, subject)| subject).collect())
}

pub(super) fn due(
    connection: &Connection,
    scope: &Scope,
    subject: &str,
) -> rusqlite::Result<Option<Timestamp>> {
    let bound = params![scope.tenant.as_str(), subject];
    let waits = connection
        .prepare_cached(
            "SELECT 1 FROM messages WHERE tenant = ?1 AND subject = ?2 AND lease_until IS NULL LIMIT 1",
        )?
        .exists(bound)?;
    if waits {
        return Ok(Some(scope.now));
    }
    let over: Option<i64> = connection
        .prepare_cached(
            "SELECT lease_until FROM messages WHERE tenant = ?1 AND subject = ?2 AND lease_until IS NOT NULL
             ORDER BY lease_until LIMIT 1",
        )?
        .query_row(bound, |row| row.get(0))
        .optional()?;
    Ok(over.map(|over| Timestamp(u64::try_from(over.max(scope.at())).unwrap_or(0))))
}

/// A message held by the owner of a token.
struct LeasedMessage {
    place: i64,
    subject: String,
    bytes: i64,
}

/// Looks up a token: `<salt>-<place>.<delivery>`.
fn held(connection: &Connection, tenant: &Tenant, token: &str) -> Result<Option<LeasedMessage>, Refused> {
    let parsed = token.rsplit_once('.').and_then(|(id, delivery)| {
        let place = id.rsplit_once('-')?.1.parse::<i64>().ok()?;
        Some((id, place, delivery.parse::<i64>().ok()?))
    });
    let Some((id, place, delivery)) = parsed else { return Ok(None) };
    let found = connection
        .prepare_cached(
            "SELECT id, subject, deliveries, lease_until IS NOT NULL, length(payload) FROM messages
             WHERE tenant = ?1 AND place = ?2",
        )?
        .query_row(params![tenant.as_str(), place], |row| {
            let held = LeasedMessage { place, subject: row.get(1)?, bytes: row.get(4)? };
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(2)?, row.get::<_, bool>(3)?, held))
        })
        .optional()?;
    let Some((of, deliveries, is_leased, held)) = found.filter(|found| found.0 == id) else {
        return Ok(None);
    };
    debug_assert_eq!(of, id);
    if delivery < deliveries && delivery > 0 {
        let message = "the message was delivered again; this delivery token is expired";
        return Err(SurfaceError::new(Code::QueueDeliveryTokenExpired, message).into());
    }
    // Delivery 0 never happened: such a message is only delayed.
    Ok((delivery == deliveries && delivery > 0 && is_leased).then_some(held))
}

fn give_back(connection: &Connection, tenant: &Tenant, place: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE messages SET lease_until = NULL, consumer = NULL WHERE tenant = ?1 AND place = ?2",
        )?
        .execute(params![tenant.as_str(), place])?;
    Ok(())
}

fn remove(connection: &Connection, tenant: &Tenant, held: &LeasedMessage) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM messages WHERE tenant = ?1 AND place = ?2")?
        .execute(params![tenant.as_str(), held.place])?;
    Usage::new(-1, -held.bytes).add(connection, tenant, SURFACE)?;
    Ok(())
}
