//! Checkpoints of the write-ahead log, concurrent with the writer.
//!
//! ```text
//!   writer   commit, commit, commit … the log is long ──► commit, commit … ──► copies the rest ─► commit: the log restarts
//!   copier                                           └──► copies most of it ──┘
//! ```
//!
//! By default, SQLite copies the log in the commit that makes it too long, which delays that commit. The log restarts
//! only when all of it is in the file. A concurrent copier never gets that far, so the writer copies the last part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use disk::sqlite::{LogFrames, copy_log};
use rusqlite::Connection;

/// The number of frames from which the log is copied: 16 MiB. Long enough that a page that changes often is copied once,
/// short enough for a fast recovery.
pub(super) const LONG: u32 = 4096;

/// The writer's view of the log.
pub(super) struct WriteAheadLog {
    frames: LogFrames,
    copied: Arc<AtomicBool>,
    long: u32,
    /// The number of frames at which it is copied next.
    next: u32,
    is_copying: bool,
    wake: Option<SyncSender<()>>,
    copier: Option<JoinHandle<()>>,
}

impl WriteAheadLog {
    /// Watches the log of the writer and copies it from `long` frames on. `beside` is the connection of the copier.
    pub(super) fn watch(writer: &mut Connection, beside: Connection, long: u32) -> std::io::Result<Self> {
        let frames = LogFrames::watch(writer).map_err(std::io::Error::other)?;
        let copied = Arc::new(AtomicBool::new(false));
        let (wake, woken) = sync_channel(1);
        let done = Arc::clone(&copied);
        let copier = Builder::new().name("runs-copier".into()).spawn(move || copy(&beside, &woken, &done))?;
        let (wake, copier) = (Some(wake), Some(copier));
        Ok(Self { frames, copied, long, next: long, is_copying: false, wake, copier })
    }

    /// Called by the writer between two transactions.
    pub(super) fn committed(&mut self, writer: &Connection) {
        if self.is_copying {
            if self.copied.swap(false, Ordering::Acquire) {
                self.is_copying = false;
                let is_whole = copy_log(writer);
                // An old reader prevents the restart. Retry once there is as much more to copy.
                let held = if is_whole { 0 } else { self.frames.get() };
                self.next = held.saturating_add(self.long);
            }
        } else if self.frames.get() >= self.next
            && let Some(wake) = &self.wake
        {
            self.is_copying = wake.try_send(()).is_ok();
        }
    }
}

impl Drop for WriteAheadLog {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(copier) = self.copier.take() {
            // Frames that were not copied are safe in the log.
            let _ = copier.join();
        }
    }
}

fn copy(connection: &Connection, woken: &Receiver<()>, copied: &AtomicBool) {
    while woken.recv().is_ok() {
        copy_log(connection);
        copied.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_restarts_during_commits_and_nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Connection::open(folder.path().join("file")).unwrap();
        let mut writer = open();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, x BLOB)").unwrap();
        let mut log = WriteAheadLog::watch(&mut writer, open(), 64).unwrap();
        let (mut count, mut anew) = (0_i64, 0);
        while anew < 3 {
            let before = log.frames.get();
            writer.execute("INSERT INTO t (x) VALUES (zeroblob(3000))", []).unwrap();
            log.committed(&writer);
            count += 1;
            anew += u32::from(log.frames.get() < before);
        }
        drop(log);
        drop(writer);
        let found: i64 = open().query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(found, count);
    }

    #[test]
    fn a_reader_of_something_old_holds_the_log_back_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Connection::open(folder.path().join("file")).unwrap();
        let mut writer = open();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, x BLOB)").unwrap();
        let mut log = WriteAheadLog::watch(&mut writer, open(), 16).unwrap();
        let mut reader = open();
        let old = reader.transaction().unwrap();
        let count = || old.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(count(), 0);
        for _ in 0..200 {
            writer.execute("INSERT INTO t (x) VALUES (zeroblob(3000))", []).unwrap();
            log.committed(&writer);
        }
        assert_eq!(count(), 0, "it sees what it saw");
        assert!(log.frames.get() > 200, "and the log could not restart");
    }
}
