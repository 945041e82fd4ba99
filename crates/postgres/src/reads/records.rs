//! What belongs to runs and tenants: effects, replies, artifacts, annotations, audit logs and API keys.

use canon::digest::Digest;
use flow::id::{ArtifactId, EffectId, NodeId, RunId, Tenant};
use ports::runs::{
    Annotations, ApiKeys, Artifacts, AttemptPosition, AttemptState, AuditEntry, AuditLog, Bytes,
    ClaimedEffect, Effects, Reached, ReadFuture, RecordedReply, Replies, ReplyKey, StoredAttempt,
};
use tokio_postgres::Row;

use super::values;
use crate::error::Failure;
use crate::row::{at_most, bytes, digest, number, text, time, unsigned};
use crate::store::PostgresRuns;

impl Effects for PostgresRuns {
    fn effect(&self, id: &EffectId) -> ReadFuture<'_, Option<ClaimedEffect>> {
        let sql = "select outcome, attempt from activities where id = $1 order by attempt desc limit 1";
        self.read(sql, values![id.as_str().to_owned()], |rows| {
            let Some(row) = rows.first() else { return Ok(None) };
            let outcome: Option<&[u8]> = row.try_get(0).map_err(|_| Failure::Row)?;
            Ok(Some(match outcome {
                Some(outcome) => ClaimedEffect::Finished(outcome.into()),
                None => ClaimedEffect::Unfinished { attempt: attempt_number(row, 1)? },
            }))
        })
    }

    fn attempts(
        &self,
        run_id: &RunId,
        after: Option<&AttemptPosition>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<StoredAttempt>> {
        let sql =
            "select at, id, attempt, node_id, provider_key, outcome is not null, released from activities
                   where run_id = $1 and node_id is not null and (at, id, attempt) > ($2, $3, $4)
                   order by at, id, attempt limit $5";
        // Attempts are numbered from 1, and no id is empty.
        let (at, id, attempt) = match after {
            None => (0, "", 0),
            Some(after) => (number(after.at.0), after.id.as_str(), after.attempt),
        };
        let attempt = i32::try_from(attempt).unwrap_or(i32::MAX);
        let values = values![run_id.as_str().to_owned(), at, id.to_owned(), attempt, at_most(limit)];
        self.read(sql, values, |rows| rows.iter().map(stored_attempt).collect())
    }
}

fn attempt_number(row: &Row, column: usize) -> Result<u32, Failure> {
    let attempt: i32 = row.try_get(column).map_err(|_| Failure::Row)?;
    u32::try_from(attempt).map_err(|_| Failure::Row)
}

fn stored_attempt(row: &Row) -> Result<StoredAttempt, Failure> {
    let is = |column: usize| row.try_get::<_, bool>(column).map_err(|_| Failure::Row);
    let state = match (is(5)?, is(6)?) {
        (true, _) => AttemptState::Completed,
        (false, true) => AttemptState::Released,
        (false, false) => AttemptState::Claimed,
    };
    Ok(StoredAttempt {
        position: AttemptPosition {
            at: time(row, 0)?,
            id: text(row, 1, EffectId::new)?,
            attempt: attempt_number(row, 2)?,
        },
        reached: Reached {
            node_id: text(row, 3, NodeId::new)?,
            provider_key: row.try_get(4).map_err(|_| Failure::Row)?,
        },
        state,
    })
}

impl Replies for PostgresRuns {
    fn reply(&self, key: &ReplyKey) -> ReadFuture<'_, Option<RecordedReply>> {
        let sql =
            "select request, status, body, at from replies where tenant = $1 and endpoint = $2 and key = $3";
        let values =
            values![key.tenant.as_str().to_owned(), key.endpoint.clone(), key.key.as_bytes().to_vec()];
        self.read(sql, values, |rows| rows.first().map(reply).transpose())
    }
}

fn reply(row: &Row) -> Result<RecordedReply, Failure> {
    let status: i32 = row.try_get(1).map_err(|_| Failure::Row)?;
    Ok(RecordedReply {
        request: digest(row, 0)?,
        status: u16::try_from(status).map_err(|_| Failure::Row)?,
        body: bytes(row, 2)?,
        at: time(row, 3)?,
    })
}

