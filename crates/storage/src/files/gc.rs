//! Garbage collection: deletes old sessions, then the objects that only they referred to.
//!
//! Sessions are deleted before objects, so that a crash leaves objects without a session and never the reverse. If anything
//! cannot be validated, nothing is deleted: a session that cannot be read may need what looks unused.

use std::collections::BTreeSet;

use canon::digest::Digest;
use guide::record::{Event, SessionId, SnapshotRef};
use ports::sessions::{GcOutcome, GcReport, ObjectKind, Retention, StoreError};

use super::{SessionFiles, layout, snapshots};
use crate::disk::{DiskPath, FileKind, Sharing};

/// The objects that retained sessions refer to.
#[derive(Default)]
struct Marks {
    snapshots: BTreeSet<SnapshotRef>,
    workflows: BTreeSet<Digest>,
    artifacts: BTreeSet<Digest>,
}

/// The result of scanning `sessions/`.
#[derive(Default)]
struct Survey {
    expired: Vec<SessionId>,
    /// Directories without a session: the remains of interrupted creations and deletions.
    leftovers: Vec<DiskPath>,
    marks: Marks,
}

impl SessionFiles {
    /// Deletes expired sessions, and the objects that only they refer to.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while a session is being written, and disk errors. Everything that was deleted before an
    /// error was expired or unreferenced.
    pub fn gc(&self, retention: Retention) -> Result<GcReport, StoreError> {
        self.gc_sparing(retention, &|_| false)
    }

    /// As [`SessionFiles::gc`], but spares expired sessions that are awaited. `is_awaited` gets the events of a session.
    ///
    /// # Errors
    /// As [`SessionFiles::gc`].
    pub fn gc_sparing(
        &self,
        retention: Retention,
        is_awaited: &dyn Fn(&[Event]) -> bool,
    ) -> Result<GcReport, StoreError> {
        if self.disk().stat(&layout::sessions()).map_err(StoreError::disk("look at", "sessions"))?.is_none() {
            return Ok(GcReport::default());
        }
        let path = layout::store_lock();
        let lock =
            self.disk().try_lock(&path, Sharing::Exclusive).map_err(StoreError::disk("lock", &path))?;
        let Some(_lock) = lock else { return Err(StoreError::Busy { with: "a session is being written" }) };
        // Deletions must not depend on cached data.
        self.0.snapshots.forget();
        let mut report = GcReport::default();
        let mut survey = self.survey(retention, is_awaited, &mut report)?;
        self.mark_bases(&mut survey.marks, &mut report);
        if !report.warnings.is_empty() {
            report.outcome = GcOutcome::SafeMode;
            return Ok(report);
        }
        if retention.dry_run {
            report.outcome = GcOutcome::DryRun;
        }
        report.deleted_sessions.clone_from(&survey.expired);
        report.deleted_leftovers = survey.leftovers.len();
        if !retention.dry_run {
            for session in &survey.expired {
                self.delete_session(session)?;
            }
            for leftover in &survey.leftovers {
                self.remove_tree(leftover)?;
            }
        }
        let marks = &survey.marks;
        report.deleted_snapshots =
            self.sweep(&layout::snapshots(), ".json", retention.dry_run, |digest| {
                marks.snapshots.contains(&SnapshotRef(digest))
            })?;
        report.deleted_workflows = self.sweep(&layout::pinned(), ".json", retention.dry_run, |digest| {
            marks.workflows.contains(&digest)
        })?;
        report.deleted_artifacts = self
            .sweep(&layout::artifacts(), "", retention.dry_run, |digest| marks.artifacts.contains(&digest))?;
        self.0.snapshots.forget();
        Ok(report)
    }

