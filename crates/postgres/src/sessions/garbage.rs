//! Garbage collection: deletes old sessions, then the objects that only they referred to.
//!
//! Nothing is locked. A session is deleted only if nothing was appended since it was read. An object is deleted only if no
//! append needed it in the hour before the collection began: an append that begins later touches every object that it
//! refers to, in its own statement. If anything cannot be validated, nothing is deleted.

use std::collections::BTreeSet;

use canon::digest::Digest;
use guide::record::{SessionId, SnapshotRef};
use ports::sessions::{
    Cursor, GcOutcome, GcReport, IsAwaited, ObjectKind, Retention, SessionLog as _, StoreError,
};
use sessionlog::{pinned, references};
use tokio_postgres::Row;

use super::log::{Head, Scan};
use super::{Sessions, database, unexpected};
use crate::connection::Value;
use crate::error::Failure;
use crate::row::{number, unsigned};

/// How many objects one statement deletes.
const MOST: usize = 1000;

type Marks = BTreeSet<(ObjectKind, Digest)>;

impl Sessions {
    pub(super) async fn collect(
        &self,
        retention: Retention,
        is_awaited: IsAwaited,
    ) -> Result<GcReport, StoreError> {
        let now = self.read("select clock_timestamp()::text", &[]).await?;
        let begun: String =
            now.first().ok_or_else(|| database(Failure::Row))?.try_get(0).map_err(unexpected)?;
        // Deletions must not depend on cached data.
        self.0.snapshots.forget();
        let (mut report, mut marks, mut expired) = (GcReport::default(), Marks::new(), Vec::new());
        for session in self.sessions().await? {
            let scan = match self.scan(&Cursor::start(session.clone())).await {
                Ok(scan) => scan,
                Err(StoreError::Unknown { .. }) => continue,
                Err(error) => return Err(error),
            };
            if !scan.health.is_healthy() {
                report.warnings.push(format!("session {session} is {}", scan.health));
                report.retained_sessions += 1;
                continue;
            }
            if self.is_expired(&session, &scan, retention, &is_awaited, &mut report).await? {
                expired.push((session, scan.head));
            } else {
                report.retained_sessions += 1;
                mark(&scan, &mut marks);
            }
        }
        self.mark_bases(&mut marks, &mut report).await;
        if !report.warnings.is_empty() {
            report.outcome = GcOutcome::SafeMode;
            return Ok(report);
        }
        if retention.dry_run {
            report.outcome = GcOutcome::DryRun;
            report.deleted_sessions = expired.into_iter().map(|(session, _)| session).collect();
        } else {
            for (session, head) in expired {
                if self.delete_session(&session, &head).await? {
                    report.deleted_sessions.push(session);
                    continue;
                }
                // Something was appended meanwhile, so it stays, with what it refers to.
                report.retained_sessions += 1;
                match self.scan_healthy(&Cursor::start(session)).await {
                    Ok(scan) => mark(&scan, &mut marks),
                    Err(StoreError::Unknown { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            self.mark_bases(&mut marks, &mut report).await;
        }
        self.sweep(&begun, &marks, retention.dry_run, &mut report).await?;
        self.0.snapshots.forget();
        Ok(report)
    }

    async fn is_expired(
        &self,
        session: &SessionId,
        scan: &Scan,
        retention: Retention,
        is_awaited: &IsAwaited,
        report: &mut GcReport,
    ) -> Result<bool, StoreError> {
        let sql = "select greatest(active_ms, coalesce(imported_ms, 0)), is_kept from sessions
                   where tenant = $1 and session_id = $2";
        let rows = self.read(sql, &[&self.tenant(), &session.as_str()]).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let active_ms = unsigned(row, 0).map_err(database)?;
        if retention.now_ms.saturating_sub(active_ms) < retention.ttl_ms {
            return Ok(false);
        }
        if row.try_get(1).map_err(unexpected)? {
            report.spared_sessions.push(session.clone());
            return Ok(false);
        }
        let is_awaited = is_awaited.ask(scan.loaded.events.clone()).await;
        if is_awaited {
            report.awaited_sessions.push(session.clone());
        }
        Ok(!is_awaited)
    }

    /// Deletes a session if nothing was appended since it was read. Says whether it was deleted.
    async fn delete_session(&self, session: &SessionId, head: &Head) -> Result<bool, StoreError> {
        let sql = "with fence as (select 1 from hosts where host_id = $1 for key share),
                   head as (delete from sessions where tenant = $2 and session_id = $3 and incarnation = $4
                       and next_event = $5 and not is_kept and exists (select 1 from fence) returning 1),
                   segments as (delete from session_segments
                       where tenant = $2 and session_id = $3 and exists (select 1 from head)),
                   positions as (delete from session_positions
                       where tenant = $2 and session_id = $3 and exists (select 1 from head))
                   select (select count(*) from fence), (select count(*) from head)";
        let next_event = number(head.next_event.0);
        let values: [Value<'_>; 5] =
            [&self.0.shared.host_id, &self.tenant(), &session.as_str(), &head.incarnation, &next_event];
        let (rows, _) = self.write(sql, &values).await?;
        let row = rows.first().ok_or_else(|| database(Failure::Row))?;
        fenced(row)?;
        Ok(row.try_get::<_, i64>(1).map_err(unexpected)? > 0)
    }

    /// Marks what marked snapshots are based on.
    async fn mark_bases(&self, marks: &mut Marks, report: &mut GcReport) {
        let roots: Vec<_> = marks.iter().filter(|(kind, _)| *kind == ObjectKind::Snapshot).copied().collect();
        for (_, digest) in roots {
            match self.bases_of(SnapshotRef(digest)).await {
                Ok(bases) => marks.extend(bases.iter().map(|base| (ObjectKind::Snapshot, base.0))),
                Err(error) => report.warnings.push(error.to_string()),
            }
        }
    }

    /// Deletes the objects that are not marked and that no append has needed recently.
    async fn sweep(
        &self,
        begun: &str,
        marks: &Marks,
        dry_run: bool,
        report: &mut GcReport,
    ) -> Result<(), StoreError> {
        if !report.warnings.is_empty() {
            return Ok(());
        }
        let sql = "select kind, digest from session_objects
                   where tenant = $1 and needed_at < $2::text::timestamptz - interval '1 hour'";
        let mut unneeded = Vec::new();
        for row in &self.read(sql, &[&self.tenant(), &begun]).await? {
            let kind = match row.try_get::<_, &str>(0).map_err(unexpected)? {
                "snapshot" => ObjectKind::Snapshot,
                "workflow" => ObjectKind::Workflow,
                "artifact" => ObjectKind::Artifact,
                _ => continue,
            };
            let digest = crate::row::digest(row, 1).map_err(database)?;
            if !marks.contains(&(kind, digest)) {
                unneeded.push((kind, digest));
            }
        }
        for (kind, _) in &unneeded {
            match kind {
                ObjectKind::Snapshot => report.deleted_snapshots += 1,
                ObjectKind::Workflow => report.deleted_workflows += 1,
                ObjectKind::Artifact => report.deleted_artifacts += 1,
            }
        }
        let sql = "with fence as (select 1 from hosts where host_id = $1 for key share),
                   deleted as (delete from session_objects o using unnest($4::text[], $5::bytea[]) as n(kind, digest)
                       where o.tenant = $2 and o.kind = n.kind and o.digest = n.digest
                           and o.needed_at < $3::text::timestamptz - interval '1 hour' and exists (select 1 from fence))
                   select count(*) from fence";
        for some in unneeded.chunks(MOST).filter(|_| !dry_run) {
            let (kinds, digests): (Vec<&str>, Vec<&[u8]>) =
                some.iter().map(|(kind, digest)| (kind.as_str(), &digest.as_bytes()[..])).unzip();
            let values: [Value<'_>; 5] = [&self.0.shared.host_id, &self.tenant(), &begun, &kinds, &digests];
            let (rows, _) = self.write(sql, &values).await?;
            fenced(rows.first().ok_or_else(|| database(Failure::Row))?)?;
        }
        Ok(())
    }
}

/// Fails if the first column says that there is no row of this host.
fn fenced(row: &Row) -> Result<(), StoreError> {
    if row.try_get::<_, i64>(0).map_err(unexpected)? == 0 { Err(database(Failure::Fenced)) } else { Ok(()) }
}

fn mark(scan: &Scan, marks: &mut Marks) {
    marks.extend(pinned(&scan.loaded.manifest).map(|reference| (ObjectKind::Snapshot, reference.0)));
    marks.extend(scan.loaded.events.iter().flat_map(references));
}
