//! Reading archives.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use packs::archive::{Archive, ArchiveError, Limits, write};
use packs::path::EntryPath;
use tar::{EntryType, Header};

/// Compresses bytes with gzip.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::new(6));
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// A tar entry with any name and type.
pub(crate) fn entry(name: &[u8], kind: EntryType, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// A compressed tar archive.
pub(crate) fn tarball(entries: &[Vec<u8>]) -> Vec<u8> {
    gzip(&[entries.concat(), vec![0; 1024]].concat())
}

fn file(name: &str) -> Vec<u8> {
    entry(name.as_bytes(), EntryType::Regular, b"x")
}

fn refusal(bytes: &[u8]) -> ArchiveError {
    Archive::read(bytes, &Limits::DEFAULT).expect_err("it was accepted")
}

#[test]
fn writing_is_deterministic_and_readable() {
    let long = format!("deep/{}/file.txt", "n".repeat(150));
    let files: BTreeMap<EntryPath, (&[u8], bool)> = [
        ("pack.json", &b"{}"[..], false),
        ("bin/run", b"#!", true),
        (&long, b"", false),
        ("ä/ö.txt", b"u", false),
    ]
    .into_iter()
    .map(|(path, content, executable)| (EntryPath::parse(path).unwrap(), (content, executable)))
    .collect();
    let bytes = write(&files).unwrap();
    assert_eq!(bytes, write(&files).unwrap());
    let archive = Archive::read(&bytes, &Limits::DEFAULT).unwrap();
    let read: BTreeMap<EntryPath, (&[u8], bool)> = archive
        .entries()
        .iter()
        .map(|entry| (entry.path.clone(), (archive.content(entry), entry.executable)))
        .collect();
    assert_eq!(read, files);
}

#[test]
fn reads_archives_of_the_tar_program() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
    std::fs::write(folder.path().join("pack.json"), "{}").unwrap();
    std::fs::write(folder.path().join("a/b").join("l".repeat(120)), "long").unwrap();
    for form in ["--format=gnu", "--format=pax", "--format=ustar"] {
        if form == "--format=ustar" {
            std::fs::remove_file(folder.path().join("a/b").join("l".repeat(120))).unwrap();
        }
        let packed = std::process::Command::new("tar")
            .args([form, "-czf", "-", "-C"])
            .arg(folder.path())
            .arg(".")
            .output();
        // `tar` is not installed everywhere.
        let Ok(packed) = packed else { return };
        assert!(packed.status.success());
        let archive =
            Archive::read(&packed.stdout, &Limits::DEFAULT).unwrap_or_else(|error| panic!("{form}: {error}"));
        assert_eq!(archive.file("pack.json"), Some(&b"{}"[..]), "{form}");
        assert_eq!(archive.entries().len(), if form == "--format=ustar" { 1 } else { 2 }, "{form}");
    }
}

#[test]
fn rejects_unsafe_entries() {
    let cases: [(&str, Vec<u8>); 14] = [
        ("an absolute path", file("/etc/passwd")),
        ("a climbing path", file("a/../../b")),
        ("a backslash", file("a\\b")),
        ("a drive", file("c:/x")),
        ("a link", entry(b"link", EntryType::Symlink, b"")),
        ("a hard link", entry(b"link", EntryType::Link, b"")),
        ("a device", entry(b"dev", EntryType::Char, b"")),
        ("a block device", entry(b"dev", EntryType::Block, b"")),
        ("a pipe", entry(b"pipe", EntryType::Fifo, b"")),
        ("a sparse file", entry(b"sparse", EntryType::GNUSparse, b"")),
        ("an unknown type", entry(b"x", EntryType::new(b'Z'), b"")),
        ("a name that is not UTF-8", entry(b"\xff\xfe", EntryType::Regular, b"")),
        ("a control character", entry(b"a\nb", EntryType::Regular, b"")),
        ("the reserved folder", file(".interlock/installed.json")),
    ];
    for (name, bytes) in cases {
        assert!(matches!(refusal(&tarball(&[bytes])), ArchiveError::Traversal { .. }), "{name}");
    }
    // The name may also come from an extension header.
    let named =
        |kind: EntryType, content: &[u8]| tarball(&[entry(b"header", kind, content), file("innocent")]);
    assert!(matches!(refusal(&named(EntryType::GNULongName, b"../../x\0")), ArchiveError::Traversal { .. }));
    assert!(matches!(
        refusal(&named(EntryType::XHeader, b"17 path=../../x\n")),
        ArchiveError::Traversal { .. } | ArchiveError::Tar(_)
    ));
    assert!(matches!(
        refusal(&named(EntryType::XHeader, b"15 path=../..\n\n")),
        ArchiveError::Traversal { .. } | ArchiveError::Tar(_)
    ));
    assert!(matches!(refusal(&named(EntryType::XHeader, b"15 size=999999\n")), ArchiveError::Tar(_)));
    assert!(matches!(refusal(&named(EntryType::XGlobalHeader, b"10 path=a\n")), ArchiveError::Tar(_)));
    assert!(matches!(refusal(&named(EntryType::GNULongLink, b"x\0")), ArchiveError::Traversal { .. }));
}

