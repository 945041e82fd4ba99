//! Hostile archives: a description, the bytes, and the publish error code. None panics, and none leaves anything
//! behind.

use canon::time::Timestamp;
use packs::PackErrorCode;
use packs::archive::Limits;
use packs::install::{HostFacts, Install, InstalledPacks, judge};
use packs::publish::{PublishErrorCode, PublishRequest, PublishRules, check};
use packs::trust::TrustPolicy;
use tar::EntryType;

use crate::archives::{entry, gzip, tarball};
use crate::support::{node_pack, written};

const NAME: &str = "vendor.acme.tools";

/// A valid archive with additional entries.
fn with(more: &[Vec<u8>]) -> Vec<u8> {
    let mut entries = vec![
        entry(b"pack.json", EntryType::Regular, &written(&node_pack(NAME, "1.0.0"))),
        entry(b"nodes.wasm", EntryType::Regular, b"\0asm"),
    ];
    entries.extend_from_slice(more);
    tarball(&entries)
}

fn file(name: &[u8]) -> Vec<u8> {
    entry(name, EntryType::Regular, b"x")
}

fn special(kind: EntryType) -> Vec<u8> {
    entry(b"special", kind, b"")
}

/// A name in an extension header before the entry.
fn long(kind: EntryType, content: &[u8]) -> Vec<u8> {
    [entry(b"header", kind, content), file(b"innocent")].concat()
}

fn pax(name: &str, value: &str) -> Vec<u8> {
    // The length of a record includes its own digits.
    let rest = name.len() + value.len() + 3;
    let length = (1..5).map(|digits| rest + digits).find(|length| length.to_string().len() + rest == *length);
    long(EntryType::XHeader, format!("{} {name}={value}\n", length.unwrap()).as_bytes())
}

/// The compressed archive with its bytes changed.
fn mangled(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = with(&[]);
    change(&mut bytes);
    bytes
}

