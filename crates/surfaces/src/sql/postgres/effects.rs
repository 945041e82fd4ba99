//! Effect ids in the database of the change.

use deadpool_postgres::{Client, Transaction};
use tokio_postgres::Error;

use crate::args::refuse;
use crate::call::Scope;
use crate::embedded::RETENTION_MS;
use crate::error::{Code, SurfaceError};
use crate::sql::StatementResult;

/// An arbitrary key, so that two hosts that start together create the table one after the other.
const LOCK: i64 = 0x0069_6e74_6572_6c6b;

/// Creates the table if it does not exist.
pub(super) async fn make_table(client: &mut Client) -> Result<(), Error> {
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    transaction
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS interlock_effects (
                 tenant text NOT NULL,
                 id text NOT NULL,
                 op text NOT NULL,
                 at bigint NOT NULL,
                 answer text,
                 PRIMARY KEY (tenant, id)
             );
             CREATE INDEX IF NOT EXISTS interlock_effects_by_moment ON interlock_effects (at)",
        )
        .await?;
    transaction.commit().await
}

/// Claims the effect id for this transaction, or returns its stored result. A concurrent transaction waits here until
/// the first ends.
pub(super) async fn claim(
    transaction: &Transaction<'_>,
    scope: &Scope,
    effect: &str,
    op: &str,
) -> Result<Option<Result<Vec<StatementResult>, SurfaceError>>, Error> {
    let tenant = scope.tenant.as_str();
    let taken = transaction
        .execute(
            "INSERT INTO interlock_effects (tenant, id, op, at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
            &[&tenant, &effect, &op, &scope.at()],
        )
        .await?;
    if taken == 1 {
        return Ok(None);
    }
    let row = transaction
        .query_one(
            "SELECT op, answer FROM interlock_effects WHERE tenant = $1 AND id = $2",
            &[&tenant, &effect],
        )
        .await?;
    let (by, answer): (String, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    if by != op {
        let message = format!("effect id `{effect}` was already used by {by}; use a different id for {op}");
        return Ok(Some(Err(refuse(message))));
    }
    let stored = answer.and_then(|answer| serde_json::from_str(&answer).ok());
    Ok(Some(stored.ok_or_else(|| {
        SurfaceError::new(
            Code::SurfaceUnavailable,
            format!("the stored result of effect `{effect}` is unreadable"),
        )
    })))
}

/// Stores the result and removes some expired ids.
pub(super) async fn keep(
    transaction: &Transaction<'_>,
    scope: &Scope,
    effect: &str,
    outcomes: &[StatementResult],
) -> Result<(), Error> {
    let answer = serde_json::to_string(outcomes).unwrap_or_default();
    let tenant = scope.tenant.as_str();
    transaction
        .execute(
            "UPDATE interlock_effects SET answer = $3 WHERE tenant = $1 AND id = $2",
            &[&tenant, &effect, &answer],
        )
        .await?;
    let old = scope.at().saturating_sub(i64::try_from(RETENTION_MS).unwrap_or(i64::MAX));
    transaction
        .execute(
            "DELETE FROM interlock_effects WHERE ctid IN
                 (SELECT ctid FROM interlock_effects WHERE at < $1 LIMIT 256 FOR UPDATE SKIP LOCKED)",
            &[&old],
        )
        .await?;
    Ok(())
}
