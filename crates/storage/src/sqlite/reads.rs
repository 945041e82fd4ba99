//! The queries.

use std::sync::Arc;

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{ArtifactId, EffectId, RunId, SubscriptionId, Tenant, WorkflowId};
use flow::run::RunStatus;
use flow::store::{
    Answer, AnswerKey, AuditEntry, Bytes, Delivery, ListedRun, RunFilter, RunRow, StoredAppend, Timer,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};

use super::audit::digest;
pub(super) use super::listening::{listener_place, listening, workflows_containing};
pub(super) use super::retention::{aged_run, aged_runs, oldest_answer};

/// Writes the methods of [`flow::store::RunStore`] that read: each borrows a connection and runs the query of its name.
macro_rules! delegate {
    () => {
        $crate::sqlite::reads::delegate! {
            appends(run_id: &flow::id::RunId, from: u64, max_events: usize, max_bytes: usize) -> Vec<flow::store::StoredAppend>;
            run_checkpoint(run_id: &flow::id::RunId) -> Option<flow::store::Bytes>;
            runs(tenant: &flow::id::Tenant, filter: &flow::store::RunFilter, limit: usize) -> Vec<flow::store::ListedRun>;
            open_runs(after: Option<&flow::id::RunId>, limit: usize) -> Vec<flow::id::RunId>;
            children(run_id: &flow::id::RunId) -> Vec<flow::id::RunId>;
            definition(tenant: &flow::id::Tenant, workflow_id: &flow::id::WorkflowId) -> Option<(canon::digest::Digest, flow::store::Bytes)>;
            definition_by_digest(digest: canon::digest::Digest) -> Option<flow::store::Bytes>;
            definitions(tenant: &flow::id::Tenant, after: Option<&flow::id::WorkflowId>, limit: usize) -> Vec<(flow::id::WorkflowId, canon::digest::Digest)>;
            aged_runs(after: u64, limit: usize) -> Vec<flow::store::AgedRun>;
            aged_run(run_id: &flow::id::RunId) -> Option<flow::store::AgedRun>;
            oldest_answer() -> Option<canon::time::Timestamp>;
            due_timers(at: canon::time::Timestamp, limit: usize) -> Vec<flow::store::Timer>;
            next_timer() -> Option<flow::store::Timer>;
            activity(id: &flow::id::EffectId) -> Option<Option<flow::store::Bytes>>;
            artifact(run_id: &flow::id::RunId, artifact_id: &flow::id::ArtifactId) -> Option<flow::store::Bytes>;
            artifact_ids(run_id: &flow::id::RunId, limit: usize) -> Vec<flow::id::ArtifactId>;
            annotations(run_id: &flow::id::RunId) -> Vec<flow::store::Bytes>;
            webhooks(tenant: &flow::id::Tenant) -> Vec<(flow::id::SubscriptionId, flow::store::Bytes)>;
            due_deliveries(at: canon::time::Timestamp, limit: usize) -> Vec<flow::store::Delivery>;
            webhook(webhook_id: &flow::id::SubscriptionId) -> Option<(flow::id::Tenant, flow::store::Bytes)>;
            next_delivery() -> Option<canon::time::Timestamp>;
            buried_deliveries(webhook_id: &flow::id::SubscriptionId, limit: usize) -> Vec<(flow::store::Delivery, String)>;
            audit(tenant: &flow::id::Tenant, from: u64, to: u64, limit: usize) -> Vec<flow::store::AuditEntry>;
            audit_end(tenant: &flow::id::Tenant) -> Option<u64>;
            checkpoints(tenant: &flow::id::Tenant, from: u64, to: u64, limit: usize) -> Vec<(u64, flow::store::Bytes)>;
            checkpoint_before(tenant: &flow::id::Tenant, sequence: u64) -> Option<(u64, flow::store::Bytes)>;
            listening(after: Option<(&flow::id::Tenant, &flow::id::WorkflowId)>, limit: usize) -> Vec<(flow::id::Tenant, flow::id::WorkflowId)>;
            workflows_containing(texts: [&str; 2], after: Option<(&flow::id::Tenant, &flow::id::WorkflowId)>, limit: usize) -> Vec<(flow::id::Tenant, flow::id::WorkflowId)>;
            listener_place(tenant: &flow::id::Tenant, workflow_id: &flow::id::WorkflowId, consumer: &str) -> Option<String>;
            api_key(hash: canon::digest::Digest) -> Option<flow::store::Bytes>;
            api_keys() -> Vec<(canon::digest::Digest, flow::store::Bytes)>;
        }
    };
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)+) => {
        $(
            fn $name(&self, $($argument: $kind),*) -> flow::store::Read<$result> {
                self.read(|connection| $crate::sqlite::reads::$name(connection, $($argument),*))
            }
        )+
    };
}