impl Artifacts for PostgresRuns {
    fn artifact(&self, run_id: &RunId, artifact_id: &ArtifactId) -> ReadFuture<'_, Option<Bytes>> {
        let sql = "select document from artifacts where run_id = $1 and artifact_id = $2";
        let values = values![run_id.as_str().to_owned(), artifact_id.as_str().to_owned()];
        self.read(sql, values, |rows| rows.first().map(|row| bytes(row, 0)).transpose())
    }

    fn artifact_ids(&self, run_id: &RunId, limit: usize) -> ReadFuture<'_, Vec<ArtifactId>> {
        let sql = "select artifact_id from artifacts where run_id = $1 order by artifact_id limit $2";
        self.read(sql, values![run_id.as_str().to_owned(), at_most(limit)], |rows| {
            rows.iter().map(|row| text(row, 0, ArtifactId::new)).collect()
        })
    }
}

impl Annotations for PostgresRuns {
    fn annotations(&self, run_id: &RunId) -> ReadFuture<'_, Vec<Bytes>> {
        let sql = "select document from annotations where run_id = $1 order by place, annotation_id";
        self.read(sql, values![run_id.as_str().to_owned()], |rows| {
            rows.iter().map(|row| bytes(row, 0)).collect()
        })
    }
}

impl AuditLog for PostgresRuns {
    fn audit(&self, tenant: &Tenant, from: u64, to: u64, limit: usize) -> ReadFuture<'_, Vec<AuditEntry>> {
        let sql =
            "select sequence, previous, entry from audit where tenant = $1 and sequence between $2 and $3
                   order by sequence limit $4";
        let values = values![tenant.as_str().to_owned(), number(from), number(to), at_most(limit)];
        self.read(sql, values, |rows| {
            let entry = |row| {
                Ok(AuditEntry {
                    sequence: unsigned(row, 0)?,
                    previous: digest(row, 1)?,
                    entry: bytes(row, 2)?,
                })
            };
            rows.iter().map(entry).collect()
        })
    }

    fn audit_end(&self, tenant: &Tenant) -> ReadFuture<'_, Option<u64>> {
        let sql = "select sequence from audit where tenant = $1 order by sequence desc limit 1";
        self.read(sql, values![tenant.as_str().to_owned()], |rows| {
            rows.first().map(|row| unsigned(row, 0)).transpose()
        })
    }

    fn audit_checkpoints(
        &self,
        tenant: &Tenant,
        from: u64,
        to: u64,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(u64, Bytes)>> {
        let sql = "select at_sequence, document from audit_checkpoints
                   where tenant = $1 and at_sequence between $2 and $3 order by at_sequence limit $4";
        let values = values![tenant.as_str().to_owned(), number(from), number(to), at_most(limit)];
        self.read(sql, values, |rows| rows.iter().map(checkpoint).collect())
    }

    fn audit_checkpoint_before(
        &self,
        tenant: &Tenant,
        sequence: u64,
    ) -> ReadFuture<'_, Option<(u64, Bytes)>> {
        let sql = "select at_sequence, document from audit_checkpoints
                   where tenant = $1 and at_sequence < $2 order by at_sequence desc limit 1";
        self.read(sql, values![tenant.as_str().to_owned(), number(sequence)], |rows| {
            rows.first().map(checkpoint).transpose()
        })
    }
}

fn checkpoint(row: &Row) -> Result<(u64, Bytes), Failure> {
    Ok((unsigned(row, 0)?, bytes(row, 1)?))
}

impl ApiKeys for PostgresRuns {
    fn api_key(&self, hash: Digest) -> ReadFuture<'_, Option<Bytes>> {
        let sql = "select document from api_keys where hash = $1";
        self.read(sql, values![hash.as_bytes().to_vec()], |rows| {
            rows.first().map(|row| bytes(row, 0)).transpose()
        })
    }

    fn api_keys(&self) -> ReadFuture<'_, Vec<(Digest, Bytes)>> {
        self.read("select hash, document from api_keys order by hash", values![], |rows| {
            rows.iter().map(|row| Ok((digest(row, 0)?, bytes(row, 1)?))).collect()
        })
    }
}
