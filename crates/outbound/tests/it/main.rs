//! The client with real local servers.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod limits;
mod pool;
mod reach;
mod server;

use std::error::Error;
use std::time::Duration;

use http::Method;
use outbound::{Call, CallError, Client, Limits, Reply};

/// More than any of these calls needs.
const LIMITS: Limits =
    Limits { head: Duration::from_secs(60), whole: Some(Duration::from_secs(60)), body: 1 << 20 };

async fn send(client: &Client, method: Method, url: &str, limits: Limits) -> Result<Reply, CallError> {
    let target = client.check(url)?;
    client
        .send(Call { method, target: &target, headers: &[("x-test", "1")], body: "{}".into(), limits })
        .await
}

/// Posts and reads the whole reply.
async fn post(client: &Client, url: &str) -> Result<Vec<u8>, CallError> {
    send(client, Method::POST, url, LIMITS).await?.bytes().await
}

/// The error and all its sources.
fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut chain = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        chain.push(error.to_string());
        next = error.source();
    }
    chain
}
