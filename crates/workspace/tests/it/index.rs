//! The index: round trips, and rejection of damaged files.

use proptest::prelude::*;
use workspace::index::{Digests, Header, Line, LineKind, MAX_LINE_BYTES, Reader, Writer, compare_paths};
use workspace::slot::Slot;
use workspace::{Code, Error};

fn header() -> Header {
    Header { apply_id: "3863925d".repeat(8), generation: 3, written_at_ns: 1_763_204_000_123_456_789 }
}

fn file(path: &str, mount_key: &str, bytes: &[u8]) -> Line {
    Line {
        path: path.into(),
        mount_key: Some(mount_key.into()),
        kind: LineKind::File,
        size: bytes.len() as u64,
        mode: 0o444,
        blake3: blake3::hash(bytes).to_hex().to_string(),
        mtime_ns: 1_763_204_000_000_000_001,
        ctime_ns: -1,
        ino: u64::MAX,
        linked: true,
        target: None,
    }
}

fn link(path: &str, target: &str) -> Line {
    Line {
        kind: LineKind::Link,
        mode: 0o777,
        linked: false,
        target: Some(target.into()),
        ..file(path, "repo:r", target.as_bytes())
    }
}

fn small() -> Vec<Line> {
    vec![
        file("AGENTS.md", "agents-md", b"# You"),
        Line::directory("references", None, 0o555),
        Line::directory("references/kb", Some("references:kb:k".into()), 0o555),
        file("references/kb/\"a\"\n\u{1f600}.md", "references:kb:k", b"a"),
        file("references/kb.md", "seed:references:kb.md", b""),
        Line::directory("repos", None, 0o755),
        link("repos/latest", "v1/é"),
    ]
}

fn write(lines: &[Line]) -> Result<Vec<u8>, Error> {
    let mut writer = Writer::new(Vec::new(), &header())?;
    for line in lines {
        writer.push(line)?;
    }
    let (bytes, written) = writer.finish()?;
    assert_eq!(written, lines.len() as u64);
    Ok(bytes)
}

fn read(bytes: &[u8]) -> Result<Vec<Line>, Error> {
    let reader = Reader::new(bytes)?;
    assert_eq!(reader.header(), &header());
    reader.collect()
}

#[test]
fn an_index_round_trips() {
    for lines in [Vec::new(), small()] {
        assert_eq!(read(&write(&lines).unwrap()).unwrap(), lines);
    }
}

