//! Manipulated snapshots are refused, and none of their content is used.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use workspace::slot::Slot;
use workspace::snapshot::{MAX_MEMBERS, Snapshot, sidecar};
use workspace::{Code, Error};

use crate::snapshot::{root, save, tree, unpack, write};

/// A snapshot of two small files and a link, decompressed to plain tar.
fn plain() -> Vec<u8> {
    let (root, outside) = (root(), tempfile::tempdir().unwrap());
    write(root.path(), "deliverables/a", b"first", 0o644);
    write(root.path(), "deliverables/b", b"second", 0o644);
    std::os::unix::fs::symlink("b", root.path().join("deliverables/c")).unwrap();
    let path = outside.path().join("s");
    save(root.path(), &path).unwrap();
    zstd::decode_all(File::open(&path).unwrap()).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Opens packed bytes with a matching hash, and unpacks them.
fn restore(packed: &[u8], into: &Path) -> Result<(), Error> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(packed).unwrap();
    unpack(&Snapshot::from_file(file, &sha256(packed))?, into)
}

fn pack(tar: &[u8]) -> Vec<u8> {
    zstd::encode_all(tar, 3).unwrap()
}

fn refused(packed: &[u8]) -> Error {
    let into = tempfile::tempdir().unwrap();
    restore(packed, into.path()).unwrap_err()
}

