//! Effects, in the table `activities`.

use flow::id::EffectId;
use ports::runs::{ClaimedEffect, Effects, ReadFuture};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

use crate::sqlite::SqliteRuns;
use crate::sqlite::query::{bytes, one};

impl Effects for SqliteRuns {
    fn effect(&self, id: &EffectId) -> ReadFuture<'_, Option<ClaimedEffect>> {
        let id = id.clone();
        self.read(move |connection| effect(connection, &id))
    }
}

fn effect(connection: &Connection, id: &EffectId) -> Result<Option<ClaimedEffect>> {
    one(connection, "SELECT outcome FROM activities WHERE id = ?1", &[&id.as_str()], |row| {
        match row.get_ref(0)? {
            ValueRef::Null => Ok(ClaimedEffect::Unfinished),
            _ => bytes(row, 0).map(ClaimedEffect::Finished),
        }
    })
}
