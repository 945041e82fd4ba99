//! In-memory disks behave like the real one.

use proptest::prelude::*;
use storage::disk::{Disk, DiskPath, FaultyDisk, FileKind, MemoryDisk, RealDisk, Sharing};

/// Few and short, so that operations conflict.
const PATHS: [&str; 7] = ["a", "b", "a/x", "a/y", "b/x", "a/x/deep", "a/x/deep/er"];

#[derive(Clone, Debug)]
enum Step {
    CreateDir(usize),
    Create(usize, Vec<u8>),
    Append(usize, Vec<u8>),
    Truncate(usize, u64),
    Rename(usize, usize),
    RemoveFile(usize),
    RemoveDir(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let path = || 0..PATHS.len();
    let bytes = || prop::collection::vec(any::<u8>(), 0..4);
    prop_oneof![
        4 => path().prop_map(Step::CreateDir),
        3 => (path(), bytes()).prop_map(|(path, bytes)| Step::Create(path, bytes)),
        3 => (path(), bytes()).prop_map(|(path, bytes)| Step::Append(path, bytes)),
        1 => (path(), 0..6_u64).prop_map(|(path, len)| Step::Truncate(path, len)),
        3 => (path(), path()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => path().prop_map(Step::RemoveFile),
        2 => path().prop_map(Step::RemoveDir),
    ]
}

fn at(index: usize) -> DiskPath {
    DiskPath::parse(PATHS[index]).unwrap()
}

/// Whether a step succeeded.
fn take(disk: &dyn Disk, step: &Step) -> bool {
    let done = match step {
        Step::CreateDir(path) => disk.create_dir(&at(*path)),
        Step::Create(path, bytes) => disk.create(&at(*path), bytes).map(drop),
        Step::Append(path, bytes) => disk.append(&at(*path), bytes).map(drop),
        Step::Truncate(path, len) => disk.truncate(&at(*path), *len).map(drop),
        Step::Rename(from, to) => disk.rename(&at(*from), &at(*to)),
        Step::RemoveFile(path) => disk.remove_file(&at(*path)),
        Step::RemoveDir(path) => disk.remove_dir(&at(*path)),
    };
    done.is_ok()
}

/// Everything that a reader can see.
fn seen(disk: &dyn Disk) -> Vec<String> {
    let look = |path: &DiskPath| match disk.stat(path).ok().flatten() {
        None => format!("{path}: {:?}", disk.list(path).unwrap_or_default()),
        Some(stat) if stat.kind == FileKind::Dir => {
            let mut names = disk.list(path).unwrap();
            names.sort();
            format!("{path}: {names:?}")
        }
        Some(stat) => {
            let (all, some) = (disk.read_from(path, 0, 8), disk.read_range(path, 1, 2).unwrap());
            format!("{path}: {} {:?} {some:?}", stat.len, all.ok())
        }
    };
    (0..PATHS.len()).map(|index| look(&at(index))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_disk_in_memory_does_what_the_real_one_does(steps in prop::collection::vec(step(), 1..24)) {
        let dir = tempfile::tempdir().unwrap();
        let (real, memory) = (RealDisk::open(dir.path()).unwrap(), MemoryDisk::default());
        for step in &steps {
            prop_assert_eq!(take(&real, step), take(&memory, step), "{:?}", step);
            prop_assert_eq!(seen(&real), seen(&memory), "{:?}", step);
        }
        for path in (0..PATHS.len()).map(at) {
            prop_assert_eq!(real.sync_file(&path).is_ok(), memory.sync_file(&path).is_ok(), "{}", path);
            prop_assert_eq!(real.sync_dir(Some(&path)).is_ok(), memory.sync_dir(Some(&path)).is_ok(), "{}", path);
        }
    }
}

#[test]
fn a_lock_is_held_by_one_writer_or_many_readers() {
    let dir = tempfile::tempdir().unwrap();
    let disks: [&dyn Disk; 3] =
        [&RealDisk::open(dir.path()).unwrap(), &MemoryDisk::default(), &FaultyDisk::default()];
    let file = at(0);
    for disk in disks {
        let lock = |sharing| disk.try_lock(&file, sharing).unwrap();
        let first = lock(Sharing::Shared).unwrap();
        let second = lock(Sharing::Shared).unwrap();
        assert!(lock(Sharing::Exclusive).is_none());
        drop(first);
        assert!(lock(Sharing::Exclusive).is_none(), "one reader is left");
        drop(second);
        let writer = lock(Sharing::Exclusive).unwrap();
        assert!(lock(Sharing::Exclusive).is_none() && lock(Sharing::Shared).is_none());
        drop(writer);
        assert!(lock(Sharing::Shared).is_some());
        assert_ne!(disk.unique(), disk.unique());
    }
}
