//! Connections for reads. Several queries may be under way on one: PostgreSQL answers them in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Mutex;

use crate::connection::{Connection, Connector};
use crate::error::Failure;

pub(crate) struct Readers {
    connector: Connector,
    slots: Vec<Slot>,
}

#[derive(Default)]
struct Slot {
    connection: Mutex<Option<Arc<Connection>>>,
    /// How many queries are under way.
    queries: AtomicUsize,
}

/// A connection for one query.
pub(crate) struct Lease<'r> {
    pub(crate) connection: Arc<Connection>,
    queries: &'r AtomicUsize,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.queries.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Readers {
    pub(crate) fn new(connector: Connector, connections: usize) -> Self {
        Self { connector, slots: (0..connections.max(1)).map(|_| Slot::default()).collect() }
    }

    /// The connection with the fewest queries. It is made if it is missing or was lost.
    pub(crate) async fn get(&self) -> Result<Lease<'_>, Failure> {
        let slot = self.slots.iter().min_by_key(|slot| slot.queries.load(Ordering::Relaxed));
        let slot = slot.ok_or(Failure::Lost)?;
        let mut connection = slot.connection.lock().await;
        let connection = match &*connection {
            Some(open) if !open.is_closed() => Arc::clone(open),
            Some(_) | None => {
                let open = Arc::new(self.connector.connect().await?);
                *connection = Some(Arc::clone(&open));
                open
            }
        };
        slot.queries.fetch_add(1, Ordering::Relaxed);
        Ok(Lease { connection, queries: &slot.queries })
    }
}