pub(super) use delegate;

type Result<T> = rusqlite::Result<T>;

/// A blob, copied once.
fn bytes(row: &Row<'_>, column: usize) -> Result<Bytes> {
    Ok(Arc::from(row.get_ref(column)?.as_blob()?))
}

/// An id, copied once.
pub(super) fn id<'r, T>(row: &'r Row<'_>, column: usize, new: impl FnOnce(&'r str) -> T) -> Result<T> {
    Ok(new(row.get_ref(column)?.as_str()?))
}

pub(super) fn one<T>(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    read: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    connection.prepare_cached(sql)?.query_row(values, read).optional()
}

pub(super) fn many<T>(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    connection.prepare_cached(sql)?.query_map(values, read)?.collect()
}

/// A limit as SQLite takes it.
pub(super) fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) fn run(
    connection: &Connection,
    tenant: Option<&Tenant>,
    run_id: &RunId,
) -> Result<Option<RunRow>> {
    let sql = "SELECT run_id, tenant, workflow_id, genesis, status, next_sequence, snapshot FROM runs
               WHERE run_id = ?1 AND (?2 IS NULL OR tenant = ?2)";
    one(connection, sql, &[&run_id.as_str(), &tenant.map(Tenant::as_str)], |row| {
        let status = row.get_ref(4)?.as_str()?;
        Ok(RunRow {
            run_id: id(row, 0, RunId::new)?,
            tenant: id(row, 1, Tenant::new)?,
            workflow_id: id(row, 2, WorkflowId::new)?,
            genesis: bytes(row, 3)?,
            status: RunStatus::parse(status).ok_or(rusqlite::Error::InvalidQuery)?,
            next_sequence: row.get(5)?,
            snapshot: bytes(row, 6)?,
        })
    })
}

pub(super) fn run_checkpoint(connection: &Connection, run_id: &RunId) -> Result<Option<Bytes>> {
    let sql = "SELECT checkpoint FROM run_checkpoints WHERE run = (SELECT place FROM runs WHERE run_id = ?1)";
    one(connection, sql, &[&run_id.as_str()], |row| bytes(row, 0))
}

pub(super) fn appends(
    connection: &Connection,
    run_id: &RunId,
    from: u64,
    max_events: usize,
    max_bytes: usize,
) -> Result<Vec<StoredAppend>> {
    let mut statement = connection.prepare_cached(
        "SELECT first, last, events FROM appends
         WHERE run = (SELECT place FROM runs WHERE run_id = ?1) AND last >= ?2 ORDER BY last",
    )?;
    let mut rows = statement.query(params![run_id.as_str(), from])?;
    let (mut found, mut events, mut size) = (Vec::new(), 0, 0);
    while let Some(row) = rows.next()? {
        let (first, last): (u64, u64) = (row.get(0)?, row.get(1)?);
        let text = bytes(row, 2)?;
        events += usize::try_from(last - first.max(from) + 1).unwrap_or(usize::MAX);
        size += text.len();
        found.push(StoredAppend { first, last, events: text });
        if events >= max_events || size >= max_bytes {
            break;
        }
    }
    Ok(found)
}