#[test]
fn rejects_colliding_names() {
    for (first, second) in [
        ("a", "a"),
        ("Readme", "README"),
        ("a/b", "A/c"),
        ("\u{e9}", "e\u{301}"),
        ("ﬁle", "file"),
        ("a", "a/b"),
    ] {
        for (one, other) in [(first, second), (second, first)] {
            let refused = refusal(&tarball(&[file(one), file(other)]));
            assert!(matches!(refused, ArchiveError::Collision { .. }), "{one} and {other}: {refused}");
        }
    }
    // A folder may be listed once for each of its files.
    let folder = entry(b"a/", EntryType::Directory, b"");
    assert!(Archive::read(&tarball(&[folder.clone(), file("a/b"), folder]), &Limits::DEFAULT).is_ok());
}

#[test]
fn rejects_invalid_streams() {
    let good = tarball(&[file("a")]);
    let mut flipped = good.clone();
    let end = flipped.len() - 6;
    flipped[end] ^= 1;
    let gzips = [
        ("nothing", Vec::new()),
        ("words", b"not a gzip stream".to_vec()),
        ("a truncated stream", good[..good.len() - 9].to_vec()),
        ("a wrong checksum", flipped),
        ("trailing bytes", [good.clone(), b"x".to_vec()].concat()),
        ("a second stream", [good.clone(), good].concat()),
    ];
    for (name, bytes) in gzips {
        assert_eq!(refusal(&bytes), ArchiveError::Gzip, "{name}");
    }
    let mut unsummed = file("a");
    unsummed[0] = b'b';
    let tars = [
        ("words", gzip(b"not a tar archive")),
        ("a wrong checksum", tarball(&[unsummed])),
        ("an empty archive", gzip(&[0; 1024])),
        ("a truncated file", gzip(&file("a")[..700])),
        ("bytes after the end", gzip(&[file("a"), vec![0; 1024], file("b")].concat())),
        ("a name without its entry", tarball(&[entry(b"h", EntryType::GNULongName, b"x\0")])),
        ("a folder with content", tarball(&[entry(b"a/", EntryType::Directory, b"content")])),
        ("an endless name", tarball(&[entry(b"h", EntryType::GNULongName, &[b'x'; 9000]), file("a")])),
    ];
    for (name, bytes) in tars {
        let refused = refusal(&bytes);
        assert!(matches!(refused, ArchiveError::Tar(_)), "{name}: {refused:?}");
    }
}

#[test]
fn enforces_every_limit() {
    let what = |bytes: &[u8], limits: Limits| match Archive::read(bytes, &limits) {
        Err(ArchiveError::TooLarge { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let small = Limits { packed_bytes: 100_000, unpacked_bytes: 1 << 20, entries: 3, ratio: 10 };
    assert_eq!(what(&vec![0; 100_001], small), "packed bytes");
    let noise: Vec<u8> = (0..600_000_u32)
        .flat_map(|number| (number.wrapping_mul(2_654_435_761)).to_le_bytes())
        .take(2 << 20)
        .collect();
    let roomy = Limits { packed_bytes: 50 << 20, ..small };
    assert_eq!(what(&tarball(&[entry(b"noise", EntryType::Regular, &noise)]), roomy), "unpacked bytes");
    assert_eq!(
        what(&gzip(&vec![0; 5 << 20]), Limits { unpacked_bytes: 50 << 20, ..small }),
        "the ratio of unpacked to packed bytes"
    );
    assert_eq!(what(&tarball(&[file("a"), file("b"), file("c"), file("d")]), small), "the number of entries");
    let deep = "d/".repeat(40);
    assert_eq!(what(&tarball(&[file(&format!("{deep}x"))]), small), "the length of an entry path");
    // As in the protocol's tests: too large, although it contains no file.
    assert!(matches!(refusal(&gzip(&vec![0; 10 << 20])), ArchiveError::TooLarge { .. }));
}
