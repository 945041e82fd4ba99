//! Artifacts of runs.

use flow::id::{ArtifactId, RunId};
use ports::runs::{Artifacts, Bytes, ReadFuture};
use rusqlite::{Connection, Result};

use crate::sqlite::SqliteRuns;
use crate::sqlite::query::{at_most, bytes, id, many, one};

impl Artifacts for SqliteRuns {
    fn artifact(&self, run_id: &RunId, artifact_id: &ArtifactId) -> ReadFuture<'_, Option<Bytes>> {
        let (run_id, artifact_id) = (run_id.clone(), artifact_id.clone());
        self.read(move |connection| artifact(connection, &run_id, &artifact_id))
    }

    fn artifact_ids(&self, run_id: &RunId, limit: usize) -> ReadFuture<'_, Vec<ArtifactId>> {
        let run_id = run_id.clone();
        self.read(move |connection| artifact_ids(connection, &run_id, limit))
    }
}

pub(in crate::sqlite) fn artifact(
    connection: &Connection,
    run_id: &RunId,
    artifact_id: &ArtifactId,
) -> Result<Option<Bytes>> {
    let sql = "SELECT document FROM artifacts WHERE run_id = ?1 AND artifact_id = ?2";
    one(connection, sql, &[&run_id.as_str(), &artifact_id.as_str()], |row| bytes(row, 0))
}

fn artifact_ids(connection: &Connection, run_id: &RunId, limit: usize) -> Result<Vec<ArtifactId>> {
    let sql = "SELECT artifact_id FROM artifacts WHERE run_id = ?1 ORDER BY artifact_id LIMIT ?2";
    many(connection, sql, &[&run_id.as_str(), &at_most(limit)], |row| id(row, 0, ArtifactId::new))
}
