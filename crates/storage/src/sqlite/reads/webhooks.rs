//! Webhook subscriptions and their deliveries. Abandoned deliveries are in the table `buried_deliveries`.

use canon::time::Timestamp;
use flow::id::{SubscriptionId, Tenant};
use ports::runs::{Bytes, Delivery, ReadFuture, Webhooks};
use rusqlite::{Connection, Result, Row};

use crate::sqlite::SqliteRuns;
use crate::sqlite::query::{at_most, bytes, id, many, one};

impl Webhooks for SqliteRuns {
    fn webhooks(&self, tenant: &Tenant) -> ReadFuture<'_, Vec<(SubscriptionId, Bytes)>> {
        let tenant = tenant.clone();
        self.read(move |connection| webhooks(connection, &tenant))
    }

    fn webhook(&self, webhook_id: &SubscriptionId) -> ReadFuture<'_, Option<(Tenant, Bytes)>> {
        let webhook_id = webhook_id.clone();
        self.read(move |connection| webhook(connection, &webhook_id))
    }

    fn due_deliveries(&self, at: Timestamp, limit: usize) -> ReadFuture<'_, Vec<Delivery>> {
        self.read(move |connection| due_deliveries(connection, at, limit))
    }

    fn next_delivery(&self) -> ReadFuture<'_, Option<Timestamp>> {
        self.read(next_delivery)
    }

    fn abandoned_deliveries(
        &self,
        webhook_id: &SubscriptionId,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(Delivery, String)>> {
        let webhook_id = webhook_id.clone();
        self.read(move |connection| abandoned_deliveries(connection, &webhook_id, limit))
    }
}

fn webhooks(connection: &Connection, tenant: &Tenant) -> Result<Vec<(SubscriptionId, Bytes)>> {
    let sql = "SELECT webhook_id, document FROM webhooks WHERE tenant = ?1 ORDER BY webhook_id";
    many(connection, sql, &[&tenant.as_str()], |row| Ok((id(row, 0, SubscriptionId::new)?, bytes(row, 1)?)))
}

fn webhook(connection: &Connection, webhook_id: &SubscriptionId) -> Result<Option<(Tenant, Bytes)>> {
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

fn due_deliveries(connection: &Connection, at: Timestamp, limit: usize) -> Result<Vec<Delivery>> {
    let sql = "SELECT delivery_id, webhook_id, due, attempts, body FROM deliveries WHERE due <= ?1 ORDER BY due LIMIT ?2";
    many(connection, sql, &[&at.0, &at_most(limit)], delivery)
}

fn next_delivery(connection: &Connection) -> Result<Option<Timestamp>> {
    let sql = "SELECT due FROM deliveries ORDER BY due LIMIT 1";
    one(connection, sql, &[], |row| Ok(Timestamp(row.get(0)?)))
}

fn abandoned_deliveries(
    connection: &Connection,
    webhook_id: &SubscriptionId,
    limit: usize,
) -> Result<Vec<(Delivery, String)>> {
    let sql = "SELECT delivery_id, webhook_id, buried_at, attempts, body, reason FROM buried_deliveries
               WHERE webhook_id = ?1 ORDER BY place DESC LIMIT ?2";
    many(connection, sql, &[&webhook_id.as_str(), &at_most(limit)], |row| Ok((delivery(row)?, row.get(5)?)))
}
