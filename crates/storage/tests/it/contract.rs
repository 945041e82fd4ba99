//! The contract of session stores, as functions that take a store.
//!
//! Another adapter implements [`Store`] and calls the same functions.

use guide::record::{Event, SessionId};
use storage::StoreError;
use storage::disk::{FaultyDisk, MemoryDisk, RealDisk};
use storage::files::SessionFiles;

use crate::support::{SampleSession, Step, open};

/// A session store, as the contract uses it.
trait Store {
    fn create(&self, step: &Step) -> Result<(), StoreError>;
    fn append(&self, step: &Step) -> Result<(), StoreError>;
    fn read(&self, session: &SessionId) -> Result<Vec<Event>, StoreError>;
    fn sessions(&self) -> Vec<SessionId>;
    /// Runs `inside` while the session is locked.
    fn locked(&self, session: &SessionId, inside: &mut dyn FnMut());
}

impl Store for SessionFiles {
    fn create(&self, step: &Step) -> Result<(), StoreError> {
        step.create(self).map(drop)
    }

    fn append(&self, step: &Step) -> Result<(), StoreError> {
        step.append(self, None).map(drop)
    }

    fn read(&self, session: &SessionId) -> Result<Vec<Event>, StoreError> {
        self.load(session).map(|loaded| loaded.events)
    }

    fn sessions(&self) -> Vec<SessionId> {
        self.sessions().unwrap()
    }

    fn locked(&self, session: &SessionId, inside: &mut dyn FnMut()) {
        let writer = self.lock(session, None).unwrap();
        inside();
        drop(writer);
    }
}

fn code(result: Result<(), StoreError>) -> &'static str {
    result.unwrap_err().envelope().code()
}

fn what_is_appended_is_read_in_order(store: &dyn Store) {
    let mut walk = SampleSession::new("contract-order");
    store.create(&walk.start()).unwrap();
    for number in 0..5 {
        store.append(&walk.advance(&number.to_string())).unwrap();
        assert_eq!(store.read(&walk.session).unwrap(), walk.events);
    }
    assert!(store.sessions().contains(&walk.session));
}

fn a_plan_for_another_end_is_refused_and_changes_nothing(store: &dyn Store) {
    let mut walk = SampleSession::new("contract-conflict");
    store.create(&walk.start()).unwrap();
    let first = walk.advance("first");
    let second = walk.advance("second");
    assert_eq!(code(store.append(&second)), "SESSION_MOVED", "too early");
    store.append(&first).unwrap();
    assert_eq!(code(store.append(&first)), "SESSION_MOVED", "twice");
    store.append(&second).unwrap();
    assert_eq!(store.read(&walk.session).unwrap(), walk.events);
}

fn unknown_and_existing_sessions_have_different_errors(store: &dyn Store) {
    let mut walk = SampleSession::new("contract-unknown");
    let start = walk.start();
    let step = walk.advance("x");
    assert_eq!(code(store.append(&step)), "SESSION_UNKNOWN");
    assert_eq!(store.read(&walk.session).unwrap_err().envelope().code(), "SESSION_UNKNOWN");
    assert!(!store.sessions().contains(&walk.session), "asking does not make one");
    store.create(&start).unwrap();
    assert_eq!(code(store.create(&start)), "SESSION_EXISTS");
}

fn a_locked_session_is_busy_for_writers_and_open_to_readers(store: &dyn Store, other: &dyn Store) {
    let mut walk = SampleSession::new("contract-lock");
    store.create(&walk.start()).unwrap();
    let step = walk.advance("x");
    store.locked(&walk.session.clone(), &mut || {
        for store in [store, other] {
            let error = store.append(&step).unwrap_err().envelope();
            assert_eq!(error.code(), "SESSION_LOCKED");
            assert_eq!(error.retry_hint().after_ms(), Some(250));
            assert_eq!(store.read(&walk.session).unwrap().len(), 3);
        }
    });
    other.append(&step).unwrap();
    assert_eq!(store.read(&walk.session).unwrap(), walk.events);
}

fn contract(store: &dyn Store, other: &dyn Store) {
    what_is_appended_is_read_in_order(store);
    a_plan_for_another_end_is_refused_and_changes_nothing(store);
    unknown_and_existing_sessions_have_different_errors(store);
    a_locked_session_is_busy_for_writers_and_open_to_readers(store, other);
}

#[test]
fn files_in_memory_keep_the_contract() {
    let disk = FaultyDisk::default();
    contract(&open(&disk), &open(&disk));
    let disk = MemoryDisk::default();
    let files = || SessionFiles::open(std::sync::Arc::new(disk.clone())).unwrap();
    contract(&files(), &files());
}

#[test]
fn files_on_a_disk_keep_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let files = || SessionFiles::open(std::sync::Arc::new(RealDisk::open(dir.path()).unwrap())).unwrap();
    contract(&files(), &files());
}
