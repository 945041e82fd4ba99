//! Finds sessions. Positions are a table; the inputs of ranking are in the rows of sessions and kept in memory, and a search
//! reads those that have changed.

use std::collections::HashMap;
use std::sync::PoisonError;

use guide::project::resume::{RankingInput, ResumeQuery, rank};
use guide::record::{EventIndex, SessionId};
use ports::sessions::{
    IndexPage, OpenRunRef, PositionKey, SearchResult, SessionIndex, StoreError, StoreFuture, page,
};

use super::log::session_id;
use super::{Indexed, Sessions, database, unexpected};
use crate::row::unsigned;

/// How many sessions one query reads.
const MOST: usize = 500;

impl Sessions {
    /// Uses the inputs of all runs.
    async fn with_inputs<T>(
        &self,
        work: impl FnOnce(&mut dyn Iterator<Item = &RankingInput>) -> T + Send,
    ) -> Result<T, StoreError> {
        self.refresh().await?;
        let index = self.0.index.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sessions: Vec<_> = index.iter().collect();
        sessions.sort_unstable_by_key(|(session, _)| *session);
        Ok(work(&mut sessions.iter().flat_map(|(_, indexed)| &indexed.runs)))
    }

    /// Brings the index in memory to that of the database.
    async fn refresh(&self) -> Result<(), StoreError> {
        let sql = "select session_id, incarnation, next_event from sessions where tenant = $1";
        let rows = self.read(sql, &[&self.tenant()]).await?;
        let mut versions = HashMap::with_capacity(rows.len());
        for row in &rows {
            let incarnation: Vec<u8> = row.try_get(1).map_err(unexpected)?;
            versions.insert(session_id(row, 0)?, (incarnation, unsigned(row, 2).map_err(database)?));
        }
        let changed: Vec<SessionId> = {
            let mut index = self.0.index.lock().unwrap_or_else(PoisonError::into_inner);
            index.retain(|session, _| versions.contains_key(session));
            let is_new = |(session, version): &(&SessionId, &(Vec<u8>, u64))| {
                index.get(*session).is_none_or(|known| known.version != **version)
            };
            versions.iter().filter(is_new).map(|(session, _)| session.clone()).collect()
        };
        for some in changed.chunks(MOST) {
            let ids: Vec<&str> = some.iter().map(SessionId::as_str).collect();
            let sql = "select session_id, incarnation, next_event, runs from sessions
                       where tenant = $1 and session_id = any($2)";
            for row in &self.read(sql, &[&self.tenant(), &ids]).await? {
                let version = (row.try_get(1).map_err(unexpected)?, unsigned(row, 2).map_err(database)?);
                // The index is derived: a session whose entry cannot be parsed is only not found by its words.
                let runs = serde_json::from_slice(row.try_get(3).map_err(unexpected)?).unwrap_or_default();
                let mut index = self.0.index.lock().unwrap_or_else(PoisonError::into_inner);
                index.insert(session_id(row, 0)?, Indexed { version, runs });
            }
        }
        Ok(())
    }
}

impl SessionIndex for Sessions {
    fn position(&self, key: PositionKey) -> StoreFuture<'_, Option<(SessionId, EventIndex)>> {
        self.task(move |this| async move {
            let sql =
                "select session_id, event_index from session_positions where tenant = $1 and position = $2";
            let rows = this.read(sql, &[&this.tenant(), &&key[..]]).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            Ok(Some((session_id(row, 0)?, EventIndex(unsigned(row, 1).map_err(database)?))))
        })
    }

    fn search(&self, query: ResumeQuery, limit: usize) -> StoreFuture<'_, SearchResult> {
        self.task(move |this| async move {
            this.with_inputs(|inputs| {
                let ranking = rank(inputs, &query);
                let best = ranking.ranked.iter().take(limit);
                let candidates = best.map(|ranked| ranking.candidate(ranked)).collect();
                SearchResult { candidates, total_eligible: ranking.total_eligible() }
            })
            .await
        })
    }

    fn page(&self, first: usize, limit: usize) -> StoreFuture<'_, IndexPage> {
        self.task(move |this| async move {
            let (sessions, total) = this.with_inputs(|inputs| page(inputs, first, limit)).await?;
            Ok(IndexPage { sessions, total, unusable: Vec::new() })
        })
    }

    fn newest_open_run(&self, repo_root_hash: String) -> StoreFuture<'_, Option<OpenRunRef>> {
        self.task(move |this| async move {
            this.with_inputs(|inputs| {
                inputs
                    .filter(|run| !run.is_complete && run.repo_root_hash.as_deref() == Some(&repo_root_hash))
                    .max_by_key(|run| (run.last_modified_ms, run.last_activity_index))
                    .map(|run| OpenRunRef { session_id: run.session_id.clone(), run_id: run.run_id.clone() })
            })
            .await
        })
    }
}
