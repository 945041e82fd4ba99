//! The queries, by subject. Each is one statement.

mod definitions;
mod lists;
mod log;
mod records;
mod webhooks;

use tokio_postgres::types::ToSql;

/// The values of a query.
type Values = Vec<Box<dyn ToSql + Sync + Send>>;

/// The values of a query, from expressions.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as Box<dyn tokio_postgres::types::ToSql + Sync + Send>),*]
    };
}
use values;
