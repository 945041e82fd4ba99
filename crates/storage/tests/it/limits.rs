//! How much an advance writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use storage::disk::{Disk, FaultyDisk, RealDisk};
use storage::files::SessionFiles;

use crate::support::{SampleSession, open};

/// The number of files, and their size in bytes.
fn measure(path: &Path) -> (usize, u64) {
    let mut open = vec![path.to_owned()];
    let (mut files, mut bytes) = (0, 0);
    while let Some(path) = open.pop() {
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            open.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files += 1;
            bytes += metadata.len();
        }
    }
    (files, bytes)
}

#[test]
fn an_advance_writes_two_files_and_less_than_four_kilobytes_however_long_the_run_is() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(dir.path()).unwrap());
    let files = SessionFiles::open(disk).unwrap();
    let mut walk = SampleSession::new("bytes");
    let mut cursor = walk.start().create(&files).unwrap().cursor;
    let mut measured = BTreeMap::new();
    for number in 1..=500_usize {
        let before = measure_at(&[5, 500, 491], number).then(|| measure(dir.path()));
        let step = walk.advance("");
        cursor = step.append(&files, Some(&cursor)).unwrap().cursor;
        if let Some((files, bytes)) = before {
            let (files_after, bytes_after) = measure(dir.path());
            // The first append after the start creates the lock.
            measured.insert(number, (files_after - files, bytes_after - bytes));
        }
    }
    for (number, (files, bytes)) in &measured {
        assert_eq!(*files, 2, "advance {number}");
        assert!(*bytes < 4000, "advance {number}: {bytes} bytes");
    }
    let (early, late) = (measured[&5].1, measured[&491].1);
    assert!(late < early + 100, "the same early and late: {measured:?}");
}

fn measure_at(numbers: &[usize], number: usize) -> bool {
    numbers.contains(&number)
}

#[test]
fn an_advance_makes_thirteen_writes_of_which_six_are_syncs() {
    let disk = FaultyDisk::default();
    let files = open(&disk);
    let mut walk = SampleSession::new("writes");
    let cursor = walk.start().create(&files).unwrap().cursor;
    let before = disk.writes();
    walk.advance("x").append(&files, Some(&cursor)).unwrap();
    // Snapshot and segment: create, sync, rename, sync of the directory. Chain: append, sync. Manifest: append, sync. The line end
    // of the chain is not synced. The syncs of the first three overlap.
    assert_eq!(disk.writes() - before, 4 + 4 + 2 + 2 + 1);
}
