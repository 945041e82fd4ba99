//! Verifies a session and everything that it refers to.

use std::collections::BTreeSet;

use guide::record::{SessionId, SnapshotRef};
use ports::sessions::{
    ChainBreak, ChainState, Cursor, GcReport, IsAwaited, ObjectKind, Retention, SessionMaintenance,
    StoreError, StoreFuture, Verification,
};
use sessionlog::{chain, references};

use super::Sessions;
use super::log::Scan;

impl Sessions {
    async fn verified(&self, session: SessionId) -> Result<Verification, StoreError> {
        self.0.snapshots.forget();
        let scan = self.scan(&Cursor::start(session.clone())).await?;
        let needed: BTreeSet<_> = scan.loaded.events.iter().flat_map(references).collect();
        let (mut problems, mut objects) = (Vec::new(), 0);
        for (kind, digest) in needed {
            let read = match kind {
                ObjectKind::Snapshot => self.snapshot_of(SnapshotRef(digest)).await.map(drop),
                ObjectKind::Workflow | ObjectKind::Artifact => self.content_of(kind, digest).await.map(drop),
            };
            match read {
                Ok(()) => objects += 1,
                Err(problem) => problems.push(problem),
            }
        }
        problems.extend(self.salvaged_mark(&session).await.err());
        let chain = self.chain_state(&session, &scan).await?;
        let events = scan.loaded.events.len();
        Ok(Verification { health: scan.health, chain, events, objects, problems })
    }

    async fn chain_state(&self, session: &SessionId, scan: &Scan) -> Result<ChainState, StoreError> {
        if scan.chain.is_empty() {
            return Ok(ChainState::Missing);
        }
        if !scan.health.is_healthy() {
            return Ok(ChainState::Unchecked);
        }
        match self.integrity_key().await {
            Ok(key) => {
                // The row of the session has the last line too. If it is not the last one of the segments, some were removed.
                let mut lines = scan.chain.clone();
                if !lines.ends_with(&scan.head.chain_end) {
                    lines.extend_from_slice(&scan.head.chain_end);
                }
                Ok(chain::check(key.as_ref(), session, &lines, &scan.loaded.manifest))
            }
            Err(error @ StoreError::Damaged { .. }) => {
                Ok(ChainState::Broken { reason: ChainBreak::KeyMissing, problem: error.to_string() })
            }
            Err(error) => Err(error),
        }
    }
}

impl SessionMaintenance for Sessions {
    fn verify(&self, session: SessionId) -> StoreFuture<'_, Verification> {
        self.task(|this| async move { this.verified(session).await })
    }

    fn gc(&self, retention: Retention, is_awaited: IsAwaited) -> StoreFuture<'_, GcReport> {
        self.task(move |this| async move { this.collect(retention, is_awaited).await })
    }
}
