//! Databases, vectors and texts, and the servers that some of them are on.
//!
//! A contract is a set of laws over a port. Every adapter holds all of them.

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

/// A call of a surface.
pub(crate) async fn try_call(
    port: &dyn Served,
    scope: &Scope,
    op: &str,
    args: Value,
) -> Result<Value, SurfaceError> {
    let Value::Object(args) = args else { panic!("arguments are an object") };
    port.call(scope, op, args).await
}

/// A call that works.
pub(crate) async fn call(port: &dyn Served, tenant: &str, op: &str, args: Value) -> Value {
    let shown = format!("{op} {args}");
    try_call(port, &scope(tenant), op, args).await.unwrap_or_else(|error| panic!("{shown}: {error:?}"))
}

/// A call that is refused.
pub(crate) async fn refused(port: &dyn Served, tenant: &str, op: &str, args: Value) -> SurfaceError {
    let shown = format!("{op} {args}");
    match try_call(port, &scope(tenant), op, args).await {
        Ok(told) => panic!("{shown}: {told}"),
        Err(error) => error,
    }
}

/// The code of a refusal.
pub(crate) async fn code(port: &dyn Served, tenant: &str, op: &str, args: Value) -> Code {
    refused(port, tenant, op, args).await.code
}

/// Runs every law against a port that `open` makes. What `open` returns beside the port is kept until the end.
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
