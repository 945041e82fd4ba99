//! Simulates a crash before every write, with every possible state of the disk afterwards.

use guide::record::EventIndex;
use storage::StoreError;
use storage::disk::{Disk as _, DiskPath, Fault, FaultyDisk, Survival};
use storage::files::{ChainState, Retention, SessionFiles};

use crate::support::{SampleSession, Step, events, open, session};

/// A session from before chains were introduced begins one, and no crash in between looks like tampering.
#[test]
fn a_chain_that_begins_late_is_whole_or_absent_at_every_crash_point() {
    let disk = FaultyDisk::default();
    let mut walk = session(&disk, "late", 2);
    let old = walk.events.len() as u64;
    let chain = DiskPath::parse(&format!("sessions/{}/chain.jsonl", walk.session)).unwrap();
    disk.remove_file(&chain).unwrap();
    disk.sync_dir(Some(&DiskPath::parse(&format!("sessions/{}", walk.session)).unwrap())).unwrap();
    let step = walk.advance("begins the chain");
    let next = walk.advance("the one after");
    let begun = ChainState::Intact { begun_at: EventIndex(old) };
    crash_everywhere(
        &disk,
        |files| step.append(files, None).map(drop),
        |disk, done, name| {
            let files = open(disk);
            let found = files.verify(&walk.session).unwrap();
            assert!(
                found.chain == begun || (!done && found.chain == ChainState::Missing),
                "{name}: {found:?}"
            );
            if found.events as u64 == old {
                step.append(&files, None).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            next.append(&files, None).unwrap_or_else(|error| panic!("{name}: {error}"));
            let after = open(&disk.surviving(Survival::OnlySynced)).verify(&walk.session).unwrap();
            assert_eq!(after.chain, begun, "{name}");
            assert!(after.is_sound(), "{name}: {after:?}");
        },
    );
}

/// Crashes `operation` before each of its writes, and checks each possible state of the disk.
fn crash_everywhere(
    before: &FaultyDisk,
    operation: impl Fn(&SessionFiles) -> Result<(), StoreError>,
    mut look: impl FnMut(&FaultyDisk, bool, &str),
) {
    let counting = before.copy(Fault::None);
    operation(&open(&counting)).unwrap();
    let writes = counting.writes();
    assert!(writes > 3, "the operation writes: {writes}");
    for point in 0..=writes {
        let disk = before.copy(Fault::CrashBefore(point));
        let done = operation(&open(&disk)).is_ok();
        assert_eq!(done, point == writes, "crash before write {point}");
        for survival in Survival::ALL {
            look(
                &disk.surviving(survival),
                done,
                &format!("crash before write {point} of {writes}, {survival:?}"),
            );
        }
    }
}

/// In every case, the session is as before or as after the append, and the next append repairs it.
fn is_whole(before: &FaultyDisk, walk: &SampleSession, step: &Step, next: &Step) {
    let old = walk.events.len() - step.plan.events().len() - next.plan.events().len();
    let new = walk.events.len() - next.plan.events().len();
    crash_everywhere(
        before,
        |files| step.append(files, None).map(drop),
        |disk, done, name| {
            let seen = events(disk, &walk.session).unwrap_or_else(|| panic!("{name}: the session is lost"));
            assert!(seen.len() == old || seen.len() == new, "{name}: {} events", seen.len());
            assert!(!done || seen.len() == new, "{name}: an acknowledged append is lost");
            assert_eq!(seen, walk.events[..seen.len()], "{name}");
            let files = open(disk);
            let unmended = files.verify(&walk.session).unwrap();
            assert!(unmended.chain.covers_everything(), "{name}: a crash is not tampering: {unmended:?}");
            if seen.len() == old {
                step.append(&files, None).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            next.append(&files, None).unwrap_or_else(|error| panic!("{name}, the append after: {error}"));
            let verified = open(disk).verify(&walk.session).unwrap();
            assert!(verified.is_sound(), "{name}: {verified:?}");
            assert!(verified.chain.covers_everything(), "{name}: {verified:?}");
            // The append is durable, regardless of what the crash left unsynced.
            let again = events(&disk.surviving(Survival::OnlySynced), &walk.session);
            assert_eq!(again.as_ref(), Some(&walk.events), "{name}, after a second crash");
        },
    );
}

#[test]
fn an_advance_is_whole_or_absent_at_every_crash_point() {
    let disk = FaultyDisk::default();
    let mut walk = session(&disk, "advance", 2);
    let step = walk.advance("the one that crashes");
    let next = walk.advance("the one after");
    is_whole(&disk, &walk, &step, &next);
}

#[test]
fn a_checkpoint_is_whole_or_absent_at_every_crash_point() {
    let disk = FaultyDisk::default();
    let mut walk = session(&disk, "checkpoint", 1);
    let step = walk.checkpoint();
    let next = walk.advance("the one after");
    is_whole(&disk, &walk, &step, &next);
}

#[test]
fn an_advance_with_an_artifact_is_whole_or_absent_at_every_crash_point() {
    let disk = FaultyDisk::default();
    let mut walk = session(&disk, "artifact", 1);
    let step = walk.advance_with_artifact(br#"{"large":true}"#);
    let next = walk.checkpoint();
    is_whole(&disk, &walk, &step, &next);
}

#[test]
fn a_start_is_whole_or_absent_at_every_crash_point() {
    let mut walk = SampleSession::new("start");
    let start = walk.start();
    let next = walk.advance("the first");
    crash_everywhere(
        &FaultyDisk::default(),
        |files| start.create(files).map(drop),
        |disk, done, name| {
            let seen = events(disk, &walk.session);
            assert!(!done || seen.is_some(), "{name}: an acknowledged start is lost");
            let files = open(disk);
            match seen {
                Some(seen) => assert_eq!(seen, start.plan.events(), "{name}"),
                None => drop(start.create(&files).unwrap_or_else(|error| panic!("{name}: {error}"))),
            }
            next.append(&files, None).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(files.verify(&walk.session).unwrap().chain.covers_everything(), "{name}");
            let again = events(&disk.surviving(Survival::OnlySynced), &walk.session);
            assert_eq!(again.as_ref(), Some(&walk.events), "{name}, after a second crash");
        },
    );
}

#[test]
fn an_import_of_many_plans_is_whole_or_absent_at_every_crash_point() {
    let mut walk = SampleSession::new("import");
    let steps: Vec<_> =
        std::iter::once(walk.start()).chain((0..3).map(|number| walk_advance(&mut walk, number))).collect();
    let plans: Vec<_> = steps.iter().map(|step| step.plan.clone()).collect();
    let mut attachments = steps[0].attachments();
    for step in &steps[1..] {
        attachments.snapshots.extend(step.attachments().snapshots);
    }
    crash_everywhere(
        &FaultyDisk::default(),
        |files| files.create(&plans, &attachments).map(drop),
        |disk, done, name| match events(disk, &walk.session) {
            Some(seen) => {
                assert_eq!(seen, walk.events, "{name}");
                assert!(open(disk).verify(&walk.session).unwrap().chain.covers_everything(), "{name}");
            }
            None => assert!(!done, "{name}: an acknowledged import is lost"),
        },
    );
}

fn walk_advance(walk: &mut SampleSession, number: usize) -> Step {
    walk.advance(&format!("imported {number}"))
}

#[test]
fn a_collection_never_takes_what_is_needed_at_any_crash_point() {
    let disk = FaultyDisk::default();
    let old = session(&disk, "old", 2);
    let mut young = SampleSession::new("young");
    young.now_ms = 5_000_000;
    let files = open(&disk);
    let mut cursor = young.start().create(&files).unwrap().cursor;
    for _ in 0..3 {
        cursor = young.advance("shared steps").append(&files, Some(&cursor)).unwrap().cursor;
    }
    let retention = Retention { now_ms: 5_000_001, ttl_ms: 1_000_000, dry_run: false };
    crash_everywhere(
        &disk,
        |files| files.gc(retention).map(drop),
        |disk, done, name| {
            let files = open(disk);
            assert!(files.verify(&young.session).unwrap().is_sound(), "{name}");
            match files.verify(&old.session) {
                // Its snapshots are shared with the younger session, or not deleted yet.
                Ok(verified) => assert!(!done && verified.is_sound(), "{name}: {verified:?}"),
                Err(error) => assert!(matches!(error, StoreError::Unknown { .. }), "{name}: {error}"),
            }
            files.gc(retention).unwrap();
            assert_eq!(files.sessions().unwrap(), [young.session.clone()], "{name}");
            assert!(files.verify(&young.session).unwrap().is_sound(), "{name}, after the next collection");
            assert!(disk.files().keys().all(|path| !path.contains(".trash")), "{name}");
        },
    );
}

#[test]
fn a_full_disk_loses_nothing_and_says_so() {
    let disk = FaultyDisk::default();
    let mut walk = session(&disk, "full", 2);
    let before = walk.events.len();
    let step = walk.advance("does not fit");
    let counting = disk.copy(Fault::None);
    step.append(&open(&counting), None).unwrap();
    for point in 0..counting.writes() {
        let full = disk.copy(Fault::FullFrom(point));
        // Syncs, renames and removals need no space, so some points are after the last write that does.
        if let Err(error) = step.append(&open(&full), None) {
            assert_eq!(error.envelope().code(), "STORE_FULL", "full from write {point}: {error}");
        }
        full.set_fault(Fault::None);
        let seen = events(&full, &walk.session).unwrap();
        assert!(seen.len() == before || seen.len() == walk.events.len(), "full from write {point}");
        if seen.len() == before {
            step.append(&open(&full), None).unwrap();
        }
        assert!(open(&full).verify(&walk.session).unwrap().is_sound(), "full from write {point}");
    }
}

#[test]
fn an_error_of_the_disk_leaves_a_session_that_can_go_on() {
    let disk = FaultyDisk::default();
    let mut walk = session(&disk, "error", 1);
    let before = walk.events.len();
    let step = walk.advance("meets an error");
    let counting = disk.copy(Fault::None);
    step.append(&open(&counting), None).unwrap();
    for point in 0..counting.writes() {
        let failing = disk.copy(Fault::ErrorAt(point));
        let files = open(&failing);
        let mut writer = match files.lock(&walk.session, None) {
            Ok(writer) => writer,
            // Reading makes the writes of others durable, and that can fail too.
            Err(error) => {
                assert_eq!(error.envelope().code(), "STORE_IO", "error at {point}");
                files.lock(&walk.session, None).unwrap();
                continue;
            }
        };
        let error = writer.append(&step.plan, &step.attachments()).unwrap_err();
        assert_eq!(error.envelope().code(), "STORE_IO", "error at {point}");
        // It is unknown what reached the disk, so the same writer refuses to continue.
        let again = writer.append(&step.plan, &step.attachments()).unwrap_err();
        assert_eq!(again.envelope().code(), "SESSION_MOVED", "error at {point}");
        drop(writer);
        if files.load(&walk.session).unwrap().events.len() == before {
            step.append(&files, None).unwrap();
        }
        let again = events(&failing.surviving(Survival::OnlySynced), &walk.session).unwrap();
        assert!(again.len() == walk.events.len(), "error at {point}: {} events", again.len());
    }
}

#[test]
fn a_read_only_directory_can_be_read_and_says_that_it_cannot_be_written() {
    let disk = FaultyDisk::default();
    let mut walk = session(&disk, "read-only", 2);
    let step = walk.advance("cannot be written");
    let frozen = disk.copy(Fault::ReadOnly);
    let files = open(&frozen);
    let old = walk.events.len() - step.plan.events().len();
    assert_eq!(files.load(&walk.session).unwrap().events.len(), old);
    assert_eq!(step.append(&files, None).unwrap_err().envelope().code(), "STORE_READ_ONLY");
    let mut other = SampleSession::new("another");
    assert_eq!(other.start().create(&files).unwrap_err().envelope().code(), "STORE_READ_ONLY");
    assert_eq!(frozen.files(), disk.files());
}
