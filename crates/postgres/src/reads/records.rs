//! What belongs to runs and tenants: effects, replies, artifacts, annotations, audit logs and API keys.

use canon::digest::Digest;
use flow::id::{ArtifactId, EffectId, RunId, Tenant};
use ports::runs::{
    Annotations, ApiKeys, Artifacts, AuditEntry, AuditLog, Bytes, ClaimedEffect, Effects, ReadFuture,
    RecordedReply, Replies, ReplyKey,
};
use tokio_postgres::Row;

use super::values;
use crate::error::Failure;
use crate::row::{at_most, bytes, digest, number, text, time, unsigned};
use crate::store::PostgresRuns;

impl Effects for PostgresRuns {
    fn effect(&self, id: &EffectId) -> ReadFuture<'_, Option<ClaimedEffect>> {
        let sql = "select outcome from activities where id = $1";
        self.read(sql, values![id.as_str().to_owned()], |rows| {
            let Some(row) = rows.first() else { return Ok(None) };
            let outcome: Option<&[u8]> = row.try_get(0).map_err(|_| Failure::Row)?;
            Ok(Some(
                outcome.map_or(ClaimedEffect::Unfinished, |outcome| ClaimedEffect::Finished(outcome.into())),
            ))
        })
    }
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
