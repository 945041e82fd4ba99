//! Concurrent writers of one session; and file permissions.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use storage::disk::{Disk as _, DiskPath, RealDisk, Sharing};
use storage::files::{Retention, SessionFiles};

use crate::support::SampleSession;

fn files(path: &Path) -> SessionFiles {
    SessionFiles::open(Arc::new(RealDisk::open(path).unwrap())).unwrap()
}

#[test]
fn of_many_writers_one_wins_each_round_and_the_others_must_retry() {
    let dir = tempfile::tempdir().unwrap();
    let mut walk = SampleSession::new("writers");
    let start = walk.start();
    start.create(&files(dir.path())).unwrap();
    let steps: Vec<_> = (0..6).map(|number| walk.advance(&number.to_string())).collect();
    let outcomes: Vec<&str> = thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                // A separate store: only the directory is shared, as between processes.
                let (files, steps) = (files(dir.path()), &steps);
                scope.spawn(move || {
                    let mut codes = Vec::new();
                    for step in steps {
                        loop {
                            match step.append(&files, None) {
                                Ok(_) => codes.push("OK"),
                                Err(error) => match error.envelope().code() {
                                    "SESSION_LOCKED" => continue,
                                    code => codes.push(code),
                                },
                            }
                            break;
                        }
                    }
                    codes
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|code| **code == "OK").count(), 6);
    assert!(outcomes.iter().all(|code| matches!(*code, "OK" | "SESSION_MOVED")), "{outcomes:?}");
    assert_eq!(files(dir.path()).load(&walk.session).unwrap().events, walk.events);
}

#[test]
fn a_reader_never_takes_a_writer_for_damage() {
    let dir = tempfile::tempdir().unwrap();
    let mut walk = SampleSession::new("reader");
    walk.start().create(&files(dir.path())).unwrap();
    let steps: Vec<_> = (0..40).map(|number| walk.advance(&number.to_string())).collect();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let files = files(dir.path());
            let mut cursor = files.load(&walk.session).unwrap().cursor;
            let mut seen = cursor.next_event().0;
            while seen < walk.events.len() as u64 {
                let loaded = files.load_since(&cursor).unwrap();
                assert_eq!(
                    loaded.events,
                    walk.events[usize::try_from(seen).unwrap()..][..loaded.events.len()]
                );
                seen += loaded.events.len() as u64;
                cursor = loaded.cursor;
            }
        });
        let files = files(dir.path());
        for step in &steps {
            step.append(&files, None).unwrap();
        }
        reader.join().unwrap();
    });
}

#[test]
fn a_collection_waits_for_writers_and_writers_for_a_collection() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    let mut walk = SampleSession::new("gc-lock");
    walk.start().create(&files).unwrap();
    let retention = Retention { now_ms: 0, ttl_ms: 1, dry_run: false };
    let writer = files.lock(&walk.session, None).unwrap();
    assert_eq!(files.gc(retention).unwrap_err().envelope().code(), "STORE_BUSY");
    drop(writer);
    let disk = RealDisk::open(dir.path()).unwrap();
    let lock = DiskPath::parse("sessions/.store.lock").unwrap();
    let held = disk.try_lock(&lock, Sharing::Exclusive).unwrap().unwrap();
    let error = files.lock(&walk.session, None).unwrap_err().envelope();
    assert_eq!((error.code(), error.retry_hint().after_ms()), ("STORE_BUSY", Some(250)));
    drop(held);
    files.lock(&walk.session, None).unwrap();
}

#[test]
fn files_and_directories_are_for_their_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("data/interlock");
    let files = files(&root);
    let mut walk = SampleSession::new("modes");
    let cursor = walk.start().create(&files).unwrap().cursor;
    walk.advance_with_artifact(b"{}").append(&files, Some(&cursor)).unwrap();
    files.keyring_or_create([7; 32]).unwrap();
    files.set_kept(&walk.session, true).unwrap();
    let mut open = vec![root];
    let mut seen = 0;
    while let Some(path) = open.pop() {
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.permissions().mode() & 0o777, expected, "{}", path.display());
        seen += 1;
        if metadata.is_dir() {
            open.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(seen > 15, "{seen}");
}

#[test]
fn no_link_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let root = dir.path().join("data");
    let files = files(&root);
    let mut walk = SampleSession::new("links");
    walk.start().create(&files).unwrap();
    let snapshots = root.join("snapshots");
    std::fs::rename(&snapshots, dir.path().join("moved")).unwrap();
    std::os::unix::fs::symlink(&outside, &snapshots).unwrap();
    let error = walk.advance("x").append(&files, None).unwrap_err();
    assert_eq!(error.envelope().code(), "STORE_IO");
    assert_eq!(std::fs::read_dir(outside).unwrap().count(), 0);
}

#[test]
fn keys_are_made_once_and_rotated_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    assert_eq!(files.keyring().unwrap(), None);
    let first = files.keyring_or_create([1; 32]).unwrap();
    assert_eq!(files.keyring_or_create([2; 32]).unwrap(), first);
    let second = files.rotate_keys([3; 32]).unwrap();
    assert_eq!(second.previous.as_ref(), Some(&first.current));
    assert_eq!(files.keyring().unwrap(), Some(second));
}

#[test]
fn damaged_and_newer_keys_are_reported_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    files.keyring_or_create([1; 32]).unwrap();
    let path = dir.path().join("keys/keyring.json");
    for (text, code) in [
        ("{}", "KEYRING_INVALID"),
        ("", "KEYRING_INVALID"),
        ("{\"v\":1,\"current\":\"short\"}", "KEYRING_INVALID"),
        ("{\"v\":2,\"future\":true}", "KEYRING_UNSUPPORTED_VERSION"),
    ] {
        std::fs::write(&path, text).unwrap();
        for error in [
            files.keyring().unwrap_err(),
            files.keyring_or_create([4; 32]).unwrap_err(),
            files.rotate_keys([5; 32]).unwrap_err(),
        ] {
            assert_eq!(error.envelope().code(), code, "{text}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
