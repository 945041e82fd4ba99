//! The audit log. Checkpoints are in the table `checkpoints`.

use flow::id::Tenant;
use ports::runs::{AuditEntry, AuditLog, Bytes, ReadFuture};
use rusqlite::{Connection, Result};

use crate::sqlite::SqliteRuns;
use crate::sqlite::audit::digest;
use crate::sqlite::query::{at_most, bytes, many, one};

impl AuditLog for SqliteRuns {
    fn audit(&self, tenant: &Tenant, from: u64, to: u64, limit: usize) -> ReadFuture<'_, Vec<AuditEntry>> {
        let tenant = tenant.clone();
        self.read(move |connection| audit(connection, &tenant, from, to, limit))
    }

    fn audit_end(&self, tenant: &Tenant) -> ReadFuture<'_, Option<u64>> {
        let tenant = tenant.clone();
        self.read(move |connection| audit_end(connection, &tenant))
    }

    fn audit_checkpoints(
        &self,
        tenant: &Tenant,
        from: u64,
        to: u64,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(u64, Bytes)>> {
        let tenant = tenant.clone();
        self.read(move |connection| checkpoints(connection, &tenant, from, to, limit))
    }

    fn audit_checkpoint_before(
        &self,
        tenant: &Tenant,
        sequence: u64,
    ) -> ReadFuture<'_, Option<(u64, Bytes)>> {
        let tenant = tenant.clone();
        self.read(move |connection| checkpoint_before(connection, &tenant, sequence))
    }
}

fn audit(
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

pub(in crate::sqlite) fn audit_end(connection: &Connection, tenant: &Tenant) -> Result<Option<u64>> {
    let sql = "SELECT sequence FROM audit WHERE tenant = ?1 ORDER BY sequence DESC LIMIT 1";
    one(connection, sql, &[&tenant.as_str()], |row| row.get(0))
}

fn checkpoints(
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

pub(in crate::sqlite) fn checkpoint_before(
    connection: &Connection,
    tenant: &Tenant,
    sequence: u64,
) -> Result<Option<(u64, Bytes)>> {
    let sql = "SELECT at_sequence, document FROM checkpoints
               WHERE tenant = ?1 AND at_sequence < ?2 ORDER BY at_sequence DESC LIMIT 1";
    let sequence = sequence.min(i64::MAX.unsigned_abs());
    one(connection, sql, &[&tenant.as_str(), &sequence], |row| Ok((row.get(0)?, bytes(row, 1)?)))
}
