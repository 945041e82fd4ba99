//! Snapshots are restored exactly.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use sha2::{Digest as _, Sha256};
use workspace::plan::Grant;
use workspace::resolve::Content;
use workspace::rooted::Dir;
use workspace::slot::{Mode, Slot};
use workspace::snapshot::{self, Member, Packed, Reason, Request, Snapshot};
use workspace::{Code, Error};

pub(crate) const GRANTS: [Grant; 4] = [
    Grant { slot: Slot::Tmp, mode: Mode::ReadWrite },
    Grant { slot: Slot::Inputs, mode: Mode::ReadOnly },
    Grant { slot: Slot::Repos, mode: Mode::ReadOnly },
    Grant { slot: Slot::Deliverables, mode: Mode::ReadWrite },
];

/// The default writable slots.
pub(crate) const WRITABLE: [Slot; 2] = [Slot::Tmp, Slot::Deliverables];

pub(crate) fn request<'a>() -> Request<'a> {
    Request {
        apply_id: "a1",
        plan_digest: "d1",
        created_at: "2026-11-15T12:00:00Z",
        grants: &GRANTS,
        persistence: &[],
        excludes: &[],
    }
}

/// A root with the empty slots of [`GRANTS`].
pub(crate) fn root() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for grant in GRANTS {
        fs::create_dir(root.path().join(grant.slot.relative())).unwrap();
    }
    root
}

pub(crate) fn write(root: &Path, path: &str, bytes: &[u8], mode: u32) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = File::create(&path).unwrap();
    file.write_all(bytes).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn save(root: &Path, path: &Path) -> Result<Packed, Error> {
    snapshot::save(&Dir::open_root(root).unwrap(), &request(), path)
}

/// Unpacks below a directory, as an apply does.
pub(crate) fn unpack(snapshot: &Snapshot, into: &Path) -> Result<(), Error> {
    let into = Dir::open_root(into).unwrap();
    snapshot.unpack(&WRITABLE, &mut |Member { path, mode, mtime, content }| {
        let mut file = match content {
            Content::Directory => {
                into.make_dir(&path, mode).unwrap();
                return Ok(());
            }
            Content::Link(target) => {
                into.symlink(&target, &path).unwrap();
                return Ok(());
            }
            Content::Bytes(bytes) => {
                let mut file = into.create_file(&path, mode).unwrap();
                file.write_all(&bytes).unwrap();
                file
            }
            Content::File(mut from) => {
                let mut file = into.create_file(&path, mode).unwrap();
                std::io::copy(&mut from, &mut file).unwrap();
                file
            }
        };
        let mtime = Duration::from_secs(mtime.unwrap().unsigned_abs());
        file.flush().unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + mtime).unwrap();
        Ok(())
    })
}

/// Everything below some slots: mode, mtime of a file in seconds, and content.
pub(crate) fn tree(root: &Path, slots: &[&str]) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut waiting: Vec<PathBuf> = slots.iter().map(PathBuf::from).collect();
    while let Some(path) = waiting.pop() {
        let full = root.join(&path);
        let stat = fs::symlink_metadata(&full).unwrap();
        let (mtime, content) = if stat.is_dir() {
            waiting.extend(fs::read_dir(&full).unwrap().map(|entry| path.join(entry.unwrap().file_name())));
            (0, b"dir".to_vec())
        } else if stat.is_symlink() {
            (0, fs::read_link(&full).unwrap().into_os_string().into_encoded_bytes())
        } else {
            (stat.mtime(), fs::read(&full).unwrap())
        };
        all.insert(path, (stat.mode() & 0o777, mtime, content));
    }
    all
}

fn full() -> tempfile::TempDir {
    let root = root();
    write(root.path(), "inputs/inputs.json", b"{}", 0o444);
    write(root.path(), "repos/r/read-only-here", b"x", 0o644);
    write(root.path(), "tmp/.keep", b"", 0o644);
    write(root.path(), "deliverables/report.md", b"# Report\n", 0o644);
    write(root.path(), "deliverables/bin/run", b"#!/bin/sh\n", 0o755);
    write(root.path(), "deliverables/bin.txt", b"between in bytes", 0o600);
    write(root.path(), "deliverables/\u{fc}ml\u{e4}ut \u{1f600}.md", b"name", 0o644);
    write(root.path(), &format!("deliverables/{}/{}", "d".repeat(200), "f".repeat(200)), b"long", 0o644);
    write(root.path(), "deliverables/seed.md", b"seed", 0o444);
    write(root.path(), "deliverables/large", &vec![7; 9 << 20], 0o644);
    fs::create_dir(root.path().join("deliverables/empty")).unwrap();
    symlink("bin/run", root.path().join("deliverables/link")).unwrap();
    symlink(format!("bin/{}", "x".repeat(150)), root.path().join("deliverables/long-link")).unwrap();
    root
}

