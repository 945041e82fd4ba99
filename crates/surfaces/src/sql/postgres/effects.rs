//! The identities of effects, in the database of the change.

use deadpool_postgres::{Client, Transaction};
use tokio_postgres::Error;

use crate::args::refuse;
use crate::call::Scope;
use crate::embedded::RETENTION_MS;
use crate::error::{Code, SurfaceError};
use crate::sql::Outcome;

/// A number that is only ours, so that two hosts that start at once make the table one after the other.
const LOCK: i64 = 0x0069_6e74_6572_6c6b;

/// Makes the table where it is missing.
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

/// Takes the identity for this transaction, or says what was answered under it. Whoever comes second waits here until the first has ended.
pub(super) async fn claim(
    transaction: &Transaction<'_>,
    scope: &Scope,
    effect: &str,
    op: &str,
) -> Result<Option<Result<Vec<Outcome>, SurfaceError>>, Error> {
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
        let message = format!(
            "the effect `{effect}` was made by {by}, and {op} cannot have it too; use another identity"
        );
        return Ok(Some(Err(refuse(message))));
    }
    let stored = answer.and_then(|answer| serde_json::from_str(&answer).ok());
    Ok(Some(stored.ok_or_else(|| {
        SurfaceError::new(
            Code::SurfaceUnavailable,
            format!("the answer stored for the effect `{effect}` cannot be read"),
        )
    })))
}

/// Keeps the outcome under the identity, and forgets some that are old.
pub(super) async fn keep(
    transaction: &Transaction<'_>,
    scope: &Scope,
    effect: &str,
    outcomes: &[Outcome],
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
