//! Console sessions that were ended before they expired.
//!
//! A session is a signed cookie, and an active session is not stored. Only ended sessions are stored: in memory and in one small file, so
//! that a copied cookie stays invalid after a restart. An entry is removed when its session would have expired. A key that signs out very
//! often does not grow the list: above `MAX_PER_KEY` entries, one entry ends all sessions of the key that started until
//! then.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use canon::digest::Digest;
use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use storage::disk::{Disk, DiskPath, MemoryDisk, RealDisk, publish, read};
use tokio::sync::watch;

/// The lifetime of a session, in milliseconds.
pub(crate) const LIFETIME_MS: u64 = 12 * 60 * 60 * 1000;
/// The folder in the data directory.
const FOLDER: &str = "console";
/// The file in it.
const FILE: &str = "ended-sessions.json";
/// The maximum number of individually listed sessions per key.
const MAX_PER_KEY: usize = 64;
/// The maximum size of the file.
const MAX_BYTES: u64 = 64 << 20;

/// Identifies a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionName {
    pub key: Digest,
    pub cookie: Digest,
    pub began: Timestamp,
    /// When it expires.
    pub ends: Timestamp,
}

/// The sessions that were ended before they expired.
pub(crate) struct EndedSessions {
    disk: Arc<dyn Disk>,
    list: Mutex<List>,
    /// Held while the file is written, so that an older list never replaces a newer one.
    writing: Mutex<()>,
    changes: watch::Sender<u64>,
}

/// The contents of the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct List {
    version: u32,
    /// When each ended session would have expired, by key and by the digest of its cookie.
    #[serde(default)]
    ended: BTreeMap<Digest, BTreeMap<Digest, u64>>,
    /// Keys whose sessions are all ended that started until a point in time.
    #[serde(default)]
    ended_until: BTreeMap<Digest, EndedUntil>,
    /// The same for every key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    all_ended_until: Option<EndedUntil>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct EndedUntil {
    /// The latest start of an ended session.
    began: u64,
    /// When the last of these sessions would have expired.
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

    /// Removes the entries of sessions that have expired by now.
    fn remove_expired(&mut self, now: Timestamp) {
        for ended in self.ended.values_mut() {
            ended.retain(|_, ends| *ends > now.0);
        }
        self.ended.retain(|_, ended| !ended.is_empty());
        self.ended_until.retain(|_, until| until.ends > now.0);
        self.all_ended_until = self.all_ended_until.filter(|until| until.ends > now.0);
    }
}

impl EndedSessions {
    /// The ended sessions of a data directory. If the list exists but cannot be read, it is unknown who signed out: all sessions that started
    /// until now count as ended, and the error is returned.
    pub(crate) fn open(data_dir: &Path, now: Timestamp) -> (Self, Option<io::Error>) {
        match Self::load(data_dir) {
            Ok((disk, mut list)) => {
                list.remove_expired(now);
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

    /// A list that is not stored.
    #[cfg(test)]
    pub(crate) fn in_memory() -> Self {
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
    pub(crate) fn contains(&self, session: &SessionName) -> bool {
        self.list().contains(session)
    }

    /// Ends a session, immediately and durably.
    ///
    /// # Errors
    /// The list could not be stored. The session is nevertheless ended in this process.
    pub(crate) fn end(&self, session: SessionName, now: Timestamp) -> io::Result<()> {
        {
            let mut list = self.list();
            list.remove_expired(now);
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

    /// Waits until a session is ended.
    pub(crate) async fn ended(&self, session: &SessionName) {
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
    fn an_ended_session_stays_ended_after_a_restart_until_it_expires() {
        let folder = TempDir::new().unwrap();
        let (one, two) = (session("k", "one", 10), session("k", "two", 10));
        let before = EndedSessions::open(folder.path(), Timestamp(20)).0;
        assert!(!before.contains(&one));
        before.end(one, Timestamp(20)).unwrap();
        for ended in [&before, &EndedSessions::open(folder.path(), Timestamp(30)).0] {
            assert!(ended.contains(&one) && !ended.contains(&two));
        }
        let later = EndedSessions::open(folder.path(), Timestamp(2000)).0;
        assert!(later.list().ended.is_empty(), "expired sessions are removed");
    }

    #[test]
    fn a_key_that_signs_out_often_does_not_grow_the_list() {
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
    fn an_unreadable_list_ends_all_sessions_so_far() {
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