#[test]
fn the_index_format_is_fixed() {
    let lines = [Line::directory("tmp", None, 0o755), file("tmp/.keep", "tmp:seed", b"")];
    let text = String::from_utf8(write(&lines).unwrap()).unwrap();
    let expected = [
        concat!(
            r#"{"version":1,"applyId":"3863925d3863925d3863925d3863925d3863925d3863925d3863925d3863925d","#,
            r#""generation":3,"writtenAtNs":1763204000123456789}"#,
        ),
        concat!(
            r#"{"path":"tmp","kind":"dir","size":0,"mode":493,"blake3":"","mtimeNs":0,"ctimeNs":0,"#,
            r#""ino":0}"#,
        ),
        concat!(
            r#"{"path":"tmp/.keep","mountKey":"tmp:seed","kind":"file","size":0,"mode":292,"#,
            r#""blake3":"af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262","#,
            r#""mtimeNs":1763204000000000001,"ctimeNs":-1,"ino":18446744073709551615,"linked":true}"#,
        ),
    ];
    let text: Vec<&str> = text.lines().collect();
    assert_eq!(text[..3], expected);
    let before: String = expected.iter().map(|line| format!("{line}\n")).collect();
    let hash = blake3::hash(before.as_bytes()).to_hex();
    assert_eq!(text[3..], [format!(r#"{{"lines":2,"blake3":"{hash}"}}"#)]);
}

#[test]
fn an_unreadable_line_is_not_written() {
    let long = "a".repeat(5000);
    let cases: [(&str, Vec<Line>, Code); 11] = [
        ("out of order", vec![file("b", "m", b""), file("a", "m", b"")], Code::ApplyIo),
        ("twice", vec![file("a", "m", b""), file("a", "m", b"")], Code::ApplyIo),
        ("byte order", vec![file("a.md", "m", b""), file("a/b", "m", b"")], Code::ApplyIo),
        ("no path", vec![file("", "m", b"")], Code::ApplyIo),
        ("absolute", vec![file("/a", "m", b"")], Code::ApplyIo),
        ("climbs", vec![file("a/../b", "m", b"")], Code::ApplyIo),
        ("5,000 bytes", vec![file(&long, "m", b"")], Code::ApplyIo),
        ("no hash", vec![Line { blake3: String::new(), ..file("a", "m", b"") }], Code::ApplyIo),
        ("no target", vec![Line { target: None, ..link("a", "b") }], Code::ApplyIo),
        ("not a mode", vec![Line { mode: 0o10_0644, ..file("a", "m", b"") }], Code::ApplyIo),
        ("a long key", vec![file("a", &"k".repeat(MAX_LINE_BYTES), b"")], Code::LimitExceeded),
    ];
    for (name, lines, code) in cases {
        assert_eq!(write(&lines).unwrap_err().code(), code, "{name}");
    }
}

#[test]
fn an_altered_index_is_refused() {
    let whole = write(&small()).unwrap();
    for length in 0..whole.len() {
        assert_eq!(read(&whole[..length]).unwrap_err().code(), Code::ApplyIo, "cut at {length}");
    }
    for at in 0..whole.len() {
        for flip in [0x01, 0x20, 0x80] {
            let mut altered = whole.clone();
            altered[at] ^= flip;
            let read = Reader::new(altered.as_slice()).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            assert_eq!(read.unwrap_err().code(), Code::ApplyIo, "byte {at}");
        }
    }
    let mut longer = whole.clone();
    longer.extend(b"{}\n");
    assert_eq!(read(&longer).unwrap_err().code(), Code::ApplyIo);
}

#[test]
fn an_endless_line_does_not_exhaust_memory() {
    let header = write(&[]).unwrap();
    let header = header.split_inclusive(|byte| *byte == b'\n').next().unwrap().to_vec();
    let endless = std::io::Read::chain(header.as_slice(), std::io::repeat(b' '));
    let error = Reader::new(endless).unwrap().next_line().unwrap_err();
    assert!(error.message().contains("longer than 131072 bytes"), "{error}");
    assert!(Reader::new(std::io::repeat(b'{')).is_err());
}

#[test]
fn an_index_of_another_version_is_refused() {
    let text = String::from_utf8(write(&small()).unwrap()).unwrap().replace("\"version\":1", "\"version\":2");
    let error = Reader::new(text.as_bytes()).unwrap_err();
    assert!(error.message().contains("version is 2"), "{error}");
}

#[test]
fn lines_longer_than_a_block_of_lines_are_read() {
    let keys = (0..64).map(|n| file(&format!("a{n:03}"), &"k".repeat(100_000), b"x"));
    let lines: Vec<Line> = keys.collect();
    assert_eq!(read(&write(&lines).unwrap()).unwrap(), lines);
}

#[test]
fn digests_are_over_path_kind_mode_and_hash() {
    let mut digests = Digests::new();
    small().iter().for_each(|line| digests.add(line));
    let summary = digests.finish();
    let a = blake3::hash(b"a").to_hex();
    let pages = "references/kb\0dir\x000555\0\n".to_owned()
        + &format!("references/kb/\"a\"\n\u{1f600}.md\0file\x000444\0{a}\n");
    assert_eq!(summary.mounts["references:kb:k"].digest, blake3::hash(pages.as_bytes()).to_hex().as_str());
    assert_eq!(summary.mounts["references:kb:k"].files, 1);
    let slots: Vec<_> = summary.slots.iter().map(|(slot, tree)| (*slot, tree.files, tree.bytes)).collect();
    assert_eq!(slots, [(Slot::AgentsMd, 1, 5), (Slot::References, 2, 1), (Slot::Repos, 1, 5)]);

    let mut touched = small();
    for line in &mut touched {
        (line.mtime_ns, line.ctime_ns, line.ino, line.linked) = (7, 7, 7, false);
    }
    let mut digests = Digests::new();
    touched.iter().for_each(|line| digests.add(line));
    assert_eq!(digests.finish(), summary, "times and inode numbers do not count");
}

fn any_line() -> impl Strategy<Value = Line> {
    let path = "[a-c./é ]{1,8}"
        .prop_filter("a path", |path| path.split('/').all(|segment| !matches!(segment, "" | "." | "..")));
    let numbers = (any::<u64>(), 0_u32..=0o7777, any::<i64>(), any::<i64>(), any::<u64>(), any::<bool>());
    (path, proptest::option::of(".{0,9}"), any::<[u8; 32]>(), numbers, proptest::option::of(".{0,9}"))
        .prop_map(|(path, mount_key, hash, (size, mode, mtime_ns, ctime_ns, ino, linked), target)| Line {
            path,
            mount_key,
            kind: if target.is_some() { LineKind::Link } else { LineKind::File },
            size,
            mode,
            blake3: blake3::Hash::from(hash).to_hex().to_string(),
            mtime_ns,
            ctime_ns,
            ino,
            linked,
            target,
        })
}

proptest! {
    #[test]
    fn any_sorted_lines_round_trip(mut lines in proptest::collection::vec(any_line(), 0..40)) {
        lines.sort_by(|left, right| compare_paths(left.path.as_bytes(), right.path.as_bytes()));
        lines.dedup_by(|left, right| left.path == right.path);
        prop_assert_eq!(read(&write(&lines).unwrap()).unwrap(), lines);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(reader) = Reader::new(bytes.as_slice()) {
            let _ = reader.collect::<Result<Vec<_>, _>>();
        }
    }
}
