//! Workflow definitions.

use canon::digest::Digest;
use flow::id::{Tenant, WorkflowId};
use ports::runs::{Bytes, Definitions, ReadFuture};
use rusqlite::{Connection, Result};

use crate::sqlite::SqliteRuns;
use crate::sqlite::audit::digest;
use crate::sqlite::query::{at_most, bytes, id, many, one, tenant_and_workflow};

impl Definitions for SqliteRuns {
    fn definition(
        &self,
        tenant: &Tenant,
        workflow_id: &WorkflowId,
    ) -> ReadFuture<'_, Option<(Digest, Bytes)>> {
        let (tenant, workflow_id) = (tenant.clone(), workflow_id.clone());
        self.read(move |connection| definition(connection, &tenant, &workflow_id))
    }

    fn definition_by_digest(&self, digest: Digest) -> ReadFuture<'_, Option<Bytes>> {
        self.read(move |connection| definition_by_digest(connection, digest))
    }

    fn definitions(
        &self,
        tenant: &Tenant,
        after: Option<&WorkflowId>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(WorkflowId, Digest)>> {
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.read(move |connection| definitions(connection, &tenant, after.as_ref(), limit))
    }

    fn workflows_containing(
        &self,
        texts: [&str; 2],
        after: Option<(&Tenant, &WorkflowId)>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(Tenant, WorkflowId)>> {
        let texts = texts.map(str::to_owned);
        let after = after.map(|(tenant, workflow_id)| (tenant.clone(), workflow_id.clone()));
        self.read(move |connection| workflows_containing(connection, &texts, after.as_ref(), limit))
    }
}

fn definition(
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

fn definition_by_digest(connection: &Connection, digest: Digest) -> Result<Option<Bytes>> {
    let sql = "SELECT document FROM definitions WHERE digest = ?1";
    one(connection, sql, &[&digest.to_hex().as_bytes()], |row| bytes(row, 0))
}

fn definitions(
    connection: &Connection,
    tenant: &Tenant,
    after: Option<&WorkflowId>,
    limit: usize,
) -> Result<Vec<(WorkflowId, Digest)>> {
    let sql = "SELECT workflow_id, digest FROM workflows WHERE tenant = ?1 AND workflow_id > ?2
               ORDER BY workflow_id LIMIT ?3";
    // Ids are never empty, so all of them sort after the empty string.
    let (tenant, after) = (tenant.as_str(), after.map_or("", WorkflowId::as_str));
    many(connection, sql, &[&tenant, &after, &at_most(limit)], |row| {
        Ok((id(row, 0, WorkflowId::new)?, digest(&row.get::<_, Vec<u8>>(1)?)))
    })
}

fn workflows_containing(
    connection: &Connection,
    texts: &[String; 2],
    after: Option<&(Tenant, WorkflowId)>,
    limit: usize,
) -> Result<Vec<(Tenant, WorkflowId)>> {
    // Both sides are blobs, so bytes are compared and no document is decoded.
    let sql = "SELECT tenant, workflow_id FROM workflows JOIN definitions USING (digest)
               WHERE (tenant, workflow_id) > (?1, ?2)
                 AND (instr(document, CAST(?3 AS BLOB)) > 0 OR instr(document, CAST(?4 AS BLOB)) > 0)
               ORDER BY tenant, workflow_id LIMIT ?5";
    let (tenant, workflow_id) =
        after.map_or(("", ""), |(tenant, workflow_id)| (tenant.as_str(), workflow_id.as_str()));
    let [first, second] = texts;
    many(connection, sql, &[&tenant, &workflow_id, &first, &second, &at_most(limit)], tenant_and_workflow)
}