    /// Reads every session: which are expired, and which objects the others refer to.
    fn survey(
        &self,
        retention: Retention,
        is_awaited: &dyn Fn(&[Event]) -> bool,
        report: &mut GcReport,
    ) -> Result<Survey, StoreError> {
        let dir = layout::sessions();
        let mut survey = Survey::default();
        let mut names = self.disk().list(&dir).map_err(StoreError::disk("list", &dir))?;
        names.sort_unstable();
        for name in names {
            if name.starts_with(layout::STAGING) || name.starts_with(layout::TRASH) {
                survey.leftovers.push(dir.join(&name));
                continue;
            }
            let Ok(session) = SessionId::parse(&name) else { continue };
            let prefix = match self.load_validated_prefix(&session) {
                Ok(prefix) => prefix,
                // The creation of this directory was never acknowledged, or its deletion was interrupted.
                Err(StoreError::Unknown { .. }) => {
                    survey.leftovers.push(dir.join(&name));
                    continue;
                }
                Err(error) => return Err(error),
            };
            if !prefix.health.is_healthy() {
                report.warnings.push(format!("session {session} is {}", prefix.health));
                report.retained_sessions += 1;
                continue;
            }
            // File times are not used, because copying the data directory would reset the age of every session.
            let recorded = prefix.loaded.events.last().map_or(0, |event| event.timestamp_ms);
            let imported = self.imported_ms(&session)?.unwrap_or_default();
            let idle = retention.now_ms.saturating_sub(recorded.max(imported));
            if idle >= retention.ttl_ms {
                if self.is_kept(&session)? {
                    report.spared_sessions.push(session);
                } else if is_awaited(&prefix.loaded.events) {
                    report.awaited_sessions.push(session);
                } else {
                    survey.expired.push(session);
                    continue;
                }
            }
            report.retained_sessions += 1;
            let marks = &mut survey.marks;
            marks.snapshots.extend(sessionlog::pinned(&prefix.loaded.manifest));
            for (kind, digest) in prefix.loaded.events.iter().flat_map(sessionlog::references) {
                match kind {
                    ObjectKind::Workflow => marks.workflows.insert(digest),
                    ObjectKind::Artifact => marks.artifacts.insert(digest),
                    // Already marked from the manifest, which was validated against the events.
                    ObjectKind::Snapshot => true,
                };
            }
        }
        Ok(survey)
    }

    /// Marks the base snapshots of the marked snapshots.
    fn mark_bases(&self, marks: &mut Marks, report: &mut GcReport) {
        let roots: Vec<_> = marks.snapshots.iter().copied().collect();
        for root in roots {
            match self.0.snapshots.bases(&snapshots::Files(self.disk().as_ref()), root) {
                Ok(bases) => marks.snapshots.extend(bases),
                Err(error) => report.warnings.push(error.to_string()),
            }
        }
    }

    /// Deletes unmarked and unfinished files in a directory of objects.
    fn sweep(
        &self,
        dir: &DiskPath,
        extension: &str,
        dry_run: bool,
        marked: impl Fn(Digest) -> bool,
    ) -> Result<usize, StoreError> {
        let disk = self.disk();
        let mut deleted = 0;
        for name in disk.list(dir).map_err(StoreError::disk("list", dir))? {
            let unneeded = match layout::digest_of_name(&name, extension) {
                Some(digest) => !marked(digest),
                None => name.ends_with(layout::TEMPORARY),
            };
            if unneeded {
                deleted += 1;
                if !dry_run {
                    let path = dir.join(&name);
                    disk.remove_file(&path).map_err(StoreError::disk("delete", &path))?;
                }
            }
        }
        if deleted > 0 && !dry_run {
            disk.sync_dir(Some(dir)).map_err(StoreError::disk("write", dir))?;
        }
        Ok(deleted)
    }

    /// Deletes a session: a rename makes it invisible, then its files are deleted.
    fn delete_session(&self, session: &SessionId) -> Result<(), StoreError> {
        let (sessions, path) = (layout::sessions(), layout::session(session));
        let trash = sessions.join(&format!("{}{:x}", layout::TRASH, self.disk().unique()));
        let disk = self.disk();
        let failed = || StoreError::disk("delete", &path);
        disk.rename(&path, &trash).and_then(|()| disk.sync_dir(Some(&sessions))).map_err(failed())?;
        self.remove_tree(&trash)
    }

    /// Removes a session directory with its subdirectories.
    pub(super) fn remove_tree(&self, dir: &DiskPath) -> Result<(), StoreError> {
        let disk = self.disk();
        let failed = || StoreError::disk("delete", dir);
        for name in disk.list(dir).map_err(failed())? {
            let path = dir.join(&name);
            let is_dir = disk.stat(&path).map_err(failed())?.is_some_and(|stat| stat.kind == FileKind::Dir);
            if is_dir {
                for name in disk.list(&path).map_err(failed())? {
                    disk.remove_file(&path.join(&name)).map_err(failed())?;
                }
                disk.remove_dir(&path).map_err(failed())?;
            } else {
                disk.remove_file(&path).map_err(failed())?;
            }
        }
        disk.remove_dir(dir).map_err(failed())
    }
}
