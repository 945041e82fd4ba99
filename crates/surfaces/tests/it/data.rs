//! Databases, vectors and search, with real servers for some adapters.
//!
//! A contract is a set of tests over a port. Every adapter passes all of them.

mod hammer;
mod nats;
mod postgres;
mod search;
mod servers;
mod sql;
mod sqlite;
mod vectors;

use serde_json::Value;
use surfaces::{Code, Scope, Served, SurfaceError};

use crate::helper::scope;

/// Calls a surface.
pub(crate) async fn try_call(
    port: &dyn Served,
    scope: &Scope,
    op: &str,
    args: Value,
) -> Result<Value, SurfaceError> {
    let Value::Object(args) = args else { panic!("arguments are an object") };
    port.call(scope, op, args).await
}

/// A call that succeeds.
pub(crate) async fn call(port: &dyn Served, tenant: &str, op: &str, args: Value) -> Value {
    let shown = format!("{op} {args}");
    try_call(port, &scope(tenant), op, args).await.unwrap_or_else(|error| panic!("{shown}: {error:?}"))
}

/// A call that fails.
pub(crate) async fn refused(port: &dyn Served, tenant: &str, op: &str, args: Value) -> SurfaceError {
    let shown = format!("{op} {args}");
    match try_call(port, &scope(tenant), op, args).await {
        Ok(result) => panic!("{shown}: {result}"),
        Err(error) => error,
    }
}

/// The error code of a call.
pub(crate) async fn code(port: &dyn Served, tenant: &str, op: &str, args: Value) -> Code {
    refused(port, tenant, op, args).await.code
}

/// Runs every test on a port from `open`. The second value that `open` returns is kept alive until the end.
macro_rules! hold {
    ($laws:path, $open:expr, [$($law:ident),+ $(,)?]) => {
        $(
            #[tokio::test]
            async fn $law() {
                let Some((port, _kept)) = $open.await else { return };
                use $laws as laws;
                laws::$law(&port).await;
            }
        )+
    };
}
pub(crate) use hold;
