//! Sessions of the console that were ended before their time.
//!
//! A session is a signed cookie, and nothing is kept of it while it is good. What is kept is that one was ended: a list in memory and in one
//! small file, so that a copy of the cookie opens nothing after a restart either. An entry goes when its session would have ended anyway.
//! A key that signs out very often does not make the list grow: past `MAX_PER_KEY` entries all sessions of the key that began until
//! then are ended with one entry.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use canon::digest::Digest;
use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use storage::disk::{Disk, DiskPath, MemoryDisk, RealDisk, publish, read};
use tokio::sync::watch;

/// How long a session is good, in milliseconds.
pub const LIFETIME_MS: u64 = 12 * 60 * 60 * 1000;
/// The folder in the data directory.
const FOLDER: &str = "console";
/// The file in it.
const FILE: &str = "ended-sessions.json";
/// How many ended sessions of one key are listed one by one.
const MAX_PER_KEY: usize = 64;
/// The largest file that is read.
const MAX_BYTES: u64 = 64 << 20;

/// Which session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionName {
    /// What its key is kept under.
    pub key: Digest,
    /// The digest of its cookie.
    pub cookie: Digest,
    pub began: Timestamp,
    /// When it ends by itself.
    pub ends: Timestamp,
}

/// The sessions that were ended before their time.
pub struct EndedSessions {
    disk: Arc<dyn Disk>,
    list: Mutex<List>,
    /// Held while the file is written, so that an older list never replaces a newer one.
    writing: Mutex<()>,
    changes: watch::Sender<u64>,
}

/// What the file holds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct List {
    version: u32,
    /// Until when each ended session would have been good, by key and by the digest of its cookie.
    #[serde(default)]
    ended: BTreeMap<Digest, BTreeMap<Digest, u64>>,
    /// Keys all of whose sessions are ended that began until a moment.
    #[serde(default)]
    ended_until: BTreeMap<Digest, EndedUntil>,
    /// The same for every key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    all_ended_until: Option<EndedUntil>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct EndedUntil {
    /// The last moment at which a session began that is ended.
    began: u64,
    /// When the last of those sessions would have ended.
    ends: u64,
}

impl List {
    fn contains(&self, session: &SessionName) -> bool {
        let covers = |until: &EndedUntil| session.began.0 <= until.began;
        self.all_ended_until.as_ref().is_some_and(covers)
            || self.ended_until.get(&session.key).is_some_and(covers)
            || self.ended.get(&session.key).is_some_and(|ended| ended.contains_key(&session.cookie))
    }

    fn add(&mut self, session: SessionName, now: Timestamp) {
        let of_key = self.ended.entry(session.key).or_default();
        of_key.insert(session.cookie, session.ends.0);
        if of_key.len() > MAX_PER_KEY {
            let until = EndedUntil { began: now.0, ends: now.0.saturating_add(LIFETIME_MS) };
            self.ended.remove(&session.key);
            self.ended_until.insert(session.key, until);
        }
    }

    /// Forgets what would have ended by itself.
    fn forget(&mut self, now: Timestamp) {
        for ended in self.ended.values_mut() {
            ended.retain(|_, ends| *ends > now.0);
        }
        self.ended.retain(|_, ended| !ended.is_empty());
        self.ended_until.retain(|_, until| until.ends > now.0);
        self.all_ended_until = self.all_ended_until.filter(|until| until.ends > now.0);
    }
}

impl EndedSessions {
    /// Those of a data directory. Where the list is there and cannot be read, nobody knows who signed out: every session that began
    /// until now is taken for ended, and the error says why.
    pub fn open(data_dir: &Path, now: Timestamp) -> (Self, Option<io::Error>) {
        match Self::load(data_dir) {
            Ok((disk, mut list)) => {
                list.forget(now);
                (Self::with(disk, list), None)
            }
            Err(error) => {
                let until = EndedUntil { began: now.0, ends: now.0.saturating_add(LIFETIME_MS) };
                let list = List { all_ended_until: Some(until), ..List::default() };
                let disk = RealDisk::open(data_dir).map(|disk| Arc::new(disk) as Arc<dyn Disk>);
                (Self::with(disk.unwrap_or_else(|_| Arc::new(MemoryDisk::default())), list), Some(error))
            }
        }
    }