pub(super) fn runs(
    connection: &Connection,
    tenant: &Tenant,
    filter: &RunFilter,
    limit: usize,
) -> Result<Vec<ListedRun>> {
    // One statement per combination of what is asked for, so that each has the index that fits it.
    let is_waiting = filter.waiting || filter.status.is_some_and(RunStatus::is_waiting);
    let from = if is_waiting { "waiting_runs CROSS JOIN runs USING (place)" } else { "runs" };
    let key = if is_waiting { "waiting_runs" } else { "runs" };
    let mut sql =
        format!("SELECT runs.place, snapshot FROM {from} WHERE {key}.tenant = ?1 AND {key}.place < ?2");
    let before = filter.before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
    let limit = at_most(limit);
    let (tenant, workflow_id) = (tenant.as_str(), filter.workflow_id.as_ref().map(WorkflowId::as_str));
    let mut values: Vec<&dyn ToSql> = vec![&tenant, &before, &limit];
    if let Some(status) = filter.status {
        // Written out, because an index of some states is used only where the state is not a parameter.
        sql.push_str(&format!(" AND status = '{status}'"));
        if !status.is_terminal() {
            sql.push_str(" AND open = 1");
        }
    }
    if let Some(workflow_id) = &workflow_id {
        values.push(workflow_id);
        sql.push_str(&format!(" AND workflow_id = ?{}", values.len()));
    }
    if let Some(tag) = &filter.tag {
        values.push(tag);
        sql.push_str(&format!(
            " AND runs.place IN (SELECT run FROM tags WHERE tenant = ?1 AND tag = ?{})",
            values.len()
        ));
    }
    sql.push_str(&format!(" ORDER BY {key}.place DESC LIMIT ?3"));
    many(connection, &sql, &values, |row| Ok(ListedRun { place: row.get(0)?, snapshot: bytes(row, 1)? }))
}

pub(super) fn open_runs(connection: &Connection, after: Option<&RunId>, limit: usize) -> Result<Vec<RunId>> {
    let sql = "SELECT run_id FROM runs WHERE open = 1 AND run_id > ?1 ORDER BY run_id LIMIT ?2";
    many(connection, sql, &[&after.map_or("", RunId::as_str), &at_most(limit)], |row| id(row, 0, RunId::new))
}

pub(super) fn children(connection: &Connection, run_id: &RunId) -> Result<Vec<RunId>> {
    let sql = "SELECT run_id FROM runs WHERE parent_run_id = ?1 ORDER BY place";
    many(connection, sql, &[&run_id.as_str()], |row| id(row, 0, RunId::new))
}

pub(super) fn definition(
    connection: &Connection,
    tenant: &Tenant,
    workflow_id: &WorkflowId,
) -> Result<Option<(Digest, Bytes)>> {
    let sql = "SELECT digest, document FROM workflows JOIN definitions USING (digest)
               WHERE tenant = ?1 AND workflow_id = ?2";
    one(connection, sql, &[&tenant.as_str(), &workflow_id.as_str()], |row| {
        Ok((digest(&row.get::<_, Vec<u8>>(0)?), bytes(row, 1)?))
    })
}

pub(super) fn definition_by_digest(connection: &Connection, digest: Digest) -> Result<Option<Bytes>> {
    let sql = "SELECT document FROM definitions WHERE digest = ?1";
    one(connection, sql, &[&digest.to_hex().as_bytes()], |row| bytes(row, 0))
}

pub(super) fn definitions(
    connection: &Connection,
    tenant: &Tenant,
    after: Option<&WorkflowId>,
    limit: usize,
) -> Result<Vec<(WorkflowId, Digest)>> {
    let sql = "SELECT workflow_id, digest FROM workflows WHERE tenant = ?1 AND workflow_id > ?2
               ORDER BY workflow_id LIMIT ?3";
    // No id is empty, so all of them come after nothing.
    let (tenant, after) = (tenant.as_str(), after.map_or("", WorkflowId::as_str));
    many(connection, sql, &[&tenant, &after, &at_most(limit)], |row| {
        Ok((id(row, 0, WorkflowId::new)?, digest(&row.get::<_, Vec<u8>>(1)?)))
    })
}

fn timer(row: &Row<'_>) -> Result<Timer> {
    Ok(Timer { run_id: id(row, 0, RunId::new)?, key: row.get(1)?, at: Timestamp(row.get(2)?) })
}

pub(super) fn due_timers(connection: &Connection, at: Timestamp, limit: usize) -> Result<Vec<Timer>> {
    let sql = "SELECT run_id, key, at FROM timers WHERE at <= ?1 ORDER BY at, run_id, key LIMIT ?2";
    many(connection, sql, &[&at.0, &at_most(limit)], timer)
}

