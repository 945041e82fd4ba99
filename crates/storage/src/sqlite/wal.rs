//! The write-ahead log, copied into the file beside the writer.
//!
//! ```text
//!   writer   commit, commit, commit … the log is long ──► commit, commit … ──► copies the rest ─► commit: the log begins anew
//!   copier                                           └──► copies most of it ──┘
//! ```
//!
//! Left to itself, SQLite copies the log in the commit that makes it too long, and whoever waits for that commit waits for the copy.
//! The log begins anew only when nothing of it is missing in the file, which a copier that runs beside the writer never reaches: so
//! the last little bit is the writer's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use disk::sqlite::{LogFrames, copy_log};
use rusqlite::Connection;

/// From how many frames on the log is copied: 16 MiB. Rare enough to copy a page once that changed often, and short enough to recover
/// at once.
pub(super) const LONG: u32 = 4096;

/// The log, as the writer sees it.
pub(super) struct WriteAheadLog {
    frames: LogFrames,
    copied: Arc<AtomicBool>,
    long: u32,
    /// How many frames it has to have before it is copied again.
    next: u32,
    is_copying: bool,
    wake: Option<SyncSender<()>>,
    copier: Option<JoinHandle<()>>,
}

impl WriteAheadLog {
    /// Looks after the log of the writer, which is copied from so many frames on. `beside` is a connection for the copier.
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
                // A reader of something old holds the log back. It is not asked for again before there is as much more to copy.
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
            // What it did not copy is in the log, where it is as safe.
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
    fn the_log_begins_anew_while_commits_go_on_and_nothing_is_lost() {
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
        assert!(log.frames.get() > 200, "and the log could not begin anew");
    }
}
