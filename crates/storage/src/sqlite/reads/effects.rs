//! Effects, in the table `activities`.

use canon::time::Timestamp;
use flow::id::{EffectId, NodeId, RunId};
use ports::runs::{
    AttemptPosition, AttemptState, ClaimedEffect, Effects, Reached, ReadFuture, StoredAttempt,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result, Row};

use crate::sqlite::SqliteRuns;
use crate::sqlite::query::{at_most, bytes, id, many, one};

impl Effects for SqliteRuns {
    fn effect(&self, id: &EffectId) -> ReadFuture<'_, Option<ClaimedEffect>> {
        let id = id.clone();
        self.read(move |connection| effect(connection, &id))
    }

    fn attempts(
        &self,
        run_id: &RunId,
        after: Option<&AttemptPosition>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<StoredAttempt>> {
        let (run_id, after) = (run_id.clone(), after.cloned());
        self.read(move |connection| attempts(connection, &run_id, after.as_ref(), limit))
    }
}

pub(in crate::sqlite) fn effect(connection: &Connection, id: &EffectId) -> Result<Option<ClaimedEffect>> {
    let sql = "SELECT outcome, attempt FROM activities WHERE id = ?1 ORDER BY attempt DESC LIMIT 1";
    one(connection, sql, &[&id.as_str()], |row| match row.get_ref(0)? {
        ValueRef::Null => Ok(ClaimedEffect::Unfinished { attempt: row.get(1)? }),
        _ => bytes(row, 0).map(ClaimedEffect::Finished),
    })
}

pub(in crate::sqlite) fn attempts(
    connection: &Connection,
    run_id: &RunId,
    after: Option<&AttemptPosition>,
    limit: usize,
) -> Result<Vec<StoredAttempt>> {
    const COLUMNS: &str =
        "SELECT at, id, attempt, node_id, provider_key, outcome IS NOT NULL, released FROM activities";
    const ORDER: &str = "ORDER BY at, id, attempt LIMIT";
    let (run_id, limit) = (run_id.as_str(), at_most(limit));
    match after {
        None => {
            let sql = format!("{COLUMNS} WHERE run_id = ?1 AND node_id IS NOT NULL {ORDER} ?2");
            many(connection, &sql, &[&run_id, &limit], attempt)
        }
        Some(AttemptPosition { at, id, attempt: number }) => {
            let sql = format!(
                "{COLUMNS} WHERE run_id = ?1 AND node_id IS NOT NULL AND (at, id, attempt) > (?2, ?3, ?4) {ORDER} ?5"
            );
            many(connection, &sql, &[&run_id, &at.0, &id.as_str(), number, &limit], attempt)
        }
    }
}

fn attempt(row: &Row<'_>) -> Result<StoredAttempt> {
    let state = match (row.get(5)?, row.get(6)?) {
        (true, _) => AttemptState::Completed,
        (false, true) => AttemptState::Released,
        (false, false) => AttemptState::Claimed,
    };
    Ok(StoredAttempt {
        position: AttemptPosition {
            at: Timestamp(row.get(0)?),
            id: id(row, 1, EffectId::new)?,
            attempt: row.get(2)?,
        },
        reached: Reached { node_id: id(row, 3, NodeId::new)?, provider_key: row.get(4)? },
        state,
    })
}