pub(super) fn next_timer(connection: &Connection) -> Result<Option<Timer>> {
    one(connection, "SELECT run_id, key, at FROM timers ORDER BY at LIMIT 1", &[], timer)
}

/// What answers are looked up by: eight bytes of the digest of tenant, endpoint and key. Two keys may share one, so the rest is compared.
pub(super) fn answer_hash(key: &AnswerKey) -> i64 {
    let digest =
        Digest::of_bytes(format!("{}\0{}\0{}", key.tenant, key.endpoint, key.key).as_bytes()).to_hex();
    i64::from_str_radix(&digest[..15], 16).unwrap_or_default()
}

/// The answer under a key whose hash is known. Each stretch of 65,536 answers is asked for it, the newest first.
pub(super) fn answer_at(connection: &Connection, hash: i64, key: &AnswerKey) -> Result<Option<Answer>> {
    let sql = "WITH RECURSIVE stretches (stretch) AS (
                   SELECT max(place) >> 16 FROM answers
                   UNION ALL
                   SELECT stretch - 1 FROM stretches WHERE stretch > (SELECT min(place) >> 16 FROM answers)
               )
               SELECT request, status, body, at
               FROM stretches CROSS JOIN answer_keys USING (stretch) CROSS JOIN answers USING (place)
               WHERE hash = ?1 AND tenant = ?2 AND endpoint = ?3 AND key = ?4 LIMIT 1";
    let values: [&dyn ToSql; 4] =
        [&hash, &key.tenant.as_str(), &key.endpoint, &key.key.to_hex().into_bytes()];
    one(connection, sql, &values, |row| {
        Ok(Answer {
            request: digest(&row.get::<_, Vec<u8>>(0)?),
            status: row.get(1)?,
            body: bytes(row, 2)?,
            at: Timestamp(row.get(3)?),
        })
    })
}

pub(super) fn activity(connection: &Connection, id: &EffectId) -> Result<Option<Option<Bytes>>> {
    one(connection, "SELECT outcome FROM activities WHERE id = ?1", &[&id.as_str()], |row| {
        match row.get_ref(0)? {
            ValueRef::Null => Ok(None),
            _ => bytes(row, 0).map(Some),
        }
    })
}

pub(super) fn artifact(
    connection: &Connection,
    run_id: &RunId,
    artifact_id: &ArtifactId,
) -> Result<Option<Bytes>> {
    let sql = "SELECT document FROM artifacts WHERE run_id = ?1 AND artifact_id = ?2";
    one(connection, sql, &[&run_id.as_str(), &artifact_id.as_str()], |row| bytes(row, 0))
}

pub(super) fn artifact_ids(connection: &Connection, run_id: &RunId, limit: usize) -> Result<Vec<ArtifactId>> {
    let sql = "SELECT artifact_id FROM artifacts WHERE run_id = ?1 ORDER BY artifact_id LIMIT ?2";
    many(connection, sql, &[&run_id.as_str(), &at_most(limit)], |row| id(row, 0, ArtifactId::new))
}

pub(super) fn annotations(connection: &Connection, run_id: &RunId) -> Result<Vec<Bytes>> {
    let sql = "SELECT document FROM annotations WHERE run_id = ?1 ORDER BY place";
    many(connection, sql, &[&run_id.as_str()], |row| bytes(row, 0))
}

pub(super) fn webhooks(connection: &Connection, tenant: &Tenant) -> Result<Vec<(SubscriptionId, Bytes)>> {
    let sql = "SELECT webhook_id, document FROM webhooks WHERE tenant = ?1 ORDER BY webhook_id";
    many(connection, sql, &[&tenant.as_str()], |row| Ok((id(row, 0, SubscriptionId::new)?, bytes(row, 1)?)))
}

pub(super) fn webhook(
    connection: &Connection,
    webhook_id: &SubscriptionId,
) -> Result<Option<(Tenant, Bytes)>> {
    let sql = "SELECT tenant, document FROM webhooks WHERE webhook_id = ?1";
    one(connection, sql, &[&webhook_id.as_str()], |row| Ok((id(row, 0, Tenant::new)?, bytes(row, 1)?)))
}

fn delivery(row: &Row<'_>) -> Result<Delivery> {
    Ok(Delivery {
        delivery_id: row.get(0)?,
        webhook_id: id(row, 1, SubscriptionId::new)?,
        due: Timestamp(row.get(2)?),
        attempts: row.get(3)?,
        body: bytes(row, 4)?,
    })
}