/// Fixes size and checksum of a header after its other fields were changed.
fn seal(header: &mut [u8], size: usize) {
    header[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    header[148..156].fill(b' ');
    let sum: u32 = header[..512].iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

/// Splits an archive into its listing and the rest.
fn parts(tar: &[u8]) -> (Value, Vec<u8>) {
    let size = usize::from_str_radix(std::str::from_utf8(&tar[124..135]).unwrap(), 8).unwrap();
    let listing = serde_json::from_slice(&tar[512..512 + size]).unwrap();
    (listing, tar[512 + size.next_multiple_of(512)..].to_vec())
}

/// The inverse.
fn join(listing: &Value, rest: &[u8]) -> Vec<u8> {
    join_text(&serde_json::to_vec(listing).unwrap(), rest)
}

fn join_text(text: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut tar = plain()[..512].to_vec();
    seal(&mut tar, text.len());
    tar.extend(text);
    tar.resize(tar.len().next_multiple_of(512), 0);
    tar.extend(rest);
    tar
}

#[test]
fn a_reassembled_archive_is_accepted() {
    let into = tempfile::tempdir().unwrap();
    let (listing, rest) = parts(&plain());
    restore(&pack(&join(&listing, &rest)), into.path()).unwrap();
    assert_eq!(fs::read(into.path().join("deliverables/b")).unwrap(), b"second");
}

#[test]
fn a_flipped_bit_is_refused_by_the_hash() {
    // Case 49, first part.
    let (root, outside) = (root(), tempfile::tempdir().unwrap());
    let path = outside.path().join("s");
    save(root.path(), &path).unwrap();
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        fs::write(&path, flipped).unwrap();
        assert_eq!(Snapshot::open(&path).unwrap_err().code(), Code::SnapshotCorrupt, "byte {at}");
    }
    fs::write(&path, &whole).unwrap();
    Snapshot::open(&path).unwrap();
    for (name, text) in
        [("another hash", sha256(b"x")), ("no hash", String::new()), ("no text", "\u{0}".repeat(9))]
    {
        fs::write(sidecar(&path), text).unwrap();
        assert_eq!(Snapshot::open(&path).unwrap_err().code(), Code::SnapshotCorrupt, "{name}");
    }
    fs::remove_file(sidecar(&path)).unwrap();
    assert_eq!(Snapshot::open(&path).unwrap_err().code(), Code::SnapshotCorrupt, "no file with the hash");
    assert_eq!(Snapshot::open(&outside.path().join("t")).unwrap_err().code(), Code::SnapshotCorrupt);
}

#[test]
fn a_flipped_bit_with_a_matching_hash_is_refused_or_harmless() {
    let tar = plain();
    let expected = tempfile::tempdir().unwrap();
    restore(&pack(&tar), expected.path()).unwrap();
    let slots = ["tmp", "deliverables"];
    let expected = tree(expected.path(), &slots);
    let check = |packed: &[u8], at: usize| {
        let into = tempfile::tempdir().unwrap();
        match restore(packed, into.path()) {
            // The time and ids in the listing are arbitrary.
            Ok(()) => assert!(tree(into.path(), &slots) == expected, "byte {at}"),
            Err(error) => {
                assert!(matches!(error.code(), Code::SnapshotCorrupt | Code::LimitExceeded), "{error}");
            }
        }
    };
    // In the middle of many zeros, a shift is invisible.
    let is_dull =
        |at: usize| tar[at.saturating_sub(9)..(at + 9).min(tar.len())].iter().all(|byte| *byte == 0);
    for at in (0..tar.len()).filter(|at| at % 32 == 0 || !is_dull(*at)) {
        let mut flipped = tar.clone();
        flipped[at] ^= 0x01;
        check(&pack(&flipped), at);
    }
    let packed = pack(&tar);
    for at in 0..packed.len() {
        let mut flipped = packed.clone();
        flipped[at] ^= 0x04;
        check(&flipped, at);
        check(&packed[..at], at);
    }
}

#[test]
fn members_that_differ_from_the_listing_are_refused() {
    // Case 49, last part: a device. The changed member is `deliverables/a`, the second one.
    let tar = plain();
    let (listing, rest) = parts(&tar);
    type Change = fn(&mut Vec<u8>);
    let at = 512;
    assert_eq!(&rest[at..at + 15], b"deliverables/a\0");
    let cases: [(&str, Change); 14] = [
        ("a hard link", |rest| rest[512 + 156] = b'1'),
        ("a link", |rest| rest[512 + 156] = b'2'),
        ("a device", |rest| rest[512 + 156] = b'3'),
        ("a block device", |rest| rest[512 + 156] = b'4'),
        ("a pipe", |rest| rest[512 + 156] = b'6'),
        ("a name out", |rest| rest[512..512 + 14].copy_from_slice(b"../../../etc/a")),
        ("a name from the root", |rest| rest[512..512 + 14].copy_from_slice(b"/eliverables/a")),
        ("another owner", |rest| rest[512 + 108 + 6] = b'1'),
        ("setuid", |rest| rest[512 + 100 + 3] = b'4'),
        ("a larger size", |rest| seal(&mut rest[512..1024], 6)),
        ("a size of 8 GiB", |rest| seal(&mut rest[512..1024], (1 << 33) - 1)),
        ("a member too many", |rest| {
            let member = rest[512..1536].to_vec();
            rest.splice(512..512, member);
        }),
        ("a member too few", |rest| drop(rest.drain(512..1536))),
        ("something in the padding", |rest| rest[1024 + 100] = 1),
    ];
    for (name, change) in cases {
        let mut altered = rest.clone();
        change(&mut altered);
        if !matches!(name, "a larger size" | "a size of 8 GiB" | "something in the padding") {
            seal(&mut altered[512..1024], 5);
        }
        let error = refused(&pack(&join(&listing, &altered)));
        assert_eq!(error.code(), Code::SnapshotCorrupt, "{name}");
    }
}

#[test]
fn trailing_data_is_refused() {
    let tar = plain();
    let mut longer = tar.clone();
    longer.extend([0; 512]);
    let mut second_frame = pack(&tar);
    second_frame.extend(pack(b"more"));
    let mut rest = pack(&tar);
    rest.push(0);
    for (name, packed) in [("in the archive", pack(&longer)), ("a frame", second_frame), ("a byte", rest)] {
        assert_eq!(refused(&packed).code(), Code::SnapshotCorrupt, "{name}");
    }
}

#[test]
fn invalid_listings_are_refused() {
    let (listing, rest) = parts(&plain());
    let hash = sha256(b"x");
    let file = |path: &str| json!({"path": path, "size": 1, "mode": 0o644, "sha256": hash, "mtime": 1});
    let dir = |path: &str| json!({"path": path, "type": "dir", "mode": 0o755});
    let link =
        |path: &str, target: &str| json!({"path": path, "type": "link", "mode": 0o777, "target": target});
    let below = |members: Vec<Value>| [vec![dir("deliverables")], members].concat();
    let long = format!("deliverables/{}", "n".repeat(5_000));
    let deep = format!("deliverables/{}x", "d/".repeat(80));
    let cases: Vec<(&str, Vec<Value>)> = vec![
        ("out", below(vec![file("deliverables/../x")])),
        ("out of everything", vec![file("../x")]),
        ("from the root", vec![file("/etc/passwd")]),
        ("NUL", below(vec![file("deliverables/a\0b")])),
        ("backslash", below(vec![file("deliverables\\x")])),
        ("control", below(vec![file("deliverables/a\nb")])),
        ("empty segment", below(vec![file("deliverables//x")])),
        ("a dot", below(vec![file("deliverables/./x")])),
        ("no path", vec![file("")]),
        ("5,000 bytes", below(vec![file(&long)])),
        ("80 directories", below(vec![file(&deep)])),
        ("the state folder", vec![dir(".interlock"), file(".interlock/lease.json")]),
        ("a file slot", vec![file("AGENTS.md")]),
        ("a read-only slot", vec![dir("inputs"), file("inputs/x")]),
        ("a slot that it does not have", vec![dir("repos")]),
        ("no slot", vec![file("x")]),
        ("a slot that is a file", vec![file("deliverables")]),
        ("a slot that is a link", vec![link("deliverables", "tmp")]),
        ("no directory above", vec![file("deliverables/x")]),
        ("below a link", below(vec![link("deliverables/l", "b"), file("deliverables/l/x")])),
        ("below a file", below(vec![file("deliverables/f"), file("deliverables/f/x")])),
        ("twice", below(vec![file("deliverables/x"), file("deliverables/x")])),
        ("out of order", below(vec![file("deliverables/y"), file("deliverables/x")])),
        ("a link out", below(vec![link("deliverables/l", "../tmp")])),
        ("a link from the root", below(vec![link("deliverables/l", "/etc")])),
        ("a link that turns", below(vec![link("deliverables/l", "a/../../..")])),
        ("setuid", below(vec![json!({"path": "deliverables/x", "mode": 0o4755, "sha256": hash})])),
        ("no hash", below(vec![json!({"path": "deliverables/x", "mode": 0o644})])),
        ("an invalid hash", below(vec![json!({"path": "deliverables/x", "mode": 0o644, "sha256": "x"})])),
        (
            "a directory of bytes",
            below(vec![json!({"path": "deliverables/x", "type": "dir", "mode": 1, "size": 9})]),
        ),
        ("a link to nowhere", below(vec![json!({"path": "deliverables/x", "type": "link", "mode": 0o777})])),
        ("a device", below(vec![json!({"path": "deliverables/x", "type": "device", "mode": 0o644})])),
        (
            "something new",
            below(vec![json!({"path": "deliverables/x", "mode": 0o644, "sha256": hash, "xattr": {}})]),
        ),
    ];
    for (name, files) in cases {
        let mut altered = listing.clone();
        altered["files"] = files.into();
        let error = refused(&pack(&join(&altered, &rest)));
        assert_eq!(error.code(), Code::SnapshotCorrupt, "{name}: {error}");
        assert!(error.message().len() < 500, "{name}");
    }
    for (member, value) in [
        ("schema", json!(2)),
        ("slots", json!(["tmp", "deliverables", "inputs"])),
        ("slots", json!(["nope"])),
        ("files", json!("x")),
        ("more", json!(1)),
    ] {
        let mut altered = listing.clone();
        altered[member] = value;
        assert_eq!(refused(&pack(&join(&altered, &rest))).code(), Code::SnapshotCorrupt, "{member}");
    }
}

#[test]
fn limits_are_enforced_before_unpacking() {
    let (mut listing, _) = parts(&plain());
    let hash = sha256(b"");
    let file = |name: String, size: u64| json!({"path": name, "size": size, "mode": 0o644, "sha256": hash});
    let with = |listing: &mut Value, files: Vec<Value>| {
        let dir = json!({"path": "deliverables", "type": "dir", "mode": 0o755});
        listing["files"] = [vec![dir], files].concat().into();
        refused(&pack(&join(listing, &[])))
    };
    let cases = [
        ("17 GiB", (0..17).map(|n| file(format!("deliverables/{n:02}"), 1 << 30)).collect::<Vec<_>>()),
        (
            "more than can be counted",
            (0..3).map(|n| file(format!("deliverables/{n}"), u64::MAX - 700)).collect(),
        ),
        ("a bomb", vec![file("deliverables/x".into(), 64 << 20)]),
    ];
    for (name, files) in cases {
        let error = with(&mut listing, files);
        assert_eq!(error.code(), Code::LimitExceeded, "{name}: {error}");
    }
    let member = |n| format!(r#"{{"path":"deliverables/{n:06}","mode":420}}"#);
    listing["files"] = json!("MEMBERS");
    let members: Vec<String> = (0..=MAX_MEMBERS).map(member).collect();
    let text = listing.to_string().replace(r#""MEMBERS""#, &format!("[{}]", members.join(",")));
    assert_eq!(
        refused(&pack(&join_text(text.as_bytes(), &[]))).code(),
        Code::LimitExceeded,
        "500,001 members"
    );

    let mut header = plain()[..512].to_vec();
    seal(&mut header, 300 << 20);
    assert_eq!(refused(&pack(&header)).code(), Code::LimitExceeded, "a listing of 300 MiB");
    seal(&mut header, 100 << 20);
    assert_eq!(refused(&pack(&header)).code(), Code::LimitExceeded, "a listing of 100 MiB in 100 bytes");
}

#[test]
fn an_oversized_decoder_window_is_refused() {
    let tar = plain();
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(&tar).unwrap();
    let packed = encoder.finish().unwrap();
    assert_eq!(refused(&packed).code(), Code::SnapshotCorrupt);
}

#[test]
fn a_snapshot_that_could_not_be_unpacked_is_not_packed() {
    let (root, outside) = (root(), tempfile::tempdir().unwrap());
    File::create(root.path().join("deliverables/zeros")).unwrap().set_len(17 << 20).unwrap();
    let error = save(root.path(), &outside.path().join("s")).unwrap_err();
    assert_eq!(error.code(), Code::LimitExceeded);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_read_only_slot_is_refused_before_any_member_is_returned() {
    let packed = pack(&plain());
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&packed).unwrap();
    let snapshot = Snapshot::from_file(file, &sha256(&packed)).unwrap();
    let mut handed_out = 0;
    let error = snapshot
        .unpack(&[Slot::Tmp, Slot::Repos], &mut |_| {
            handed_out += 1;
            Ok(())
        })
        .unwrap_err();
    assert_eq!((error.code(), handed_out), (Code::SnapshotCorrupt, 0));
}

#[test]
fn an_error_of_the_consumer_is_passed_on() {
    let packed = pack(&plain());
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&packed).unwrap();
    let snapshot = Snapshot::from_file(file, &sha256(&packed)).unwrap();
    let full = Error::new(Code::ApplyNoSpace, "full");
    let error = snapshot.unpack(&[Slot::Tmp, Slot::Deliverables], &mut |_| Err(full.clone())).unwrap_err();
    assert_eq!(error, full);
}
