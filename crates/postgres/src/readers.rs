//! Connections for reads. Several queries may be under way on one: PostgreSQL answers them in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::Mutex;
use tokio_postgres::Row;

use crate::connection::{Connection, Connector, Value};
use crate::error::Failure;

pub(crate) struct Readers {
    connector: Connector,
    slots: Vec<Slot>,
}

#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    /// How many queries are under way or wait for the connection.
    queries: AtomicUsize,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// When the last attempt to connect failed, and why.
    failed: Option<(Instant, Failure)>,
}

/// A connection for one query.
pub(crate) struct Lease<'r> {
    pub(crate) connection: Arc<Connection>,
    _counted: Counted<'r>,
}

/// Counts a query until it is dropped.
struct Counted<'r>(&'r AtomicUsize);

impl<'r> Counted<'r> {
    fn new(queries: &'r AtomicUsize) -> Self {
        queries.fetch_add(1, Ordering::Relaxed);
        Self(queries)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Readers {
    pub(crate) fn new(connector: Connector, connections: usize) -> Self {
        Self { connector, slots: (0..connections.max(1)).map(|_| Slot::default()).collect() }
    }

    /// The connection with the fewest queries. It is made if it is missing or was lost; queries that wait for an attempt that
    /// fails all fail with it.
    pub(crate) async fn get(&self) -> Result<Lease<'_>, Failure> {
        let slot = self.slots.iter().min_by_key(|slot| slot.queries.load(Ordering::Relaxed));
        let slot = slot.ok_or(Failure::Lost)?;
        let counted = Counted::new(&slot.queries);
        let asked = Instant::now();
        let mut state = slot.state.lock().await;
        let connection = match &*state {
            State { connection: Some(open), .. } if !open.is_closed() => Arc::clone(open),
            State { failed: Some((at, failure)), .. } if *at >= asked => return Err(failure.clone()),
            State { .. } => {
                let connected = self.connector.connect().await;
                let open = Arc::new(connected.inspect_err(|failure| {
                    state.failed = Some((Instant::now(), failure.clone()));
                })?);
                state.connection = Some(Arc::clone(&open));
                open
            }
        };
        Ok(Lease { connection, _counted: counted })
    }
}

/// Executes a query. It is repeated once if the connection was lost, because the server may have closed an idle one.
pub(crate) async fn query(readers: &Readers, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Failure> {
    let lease = readers.get().await?;
    match lease.connection.query(sql, values).await {
        Err(failure) if lease.connection.is_closed() => {
            drop(lease);
            let again = readers.get().await.map_err(|_| failure)?;
            again.connection.query(sql, values).await
        }
        result => result,
    }
}