    /// A list that nothing is left of when the process ends.
    pub fn in_memory() -> Self {
        Self::with(Arc::new(MemoryDisk::default()), List::default())
    }

    fn load(data_dir: &Path) -> io::Result<(Arc<dyn Disk>, List)> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(data_dir)?);
        let bytes = read(&*disk, &DiskPath::root(FOLDER).join(FILE), MAX_BYTES)?;
        let list = bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose()?;
        Ok((disk, list.unwrap_or_default()))
    }

    fn with(disk: Arc<dyn Disk>, list: List) -> Self {
        let (list, writing) = (Mutex::new(List { version: 1, ..list }), Mutex::default());
        Self { disk, list, writing, changes: watch::Sender::new(0) }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a session was ended.
    pub fn contains(&self, session: &SessionName) -> bool {
        self.list().contains(session)
    }

    /// Ends a session. It is over at once, and on the disk when this returns.
    ///
    /// # Errors
    /// Those of the disk. The session is over in this process all the same.
    pub fn end(&self, session: SessionName, now: Timestamp) -> io::Result<()> {
        {
            let mut list = self.list();
            list.forget(now);
            list.add(session, now);
        }
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = serde_json::to_vec(&*self.list())?;
        let folder = DiskPath::root(FOLDER);
        if self.disk.stat(&folder)?.is_none() {
            self.disk.create_dir(&folder)?;
        }
        publish(&*self.disk, &folder, &format!("{FILE}.{}.tmp", self.disk.unique()), FILE, &bytes)
    }

    /// Waits until a session was ended.
    pub async fn ended(&self, session: &SessionName) {
        let mut changes = self.changes.subscribe();
        while !self.contains(session) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn session(key: &str, cookie: &str, began: u64) -> SessionName {
        SessionName {
            key: Digest::of_bytes(key.as_bytes()),
            cookie: Digest::of_bytes(cookie.as_bytes()),
            began: Timestamp(began),
            ends: Timestamp(began + 1000),
        }
    }

    #[test]
    fn what_was_ended_stays_ended_after_a_restart_until_it_would_have_ended_anyway() {
        let folder = TempDir::new().unwrap();
        let (one, two) = (session("k", "one", 10), session("k", "two", 10));
        let before = EndedSessions::open(folder.path(), Timestamp(20)).0;
        assert!(!before.contains(&one));
        before.end(one, Timestamp(20)).unwrap();
        for ended in [&before, &EndedSessions::open(folder.path(), Timestamp(30)).0] {
            assert!(ended.contains(&one) && !ended.contains(&two));
        }
        let later = EndedSessions::open(folder.path(), Timestamp(2000)).0;
        assert!(later.list().ended.is_empty(), "nothing is kept that the clock has ended");
    }

    #[test]
    fn a_key_that_signs_out_often_makes_no_long_list() {
        let ended = EndedSessions::in_memory();
        for round in 0..10 * MAX_PER_KEY {
            let began = u64::try_from(round).unwrap();
            ended.end(session("k", &round.to_string(), began), Timestamp(began)).unwrap();
        }
        assert!(ended.list().ended.values().map(BTreeMap::len).sum::<usize>() <= MAX_PER_KEY);
        assert!((0..640).all(|round| ended.contains(&session("k", &round.to_string(), round))));
        assert!(!ended.contains(&session("k", "new", 640)) && !ended.contains(&session("other", "0", 0)));
    }

    #[test]
    fn a_list_that_cannot_be_read_ends_every_session_so_far() {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join(FOLDER)).unwrap();
        std::fs::write(folder.path().join(FOLDER).join(FILE), "{").unwrap();
        let (ended, error) = EndedSessions::open(folder.path(), Timestamp(20));
        assert!(error.is_some());
        assert!(ended.contains(&session("k", "one", 20)) && !ended.contains(&session("k", "one", 21)));
        ended.end(session("k", "two", 30), Timestamp(40)).unwrap();
        let again = EndedSessions::open(folder.path(), Timestamp(50)).0;
        assert!(again.contains(&session("k", "one", 20)) && again.contains(&session("k", "two", 30)));
    }
}