#[test]
fn a_snapshot_restores_the_packed_files() {
    // Case 48: packed twice, deleted, and restored.
    let (root, outside) = (full(), tempfile::tempdir().unwrap());
    let [once, twice] = ["once.tar.zst", "twice.tar.zst"].map(|name| {
        let path = outside.path().join(name);
        save(root.path(), &path).unwrap();
        path
    });
    assert!(fs::read(&once).unwrap() == fs::read(&twice).unwrap(), "the same bytes");
    let restored = tempfile::tempdir().unwrap();
    let opened = Snapshot::open(&once).unwrap();
    unpack(&opened, restored.path()).unwrap();
    let slots = ["tmp", "deliverables"];
    assert!(tree(root.path(), &slots) == tree(restored.path(), &slots));
    assert!(!restored.path().join("inputs").exists() && !restored.path().join("repos").exists());
    for name in ["inputs", "repos"] {
        fs::create_dir(restored.path().join(name)).unwrap();
    }
    let again = outside.path().join("again.tar.zst");
    save(restored.path(), &again).unwrap();
    assert!(fs::read(&once).unwrap() == fs::read(&again).unwrap(), "what came back packs to the same bytes");
}

#[test]
fn the_listing_is_complete() {
    let (root, outside) = (full(), tempfile::tempdir().unwrap());
    let path = outside.path().join("s.tar.zst");
    let packed = save(root.path(), &path).unwrap();
    let opened = Snapshot::open(&path).unwrap();
    let listing = opened.listing();
    assert_eq!((listing.schema, listing.apply_id.as_str(), listing.plan_digest.as_str()), (1, "a1", "d1"));
    assert_eq!(listing.slots, ["tmp", "deliverables"]);
    assert!(listing.files.is_sorted_by(|left, right| left.path.as_bytes() < right.path.as_bytes()));
    let run = listing.files.iter().find(|file| file.path == "deliverables/bin/run").unwrap();
    let hash: String = Sha256::digest(b"#!/bin/sh\n").iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        serde_json::to_value(run).unwrap(),
        serde_json::json!({
            "path": "deliverables/bin/run", "size": 10, "mode": 0o755, "sha256": hash, "mtime": 1_700_000_000,
        }),
    );
    assert_eq!((packed.files, packed.excluded.len()), (9 + 1, 0));
    assert_eq!(packed.sha256, opened.sha256());
    assert_eq!(packed.bytes, fs::metadata(&path).unwrap().len());
    let beside = fs::read_to_string(snapshot::sidecar(&path)).unwrap();
    assert_eq!(beside, format!("{}  s.tar.zst\n", packed.sha256));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 2, "and nothing half done");
}

#[test]
fn a_snapshot_is_readable_by_tar() {
    let (root, outside) = (full(), tempfile::tempdir().unwrap());
    let path = outside.path().join("s.tar.zst");
    save(root.path(), &path).unwrap();
    let opened = Snapshot::open(&path).unwrap();
    let mut archive = tar::Archive::new(zstd::Decoder::new(File::open(&path).unwrap()).unwrap());
    let mut seen = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let header = entry.header();
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
        let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        let target = entry.link_name_bytes().map(|target| String::from_utf8(target.into_owned()).unwrap());
        let mode = entry.header().mode().unwrap();
        let mtime = entry.header().mtime().unwrap();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        seen.push((path.trim_end_matches('/').to_owned(), mode, mtime, content.len() as u64, target));
    }
    assert_eq!(seen.remove(0).0, "snapshot.json");
    let listed: Vec<_> = opened
        .listing()
        .files
        .iter()
        .map(|file| (file.path.clone(), file.mode, file.mtime, file.size, file.target.clone()))
        .collect();
    assert_eq!(seen, listed);
}

