//! Triggers: active listeners, and read positions of streams.

use flow::id::{Tenant, WorkflowId};
use ports::runs::{Listeners, ReadFuture};
use rusqlite::{Connection, Result};

use crate::sqlite::SqliteRuns;
use crate::sqlite::query::{at_most, many, one, tenant_and_workflow};

impl Listeners for SqliteRuns {
    fn listening(
        &self,
        after: Option<(&Tenant, &WorkflowId)>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(Tenant, WorkflowId)>> {
        let after = after.map(|(tenant, workflow_id)| (tenant.clone(), workflow_id.clone()));
        self.read(move |connection| listening(connection, after.as_ref(), limit))
    }

    fn listener_position(
        &self,
        tenant: &Tenant,
        workflow_id: &WorkflowId,
        consumer: &str,
    ) -> ReadFuture<'_, Option<String>> {
        let (tenant, workflow_id, consumer) = (tenant.clone(), workflow_id.clone(), consumer.to_owned());
        self.read(move |connection| listener_position(connection, &tenant, &workflow_id, &consumer))
    }
}

fn listening(
    connection: &Connection,
    after: Option<&(Tenant, WorkflowId)>,
    limit: usize,
) -> Result<Vec<(Tenant, WorkflowId)>> {
    let sql = "SELECT tenant, workflow_id FROM listening WHERE (tenant, workflow_id) > (?1, ?2)
               ORDER BY tenant, workflow_id LIMIT ?3";
    // Names are never empty, so all of them sort after the empty string.
    let (tenant, workflow_id) =
        after.map_or(("", ""), |(tenant, workflow_id)| (tenant.as_str(), workflow_id.as_str()));
    many(connection, sql, &[&tenant, &workflow_id, &at_most(limit)], tenant_and_workflow)
}

fn listener_position(
    connection: &Connection,
    tenant: &Tenant,
    workflow_id: &WorkflowId,
    consumer: &str,
) -> Result<Option<String>> {
    let sql = "SELECT place FROM listener_places WHERE tenant = ?1 AND workflow_id = ?2 AND consumer = ?3";
    one(connection, sql, &[&tenant.as_str(), &workflow_id.as_str(), &consumer], |row| row.get(0))
}
