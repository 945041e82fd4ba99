//! The row of this process in `hosts`: it shows that the process is alive, and deleting it fences the process.
//!
//! All times are those of the database, so the clocks of hosts need not agree.

use std::time::Duration;

use crate::connection::Connection;
use crate::error::{Failure, OpenError};

/// How often a host shows that it is alive.
pub(crate) const BEAT: Duration = Duration::from_secs(2);
/// How long a host that waits for the end of another sleeps between looks.
const LOOK: Duration = Duration::from_millis(500);

/// What a process does with the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Executes runs. One process at a time.
    Host,
    /// A command that reads or changes something beside the host, such as the creation of a key.
    Command,
}

/// How a process is registered.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) id: String,
    pub(crate) name: String,
    role: Role,
}

impl Host {
    pub(crate) fn new(name: &str, role: Role) -> Result<Self, OpenError> {
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random).map_err(|error| OpenError::Entropy(error.to_string()))?;
        let id = random.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Ok(Self { id: format!("host_{id}"), name: name.to_owned(), role })
    }

    /// Registers the process. If it is to be the host and another one is registered, waits until its row is too old, which means that it is dead, or until it
    /// shows that it is alive.
    ///
    /// # Errors
    /// Another host is alive, or the database cannot be used.
    pub(crate) async fn register(&self, connection: &Connection) -> Result<(), OpenError> {
        let mut seen: Option<(String, String)> = None;
        loop {
            connection.run("begin").await?;
            let registered = self.try_register(connection).await;
            connection.run(if registered.is_ok() { "commit" } else { "rollback" }).await?;
            let Some(other) = registered? else { return Ok(()) };
            let beat = (other.id.clone(), other.beat_at.clone());
            match &seen {
                Some((id, beat_at)) if (id, beat_at) != (&other.id, &other.beat_at) => {
                    return Err(OpenError::HostAlive { name: other.name, version: other.version });
                }
                Some(_) => {}
                None => {
                    tracing::info!(
                        host = other.name,
                        "waiting until the previous host of the database is known to be dead"
                    );
                    seen = Some(beat);
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn try_register(&self, connection: &Connection) -> Result<Option<Other>, OpenError> {
        // One host at a time looks and registers.
        connection.execute("select 1 from meta where name = 'hosts' for update", &[]).await?;
        // Waits for a batch that is under way; later ones of that host find no row and are refused.
        let sql = "delete from hosts where beat_at < clock_timestamp() - interval '10 seconds'";
        connection.execute(sql, &[]).await?;
        let sql = "select host_id, name, version, beat_at::text from hosts where is_serving order by host_id limit 1";
        if self.role == Role::Host
            && let Some(row) = connection.first(sql, &[]).await?
        {
            let text = |column| row.try_get(column).map_err(|_| Failure::Row);
            return Ok(Some(Other { id: text(0)?, name: text(1)?, version: text(2)?, beat_at: text(3)? }));
        }
        let sql =
            "delete from batches b where not exists (select 1 from hosts h where h.host_id = b.host_id)";
        connection.execute(sql, &[]).await?;
        let sql = "insert into hosts (host_id, name, version, is_serving, started_at, beat_at)
                   values ($1, $2, $3, $4, clock_timestamp(), clock_timestamp())";
        let is_serving = self.role == Role::Host;
        connection.execute(sql, &[&self.id, &self.name, &env!("CARGO_PKG_VERSION"), &is_serving]).await?;
        Ok(None)
    }

    /// Shows that the host is alive, and deletes the numbers of batches that are no longer looked up.
    ///
    /// # Errors
    /// [`Failure::Fenced`] if the row is gone.
    pub(crate) async fn beat(&self, connection: &Connection, oldest_batch: i64) -> Result<(), Failure> {
        let sql = "update hosts set beat_at = clock_timestamp() where host_id = $1";
        if connection.execute(sql, &[&self.id]).await? == 0 {
            return Err(Failure::Fenced);
        }
        let sql = "delete from batches where host_id = $1 and number < $2";
        connection.execute(sql, &[&self.id, &oldest_batch]).await?;
        Ok(())
    }

    /// Removes the row, so that the next host need not wait.
    pub(crate) async fn deregister(&self, connection: &Connection) -> Result<(), Failure> {
        connection.execute("delete from hosts where host_id = $1", &[&self.id]).await?;
        Ok(())
    }
}

struct Other {
    id: String,
    name: String,
    version: String,
    beat_at: String,
}
