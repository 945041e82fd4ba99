//! The stores on a real PostgreSQL.
#![expect(clippy::unwrap_used, reason = "a failure fails the test")]

mod contract;
mod faults;
mod hosts;
mod proxy;
mod schema;
#[path = "../../../surfaces/tests/it/data/servers.rs"]
#[expect(dead_code, reason = "tests of other crates start other servers with it")]
mod servers;
mod sessions;
mod statements;

use std::sync::LazyLock;
use std::time::Duration;

use postgres::{Options, PostgresRuns};
use tokio::runtime::Runtime;

/// The runtime of the stores. The contract is checked by threads that may block.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// The URL of a database with all tables. `None` if PostgreSQL is not installed.
async fn database() -> Option<String> {
    let url = servers::postgres().await?;
    postgres::schema::init(&url).await.unwrap();
    Some(url)
}

fn options(url: &str) -> Options {
    Options { patience: Duration::from_secs(2), ..Options::new(url, "test") }
}

async fn open(url: &str) -> PostgresRuns {
    PostgresRuns::open(&options(url)).await.unwrap()
}

/// A connection that is not part of the store.
async fn admin(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("set search_path = interlock").await.unwrap();
    client
}