#[test]
fn excluded_entries_are_listed() {
    let (root, outside) = (root(), tempfile::tempdir().unwrap());
    let slot = root.path().join("deliverables");
    for path in [
        "deliverables/r/.git/index.lock",
        "deliverables/r/.git/refs/heads/main.lock",
        "deliverables/r/Cargo.lock",
        "deliverables/target/debug/x",
        "deliverables/targets",
        "deliverables/back\\slash",
        "deliverables/line\nfeed",
    ] {
        write(root.path(), path, b"x", 0o644);
    }
    symlink("/etc/passwd", slot.join("absolute")).unwrap();
    symlink("../tmp", slot.join("climbs")).unwrap();
    symlink("a/../b", slot.join("turns")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(slot.join("socket")).unwrap());
    assert!(std::process::Command::new("mkfifo").arg(slot.join("pipe")).status().unwrap().success());
    let request = Request {
        excludes: &["deliverables/target".to_owned()],
        persistence: &["deliverables/r".to_owned(), "inputs".to_owned(), ".cache".to_owned()],
        ..request()
    };
    let path = outside.path().join("s");
    let packed = snapshot::save(&Dir::open_root(root.path()).unwrap(), &request, &path).unwrap();
    let excluded: Vec<_> =
        packed.excluded.iter().map(|excluded| (excluded.path.as_str(), excluded.why)).collect();
    let expected = [
        (".cache", Reason::NotWritable),
        ("deliverables/absolute", Reason::UnsafeLink),
        ("deliverables/back\\slash", Reason::UnsafePath),
        ("deliverables/climbs", Reason::UnsafeLink),
        ("deliverables/line\nfeed", Reason::UnsafePath),
        ("deliverables/pipe", Reason::SpecialFile),
        ("deliverables/r/.git/index.lock", Reason::GitLock),
        ("deliverables/r/.git/refs/heads/main.lock", Reason::GitLock),
        ("deliverables/socket", Reason::SpecialFile),
        ("deliverables/target", Reason::Configured),
        ("deliverables/turns", Reason::UnsafeLink),
        ("inputs", Reason::NotWritable),
    ];
    assert_eq!(excluded, expected);
    let opened = Snapshot::open(&path).unwrap();
    assert!(opened.listing().files.iter().any(|file| file.path == "deliverables/r/Cargo.lock"));
    assert_eq!(opened.listing().excluded, packed.excluded);
    unpack(&opened, tempfile::tempdir().unwrap().path()).unwrap();
}

#[test]
fn a_slot_that_is_a_link_is_not_packed() {
    let (root, outside) = (root(), tempfile::tempdir().unwrap());
    fs::remove_dir(root.path().join("deliverables")).unwrap();
    symlink("/etc", root.path().join("deliverables")).unwrap();
    let error = save(root.path(), &outside.path().join("s")).unwrap_err();
    assert_eq!(error.code(), Code::ApplyUnsafeSymlink);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_snapshot_of_changing_files_is_consistent_or_refused() {
    let (root, outside) = (root(), tempfile::tempdir().unwrap());
    let stop = AtomicBool::new(false);
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                count += 1;
                let text = format!("{count:08}").repeat(20_000);
                let _ = fs::write(root.path().join("deliverables/busy"), text);
            }
        });
        let outcomes = (0..10)
            .map(|n| {
                let path = outside.path().join(format!("s{n}"));
                save(root.path(), &path).map(|_| path)
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        outcomes
    });
    for outcome in outcomes {
        match outcome {
            Ok(path) => unpack(&Snapshot::open(&path).unwrap(), tempfile::tempdir().unwrap().path()).unwrap(),
            Err(error) => assert_eq!(error.code(), Code::SnapshotFileChanged),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_tree_round_trips(
        files in proptest::collection::btree_map("[ab.]{1,2}(/[ab\u{e9} ]{1,3}){0,3}", any::<(Vec<u8>, bool)>(), 0..10),
    ) {
        let (root, outside) = (root(), tempfile::tempdir().unwrap());
        for (path, (bytes, executable)) in &files {
            let path = root.path().join("deliverables").join(path);
            // If one is a directory of another, the first one wins.
            if fs::create_dir_all(path.parent().unwrap()).is_ok() && fs::write(&path, bytes).is_ok() {
                let mode = if *executable { 0o755 } else { 0o640 };
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        let path = outside.path().join("s");
        save(root.path(), &path).unwrap();
        let restored = tempfile::tempdir().unwrap();
        unpack(&Snapshot::open(&path).unwrap(), restored.path()).unwrap();
        let slots = ["tmp", "deliverables"];
        prop_assert_eq!(tree(root.path(), &slots), tree(restored.path(), &slots));
    }
}
