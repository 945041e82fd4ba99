//! What is taken out of an archive, and what is not.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use packs::archive::{Archive, ArchiveError, Limits, write};
use packs::path::EntryPath;
use tar::{EntryType, Header};

/// Gzip of bytes.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::new(6));
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// One entry of a tar, with whatever name and type.
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

/// A packed tar of entries.
pub(crate) fn tarball(entries: &[Vec<u8>]) -> Vec<u8> {
    gzip(&[entries.concat(), vec![0; 1024]].concat())
}

fn file(name: &str) -> Vec<u8> {
    entry(name.as_bytes(), EntryType::Regular, b"x")
}

fn refusal(bytes: &[u8]) -> ArchiveError {
    Archive::read(bytes, &Limits::DEFAULT).expect_err("it was read")
}

#[test]
fn what_is_written_is_read_and_always_the_same_bytes() {
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
fn the_archives_of_tar_are_read() {
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
        // Not every machine has it.
        let Ok(packed) = packed else { return };
        assert!(packed.status.success());
        let archive =
            Archive::read(&packed.stdout, &Limits::DEFAULT).unwrap_or_else(|error| panic!("{form}: {error}"));
        assert_eq!(archive.file("pack.json"), Some(&b"{}"[..]), "{form}");
        assert_eq!(archive.entries().len(), if form == "--format=ustar" { 1 } else { 2 }, "{form}");
    }
}

#[test]
fn entries_that_could_lead_out_are_refused() {
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
        ("a name that is no text", entry(b"\xff\xfe", EntryType::Regular, b"")),
        ("a control character", entry(b"a\nb", EntryType::Regular, b"")),
        ("the installer's folder", file(".interlock/installed.json")),
    ];
    for (name, bytes) in cases {
        assert!(matches!(refusal(&tarball(&[bytes])), ArchiveError::Traversal { .. }), "{name}");
    }
    // The name may also come from a header before.
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
fn names_that_are_one_on_some_machine_are_refused() {
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
    // A folder may be named as often as there is something in it.
    let folder = entry(b"a/", EntryType::Directory, b"");
    assert!(Archive::read(&tarball(&[folder.clone(), file("a/b"), folder]), &Limits::DEFAULT).is_ok());
}

#[test]
fn what_is_no_gzip_or_no_tar() {
    let good = tarball(&[file("a")]);
    let mut flipped = good.clone();
    let end = flipped.len() - 6;
    flipped[end] ^= 1;
    let gzips = [
        ("nothing", Vec::new()),
        ("words", b"not a gzip stream".to_vec()),
        ("a cut stream", good[..good.len() - 9].to_vec()),
        ("a wrong checksum", flipped),
        ("bytes behind it", [good.clone(), b"x".to_vec()].concat()),
        ("another stream behind it", [good.clone(), good].concat()),
    ];
    for (name, bytes) in gzips {
        assert_eq!(refusal(&bytes), ArchiveError::Gzip, "{name}");
    }
    let mut unsummed = file("a");
    unsummed[0] = b'b';
    let tars = [
        ("words", gzip(b"no tar at all")),
        ("a wrong checksum", tarball(&[unsummed])),
        ("nothing in it", gzip(&[0; 1024])),
        ("a cut file", gzip(&file("a")[..700])),
        ("bytes behind its end", gzip(&[file("a"), vec![0; 1024], file("b")].concat())),
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
fn every_bound_is_kept() {
    let what = |bytes: &[u8], limits: Limits| match Archive::read(bytes, &limits) {
        Err(ArchiveError::TooLarge { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let small = Limits { packed_bytes: 100_000, unpacked_bytes: 1 << 20, entries: 3, ratio: 10 };
    assert_eq!(what(&vec![0; 100_001], small), "the packed bytes");
    let noise: Vec<u8> = (0..600_000_u32)
        .flat_map(|number| (number.wrapping_mul(2_654_435_761)).to_le_bytes())
        .take(2 << 20)
        .collect();
    let roomy = Limits { packed_bytes: 50 << 20, ..small };
    assert_eq!(what(&tarball(&[entry(b"noise", EntryType::Regular, &noise)]), roomy), "the unpacked bytes");
    assert_eq!(
        what(&gzip(&vec![0; 5 << 20]), Limits { unpacked_bytes: 50 << 20, ..small }),
        "the ratio of unpacked to packed bytes"
    );
    assert_eq!(what(&tarball(&[file("a"), file("b"), file("c"), file("d")]), small), "the number of entries");
    let deep = "d/".repeat(40);
    assert_eq!(what(&tarball(&[file(&format!("{deep}x"))]), small), "the path of an entry");
    // As the protocol's own tests send it: too large, although there is no file in it.
    assert!(matches!(refusal(&gzip(&vec![0; 10 << 20])), ArchiveError::TooLarge { .. }));
}
