//! Workflow definitions and triggers.

use canon::digest::Digest;
use flow::id::{Tenant, WorkflowId};
use ports::runs::{Bytes, Definitions, Listeners, ReadFuture};
use tokio_postgres::Row;

use super::values;
use crate::error::Failure;
use crate::row::{at_most, bytes, digest, text};
use crate::store::PostgresRuns;

/// A position in a list by tenant and workflow. No id is empty, so all of them come after nothing.
fn after(after: Option<(&Tenant, &WorkflowId)>) -> (String, String) {
    after.map_or_else(Default::default, |(tenant, workflow_id)| {
        (tenant.as_str().to_owned(), workflow_id.as_str().to_owned())
    })
}

fn workflows(rows: &[Row]) -> Result<Vec<(Tenant, WorkflowId)>, Failure> {
    rows.iter().map(|row| Ok((text(row, 0, Tenant::new)?, text(row, 1, WorkflowId::new)?))).collect()
}

impl Definitions for PostgresRuns {
    fn definition(
        &self,
        tenant: &Tenant,
        workflow_id: &WorkflowId,
    ) -> ReadFuture<'_, Option<(Digest, Bytes)>> {
        let sql = "select d.digest, d.document from workflows w join definitions d on d.digest = w.digest
                   where w.tenant = $1 and w.workflow_id = $2";
        let values = values![tenant.as_str().to_owned(), workflow_id.as_str().to_owned()];
        self.read(sql, values, |rows| {
            rows.first().map(|row| Ok((digest(row, 0)?, bytes(row, 1)?))).transpose()
        })
    }

    fn definition_by_digest(&self, digest: Digest) -> ReadFuture<'_, Option<Bytes>> {
        let sql = "select document from definitions where digest = $1";
        self.read(sql, values![digest.as_bytes().to_vec()], |rows| {
            rows.first().map(|row| bytes(row, 0)).transpose()
        })
    }

    fn definitions(
        &self,
        tenant: &Tenant,
        after: Option<&WorkflowId>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(WorkflowId, Digest)>> {
        let sql = "select workflow_id, digest from workflows where tenant = $1 and workflow_id > $2
                   order by workflow_id limit $3";
        let after = after.map_or("", WorkflowId::as_str).to_owned();
        self.read(sql, values![tenant.as_str().to_owned(), after, at_most(limit)], |rows| {
            rows.iter().map(|row| Ok((text(row, 0, WorkflowId::new)?, digest(row, 1)?))).collect()
        })
    }

    fn workflows_containing(
        &self,
        texts: [&str; 2],
        from: Option<(&Tenant, &WorkflowId)>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(Tenant, WorkflowId)>> {
        let sql = "select w.tenant, w.workflow_id from workflows w join definitions d on d.digest = w.digest
                   where (w.tenant, w.workflow_id) > ($1, $2)
                       and (position($3::bytea in d.document) > 0 or position($4::bytea in d.document) > 0)
                   order by w.tenant, w.workflow_id limit $5";
        let (tenant, workflow_id) = after(from);
        let [first, second] = texts.map(|text| text.as_bytes().to_vec());
        self.read(sql, values![tenant, workflow_id, first, second, at_most(limit)], workflows)
    }
}

impl Listeners for PostgresRuns {
    fn listening(
        &self,
        from: Option<(&Tenant, &WorkflowId)>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(Tenant, WorkflowId)>> {
        let sql = "select tenant, workflow_id from listeners where (tenant, workflow_id) > ($1, $2)
                   order by tenant, workflow_id limit $3";
        let (tenant, workflow_id) = after(from);
        self.read(sql, values![tenant, workflow_id, at_most(limit)], workflows)
    }

    fn listener_position(
        &self,
        tenant: &Tenant,
        workflow_id: &WorkflowId,
        consumer: &str,
    ) -> ReadFuture<'_, Option<String>> {
        let sql = "select position from listener_positions where tenant = $1 and workflow_id = $2 and consumer = $3";
        let values =
            values![tenant.as_str().to_owned(), workflow_id.as_str().to_owned(), consumer.to_owned()];
        self.read(sql, values, |rows| rows.first().map(|row| text(row, 0, str::to_owned)).transpose())
    }
}
