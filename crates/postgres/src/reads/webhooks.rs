//! Webhook subscriptions and their deliveries.

use canon::time::Timestamp;
use flow::id::{SubscriptionId, Tenant};
use ports::runs::{Bytes, Delivery, ReadFuture, Webhooks};
use tokio_postgres::Row;

use super::values;
use crate::error::Failure;
use crate::row::{at_most, bytes, number, text, time};
use crate::store::PostgresRuns;

impl Webhooks for PostgresRuns {
    fn webhooks(&self, tenant: &Tenant) -> ReadFuture<'_, Vec<(SubscriptionId, Bytes)>> {
        let sql = "select webhook_id, document from webhooks where tenant = $1 order by webhook_id";
        self.read(sql, values![tenant.as_str().to_owned()], |rows| {
            rows.iter().map(|row| Ok((text(row, 0, SubscriptionId::new)?, bytes(row, 1)?))).collect()
        })
    }

    fn webhook(&self, webhook_id: &SubscriptionId) -> ReadFuture<'_, Option<(Tenant, Bytes)>> {
        let sql = "select tenant, document from webhooks where webhook_id = $1";
        self.read(sql, values![webhook_id.as_str().to_owned()], |rows| {
            rows.first().map(|row| Ok((text(row, 0, Tenant::new)?, bytes(row, 1)?))).transpose()
        })
    }

    fn due_deliveries(&self, at: Timestamp, limit: usize) -> ReadFuture<'_, Vec<Delivery>> {
        let sql = "select delivery_id, webhook_id, due, attempts, body from deliveries where due <= $1
                   order by due, place limit $2";
        self.read(sql, values![number(at.0), at_most(limit)], |rows| rows.iter().map(delivery).collect())
    }

    fn next_delivery(&self) -> ReadFuture<'_, Option<Timestamp>> {
        self.read("select due from deliveries order by due, place limit 1", values![], |rows| {
            rows.first().map(|row| time(row, 0)).transpose()
        })
    }

    fn abandoned_deliveries(
        &self,
        webhook_id: &SubscriptionId,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(Delivery, String)>> {
        let sql =
            "select delivery_id, webhook_id, abandoned_at, attempts, body, reason from abandoned_deliveries
                   where webhook_id = $1 order by place desc limit $2";
        self.read(sql, values![webhook_id.as_str().to_owned(), at_most(limit)], |rows| {
            rows.iter().map(|row| Ok((delivery(row)?, text(row, 5, str::to_owned)?))).collect()
        })
    }
}

fn delivery(row: &Row) -> Result<Delivery, Failure> {
    let attempts: i64 = row.try_get(3).map_err(|_| Failure::Row)?;
    Ok(Delivery {
        delivery_id: text(row, 0, str::to_owned)?,
        webhook_id: text(row, 1, SubscriptionId::new)?,
        due: time(row, 2)?,
        attempts: u32::try_from(attempts).map_err(|_| Failure::Row)?,
        body: bytes(row, 4)?,
    })
}