pub(super) fn due_deliveries(connection: &Connection, at: Timestamp, limit: usize) -> Result<Vec<Delivery>> {
    let sql = "SELECT delivery_id, webhook_id, due, attempts, body FROM deliveries WHERE due <= ?1 ORDER BY due LIMIT ?2";
    many(connection, sql, &[&at.0, &at_most(limit)], delivery)
}

pub(super) fn next_delivery(connection: &Connection) -> Result<Option<Timestamp>> {
    let sql = "SELECT due FROM deliveries ORDER BY due LIMIT 1";
    one(connection, sql, &[], |row| Ok(Timestamp(row.get(0)?)))
}

pub(super) fn buried_deliveries(
    connection: &Connection,
    webhook_id: &SubscriptionId,
    limit: usize,
) -> Result<Vec<(Delivery, String)>> {
    let sql = "SELECT delivery_id, webhook_id, buried_at, attempts, body, reason FROM buried_deliveries
               WHERE webhook_id = ?1 ORDER BY place DESC LIMIT ?2";
    many(connection, sql, &[&webhook_id.as_str(), &at_most(limit)], |row| Ok((delivery(row)?, row.get(5)?)))
}

pub(super) fn audit(
    connection: &Connection,
    tenant: &Tenant,
    from: u64,
    to: u64,
    limit: usize,
) -> Result<Vec<AuditEntry>> {
    let sql = "SELECT sequence, previous, entry FROM audit
               WHERE tenant = ?1 AND sequence BETWEEN ?2 AND ?3 ORDER BY sequence LIMIT ?4";
    let to = to.min(i64::MAX.unsigned_abs());
    many(connection, sql, &[&tenant.as_str(), &from, &to, &at_most(limit)], |row| {
        Ok(AuditEntry {
            sequence: row.get(0)?,
            previous: digest(&row.get::<_, Vec<u8>>(1)?),
            entry: bytes(row, 2)?,
        })
    })
}

pub(super) fn audit_end(connection: &Connection, tenant: &Tenant) -> Result<Option<u64>> {
    let sql = "SELECT sequence FROM audit WHERE tenant = ?1 ORDER BY sequence DESC LIMIT 1";
    one(connection, sql, &[&tenant.as_str()], |row| row.get(0))
}

pub(super) fn checkpoints(
    connection: &Connection,
    tenant: &Tenant,
    from: u64,
    to: u64,
    limit: usize,
) -> Result<Vec<(u64, Bytes)>> {
    let sql = "SELECT at_sequence, document FROM checkpoints
               WHERE tenant = ?1 AND at_sequence BETWEEN ?2 AND ?3 ORDER BY at_sequence LIMIT ?4";
    let to = to.min(i64::MAX.unsigned_abs());
    many(connection, sql, &[&tenant.as_str(), &from, &to, &at_most(limit)], |row| {
        Ok((row.get(0)?, bytes(row, 1)?))
    })
}

pub(super) fn checkpoint_before(
    connection: &Connection,
    tenant: &Tenant,
    sequence: u64,
) -> Result<Option<(u64, Bytes)>> {
    let sql = "SELECT at_sequence, document FROM checkpoints
               WHERE tenant = ?1 AND at_sequence < ?2 ORDER BY at_sequence DESC LIMIT 1";
    let sequence = sequence.min(i64::MAX.unsigned_abs());
    one(connection, sql, &[&tenant.as_str(), &sequence], |row| Ok((row.get(0)?, bytes(row, 1)?)))
}

pub(super) fn api_key(connection: &Connection, hash: Digest) -> Result<Option<Bytes>> {
    let sql = "SELECT document FROM api_keys WHERE hash = ?1";
    one(connection, sql, &[&hash.to_hex().as_bytes()], |row| bytes(row, 0))
}

pub(super) fn api_keys(connection: &Connection) -> Result<Vec<(Digest, Bytes)>> {
    let sql = "SELECT hash, document FROM api_keys ORDER BY hash";
    many(connection, sql, &[], |row| Ok((digest(&row.get::<_, Vec<u8>>(0)?), bytes(row, 1)?)))
}