/// The description, the bytes, and the publish error code. The install error code is always `pack_archive_invalid`.
fn corpus() -> Vec<(&'static str, Vec<u8>, PublishErrorCode)> {
    use PublishErrorCode as Code;
    let deep = format!("{}x", "d/".repeat(33));
    let many: Vec<Vec<u8>> =
        (0..=Limits::DEFAULT.entries).map(|number| file(format!("f{number}").as_bytes())).collect();
    let bomb = entry(b"zeros", EntryType::Regular, &vec![0; 40 << 20]);
    let folder = entry(b"a/", EntryType::Directory, b"");
    vec![
        ("traversal", with(&[file(b"../../etc/cron.d/x")]), Code::TarballPathTraversal),
        ("traversal in the middle", with(&[file(b"a/b/../../../x")]), Code::TarballPathTraversal),
        ("traversal by backslash", with(&[file(b"..\\..\\x")]), Code::TarballPathTraversal),
        (
            "traversal by a long name",
            with(&[long(EntryType::GNULongName, b"../../x\0")]),
            Code::TarballPathTraversal,
        ),
        ("traversal by an extended header", with(&[pax("path", "../../x")]), Code::TarballPathTraversal),
        (
            "traversal by a folder",
            with(&[entry(b"../up/", EntryType::Directory, b"")]),
            Code::TarballPathTraversal,
        ),
        ("absolute", with(&[file(b"/etc/passwd")]), Code::TarballPathTraversal),
        ("absolute by an extended header", with(&[pax("path", "/etc/passwd")]), Code::TarballPathTraversal),
        ("absolute behind a dot", with(&[file(b".//etc/passwd")]), Code::TarballPathTraversal),
        ("a drive", with(&[file(b"C:/windows/x")]), Code::TarballPathTraversal),
        ("symlink", with(&[special(EntryType::Symlink)]), Code::TarballPathTraversal),
        (
            "symlink with a file below it",
            with(&[special(EntryType::Symlink), file(b"special/x")]),
            Code::TarballPathTraversal,
        ),
        ("hardlink", with(&[special(EntryType::Link)]), Code::TarballPathTraversal),
        (
            "target by a long link",
            with(&[long(EntryType::GNULongLink, b"/etc/passwd\0")]),
            Code::TarballPathTraversal,
        ),
        (
            "target by an extended header",
            with(&[pax("linkpath", "/etc/passwd")]),
            Code::TarballTarParseFailed,
        ),
        ("character device", with(&[special(EntryType::Char)]), Code::TarballPathTraversal),
        ("block device", with(&[special(EntryType::Block)]), Code::TarballPathTraversal),
        ("pipe", with(&[special(EntryType::Fifo)]), Code::TarballPathTraversal),
        ("sparse file", with(&[special(EntryType::GNUSparse)]), Code::TarballPathTraversal),
        ("unknown type", with(&[special(EntryType::new(b'Q'))]), Code::TarballPathTraversal),
        ("huge count", with(&many), Code::TarballTooLarge),
        ("huge count of folders", tarball(&vec![folder; Limits::DEFAULT.entries + 1]), Code::TarballTooLarge),
        ("deep path", with(&[file(deep.as_bytes())]), Code::TarballTooLarge),
        ("long path", with(&[pax("path", &"n/".repeat(10).repeat(30))]), Code::TarballTooLarge),
        ("long name", with(&[pax("path", &"n".repeat(256))]), Code::TarballTooLarge),
        ("ratio bomb", with(&[bomb]), Code::TarballTooLarge),
        ("bomb of zeros behind the end", gzip(&vec![0; 64 << 20]), Code::TarballTooLarge),
        ("size by an extended header", with(&[pax("size", "9999999999")]), Code::TarballTarParseFailed),
        (
            "path for all by a global header",
            with(&[long(EntryType::XGlobalHeader, b"10 path=a\n")]),
            Code::TarballTarParseFailed,
        ),
        ("duplicate entries", with(&[file(b"nodes.wasm")]), Code::TarballTarParseFailed),
        ("two manifests", with(&[file(b"pack.json")]), Code::TarballTarParseFailed),
        ("a manifest and its twin behind a dot", with(&[file(b"./pack.json")]), Code::TarballTarParseFailed),
        ("case collision", with(&[file(b"Nodes.WASM")]), Code::TarballTarParseFailed),
        ("case collision of folders", with(&[file(b"a/x"), file(b"A/y")]), Code::TarballTarParseFailed),
        (
            "collision of Unicode forms",
            with(&[file("\u{e9}".as_bytes()), file("e\u{301}".as_bytes())]),
            Code::TarballTarParseFailed,
        ),
        ("a file that is also a folder", with(&[file(b"nodes.wasm/x")]), Code::TarballTarParseFailed),
        ("name that is not UTF-8", with(&[file(b"\xff\xfe\xfd")]), Code::TarballPathTraversal),
        (
            "long name that is not UTF-8",
            with(&[long(EntryType::GNULongName, b"\xc3\x28\0")]),
            Code::TarballPathTraversal,
        ),
        ("control characters in a name", with(&[file(b"a\x1b[2Jb")]), Code::TarballPathTraversal),
        ("the reserved folder", with(&[file(b".interlock/installed.json")]), Code::TarballPathTraversal),
        ("the reserved folder in another case", with(&[file(b".Interlock/x")]), Code::TarballPathTraversal),
        ("trailing data after the stream", mangled(|bytes| bytes.push(0)), Code::TarballGunzipFailed),
        ("a second stream after it", mangled(|bytes| bytes.extend(gzip(b"more"))), Code::TarballGunzipFailed),
        ("a truncated stream", mangled(|bytes| bytes.truncate(bytes.len() - 9)), Code::TarballGunzipFailed),
        (
            "a wrong checksum",
            mangled(|bytes| {
                let at = bytes.len() - 6;
                bytes[at] ^= 1;
            }),
            Code::TarballGunzipFailed,
        ),
        (
            "trailing data after the tar",
            gzip(&[file(b"a"), vec![0; 1024], file(b"b")].concat()),
            Code::TarballTarParseFailed,
        ),
        (
            "a header without its entry",
            tarball(&[entry(b"h", EntryType::GNULongName, b"x\0")]),
            Code::TarballTarParseFailed,
        ),
        (
            "a folder with content",
            with(&[entry(b"a/", EntryType::Directory, b"content")]),
            Code::TarballTarParseFailed,
        ),
    ]
}

#[test]
fn hostile_archives_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    let (policy, host) = (TrustPolicy::open(), HostFacts::everything(["fs".to_owned()]));
    for (name, bytes, expected) in corpus() {
        let install = Install {
            archive: &bytes,
            expected: None,
            policy: &policy,
            host: &host,
            limits: Limits::DEFAULT,
            now: Timestamp(0),
        };
        let refused = packs.install(&install).expect_err(name);
        assert_eq!(refused.code(), PackErrorCode::ArchiveInvalid, "{name}: {refused}");
        assert!(refused.to_string().len() < 2000, "{name}: {refused}");
        let request = PublishRequest {
            name: NAME,
            version: "1.0.0",
            content_type: None,
            sha256: None,
            signing_method: None,
            body: &bytes,
        };
        let refused = check(&request, &PublishRules::private()).expect_err(name);
        assert_eq!(refused.code, expected, "{name}: {refused}");
    }
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == ".lock"), "{left:?}");
    // The base of the corpus is valid.
    let good = with(&[]);
    let install = Install {
        archive: &good,
        expected: None,
        policy: &policy,
        host: &host,
        limits: Limits::DEFAULT,
        now: Timestamp(0),
    };
    judge(&install).unwrap();
}
