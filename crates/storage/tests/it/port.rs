//! The file store meets the contract of the port, on every disk, with and without a runtime.

use std::sync::Arc;

use ports::contract::sessions::{SampleSession, contract};
use ports::sessions::{SessionLog as _, StoreError};
use ports::wait;
use storage::disk::{Disk, Fault, FaultyDisk, MemoryDisk, RealDisk};
use storage::files::FileSessions;

fn open(disk: impl Disk + 'static) -> FileSessions {
    FileSessions::open(Arc::new(disk)).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn files_on_a_disk_keep_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let store = || open(RealDisk::open(dir.path()).unwrap());
    runtime().block_on(contract(&store(), &store()));
}

#[test]
fn files_in_memory_keep_the_contract() {
    let disk = MemoryDisk::default();
    runtime().block_on(contract(&open(disk.clone()), &open(disk)));
    let disk = FaultyDisk::default();
    runtime().block_on(contract(&open(disk.clone()), &open(disk)));
}

#[test]
fn without_a_runtime_the_calling_thread_does_the_work() {
    let disk = MemoryDisk::default();
    wait(contract(&open(disk.clone()), &open(disk)));
}

#[test]
fn a_failed_append_is_not_recorded_unless_the_error_says_that_it_may_be() {
    let append = |disk: &FaultyDisk, fault: Option<usize>| {
        let store = open(disk.clone());
        let mut walk = SampleSession::new("unknown outcome");
        wait(store.create(walk.start())).unwrap();
        let before = walk.events.clone();
        let writer = wait(store.lock(walk.session.clone(), None)).unwrap();
        if let Some(step) = fault {
            // Steps are counted from here.
            disk.set_fault(Fault::ErrorAt(step));
        }
        let first = disk.writes();
        let appended = wait(writer.append(walk.advance("x")));
        let steps = disk.writes() - first;
        let logged = wait(open(disk.clone()).load(walk.session.clone())).unwrap().events;
        (appended, steps, logged == before, logged == walk.events)
    };
    let (_, steps, ..) = append(&FaultyDisk::default(), None);
    let mut unknown = 0;
    for step in 0..steps {
        let (appended, _, is_absent, is_recorded) = append(&FaultyDisk::default(), Some(step));
        assert!(is_absent || is_recorded, "whole or absent, error at write {step}");
        match appended {
            Ok(_) => assert!(is_recorded, "error at write {step}"),
            Err(StoreError::OutcomeUnknown { cause, .. }) => {
                assert!(matches!(*cause, StoreError::Disk { .. }), "error at write {step}: {cause}");
                unknown += 1;
            }
            Err(error) => assert!(is_absent, "error at write {step}: {error}"),
        }
    }
    assert!(unknown > 0, "writing the manifest has an unknown outcome");
}
