//! The chain: what it detects, what it does not detect, and that valid histories never count as tampering.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::thread;

use canon::digest::Digest;
use guide::record::EventIndex;
use storage::disk::{Disk as _, DiskPath, FaultyDisk, RealDisk};
use storage::files::{ChainBreak, ChainState, SessionFiles, chain_within};

use crate::support::{SampleSession, open, session};

fn path(walk: &SampleSession, name: &str) -> String {
    format!("sessions/{}/{name}", walk.session)
}

fn text(disk: &FaultyDisk, path: &str) -> String {
    String::from_utf8(disk.files()[path].clone()).unwrap()
}

fn remove(disk: &FaultyDisk, path: &str) {
    disk.remove_file(&DiskPath::parse(path).unwrap()).unwrap();
}

fn state(disk: &FaultyDisk, walk: &SampleSession) -> ChainState {
    let verified = open(disk).verify(&walk.session).unwrap();
    assert_eq!(verified.is_sound(), verified.health.is_healthy() && !verified.chain.is_broken());
    verified.chain
}

fn break_of(disk: &FaultyDisk, walk: &SampleSession) -> Option<ChainBreak> {
    match state(disk, walk) {
        ChainState::Broken { reason, .. } => Some(reason),
        ChainState::Missing | ChainState::Unchecked | ChainState::Intact { .. } => None,
    }
}

/// Changes the notes of the `number`th advance, and recomputes the digest in the manifest, like an attacker who knows the format but
/// not the key.
fn forge(disk: &FaultyDisk, walk: &SampleSession, number: usize) {
    let (before, after) = (format!("notes {number}"), format!("forged{number}"));
    let segments: Vec<_> =
        disk.files().into_keys().filter(|name| name.starts_with(&path(walk, "events/"))).collect();
    let segment = segments.iter().find(|name| text(disk, name).contains(&before)).unwrap();
    let honest = disk.files()[segment].clone();
    let forged = text(disk, segment).replace(&before, &after).into_bytes();
    let manifest = path(walk, "manifest.jsonl");
    let digest = |bytes: &[u8]| Digest::of_bytes(bytes).to_string();
    let attested = text(disk, &manifest).replace(&digest(&honest), &digest(&forged));
    disk.overwrite(segment, forged);
    disk.overwrite(&manifest, attested.into_bytes());
}

/// Removes the last append: its group in the manifest and its segment.
fn remove_last_append(disk: &FaultyDisk, walk: &SampleSession) {
    let manifest = path(walk, "manifest.jsonl");
    let lines = text(disk, &manifest);
    let last = lines.rfind("{\"kind\":\"segment_closed\"").unwrap();
    disk.overwrite(&manifest, lines.as_bytes()[..last].to_vec());
    let segments = disk.files().into_keys().filter(|name| name.starts_with(&path(walk, "events/")));
    remove(disk, &segments.max().unwrap());
}

fn remove_last_line(disk: &FaultyDisk, walk: &SampleSession) {
    let chain = path(walk, "chain.jsonl");
    let lines = text(disk, &chain);
    let end = lines.trim_end().rfind('\n').unwrap() + 1;
    disk.overwrite(&chain, lines.as_bytes()[..end].to_vec());
}

/// Regression test: a note edited together with its digest passed `session verify`.
#[test]
fn an_edited_note_with_a_new_digest_is_detected_wherever_it_is() {
    for number in 0..4 {
        let disk = FaultyDisk::default();
        let walk = session(&disk, "forged", 4);
        assert_eq!(state(&disk, &walk), ChainState::Intact { begun_at: EventIndex::FIRST });
        forge(&disk, &walk, number);
        let files = open(&disk);
        assert!(files.health(&walk.session).unwrap().is_healthy(), "the digests agree");
        let verified = files.verify(&walk.session).unwrap();
        let ChainState::Broken { reason: ChainBreak::Mismatch, problem } = &verified.chain else {
            panic!("advance {number}: {verified:?}")
        };
        let first = 3 + 4 * number;
        assert_eq!(*problem, format!("events {first} to {} are not what was recorded", first + 3));
        assert!(!verified.is_sound());
    }
}

#[test]
fn what_is_done_to_the_files_without_the_key_is_detected() {
    type Tampering = fn(&FaultyDisk, &SampleSession);
    let cases: [(&str, ChainBreak, Tampering); 9] = [
        ("an acknowledged append is removed", ChainBreak::LogTruncated, remove_last_append),
        ("two appends are removed, and one line", ChainBreak::LogTruncated, |disk, walk| {
            remove_last_append(disk, walk);
            remove_last_append(disk, walk);
            remove_last_line(disk, walk);
        }),
        ("a line of the chain is removed", ChainBreak::Incomplete, remove_last_line),
        ("the last note is forged, and its line removed", ChainBreak::Incomplete, |disk, walk| {
            forge(disk, walk, 2);
            remove_last_line(disk, walk);
        }),
        ("a line is removed in the middle", ChainBreak::Mismatch, |disk, walk| {
            let chain = path(walk, "chain.jsonl");
            let mut lines: Vec<_> = text(disk, &chain).lines().map(str::to_owned).collect();
            lines.remove(2);
            disk.overwrite(&chain, (lines.join("\n") + "\n").into_bytes());
        }),
        ("the key is removed", ChainBreak::KeyMissing, |disk, _| remove(disk, "keys/integrity.json")),
        ("the key is damaged", ChainBreak::KeyMissing, |disk, _| {
            disk.overwrite("keys/integrity.json", b"{}".to_vec());
        }),
        ("there is another key", ChainBreak::OtherKey, |disk, _| {
            let other = guide::token::Keyring::new([9; 32]).encode();
            disk.overwrite("keys/integrity.json", other.into_bytes());
        }),
        ("the chain is that of another session", ChainBreak::Invalid, |disk, walk| {
            let other = session(disk, "another", 3);
            disk.overwrite(&path(walk, "chain.jsonl"), disk.files()[&path(&other, "chain.jsonl")].clone());
        }),
    ];
    for (name, expected, tamper) in cases {
        let disk = FaultyDisk::default();
        let mut walk = session(&disk, "tampered", 3);
        tamper(&disk, &walk);
        assert_eq!(break_of(&disk, &walk), Some(expected), "{name}");
        if matches!(expected, ChainBreak::Mismatch | ChainBreak::Incomplete) {
            // Further appends do not make a changed note valid.
            walk.advance("after").append(&open(&disk), None).unwrap();
            assert_eq!(break_of(&disk, &walk), Some(expected), "{name}, after another append");
        }
    }
}

/// Removing the last append exactly as a crash would leaves no trace in the files. Only its token reveals it.
#[test]
fn a_session_that_is_rolled_back_with_its_chain_is_left_to_its_tokens() {
    let disk = FaultyDisk::default();
    let walk = session(&disk, "rolled back", 3);
    remove_last_append(&disk, &walk);
    remove_last_line(&disk, &walk);
    assert!(state(&disk, &walk).covers_everything());
}

#[test]
fn a_flipped_byte_of_a_chain_is_reported() {
    let disk = FaultyDisk::default();
    let walk = session(&disk, "flip", 2);
    let chain = path(&walk, "chain.jsonl");
    let whole = disk.files()[&chain].clone();
    for position in 0..whole.len() {
        for other in [whole[position] ^ 0x01, whole[position] ^ 0x80, 0, b'\n'] {
            let mut flipped = whole.clone();
            flipped[position] = other;
            let changed = flipped != whole;
            disk.overwrite(&chain, flipped);
            // The last line end is not synced, and may be a NUL after a power failure.
            let harmless = !changed || (position + 1 == whole.len() && other == 0);
            assert_eq!(break_of(&disk, &walk).is_none(), harmless, "byte {position} to {other}");
        }
    }
}

#[test]
fn a_session_without_a_chain_says_so_and_begins_one_over_all_that_is_there() {
    let disk = FaultyDisk::default();
    let mut walk = session(&disk, "older", 2);
    let there = EventIndex(walk.events.len() as u64);
    remove(&disk, &path(&walk, "chain.jsonl"));
    let verified = open(&disk).verify(&walk.session).unwrap();
    assert_eq!((verified.is_sound(), &verified.chain), (true, &ChainState::Missing));
    walk.advance("begins the chain").append(&open(&disk), None).unwrap();
    assert_eq!(state(&disk, &walk), ChainState::Intact { begun_at: there });
    assert!(!state(&disk, &walk).covers_everything());
    walk.advance("goes on").append(&open(&disk), None).unwrap();
    assert_eq!(state(&disk, &walk), ChainState::Intact { begun_at: there });
    forge(&disk, &walk, 0);
    assert_eq!(break_of(&disk, &walk), Some(ChainBreak::Mismatch), "what was there is covered from then on");
}

#[test]
fn a_rotation_of_the_token_keys_leaves_the_chains_alone_and_only_the_owner_reads_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let files = SessionFiles::open(Arc::new(RealDisk::open(dir.path()).unwrap())).unwrap();
    let mut walk = SampleSession::new("rotated");
    walk.start().create(&files).unwrap();
    let key = dir.path().join("keys/integrity.json");
    let before = std::fs::read(&key).unwrap();
    for entropy in [[1; 32], [2; 32], [3; 32]] {
        files.rotate_keys(entropy).unwrap();
    }
    walk.advance("after the rotation").append(&files, None).unwrap();
    assert!(files.verify(&walk.session).unwrap().chain.covers_everything());
    assert_eq!(std::fs::read(&key).unwrap(), before);
    for file in [key, dir.path().join(path(&walk, "chain.jsonl"))] {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
    // Neither the chain nor any other visible data of a session contains the key.
    let secret = String::from_utf8(before).unwrap();
    let secret = secret.split('"').find(|part| part.len() == 43).unwrap();
    assert!(!std::fs::read_to_string(dir.path().join(path(&walk, "chain.jsonl"))).unwrap().contains(secret));
    assert!(!format!("{files:?}").contains(secret));
}

#[test]
fn processes_that_begin_at_once_get_one_key_and_a_reader_beside_a_writer_sees_no_tampering() {
    let dir = tempfile::tempdir().unwrap();
    let open = || SessionFiles::open(Arc::new(RealDisk::open(dir.path()).unwrap())).unwrap();
    thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let (files, reader) = (open(), open());
                let mut walk = SampleSession::new(&format!("writer {number}"));
                walk.start().create(&files).unwrap();
                thread::scope(|inner| {
                    let session = walk.session.clone();
                    let reading = inner.spawn(move || {
                        for _ in 0..30 {
                            let verified = reader.verify(&session).unwrap();
                            assert!(verified.chain.covers_everything(), "{verified:?}");
                        }
                    });
                    for step in 0..20 {
                        walk.advance(&format!("{step}")).append(&files, None).unwrap();
                    }
                    reading.join().unwrap();
                });
            });
        }
    });
}

/// For copies of a session that is being written: the manifest is copied first.
#[test]
fn a_chain_is_cut_to_what_a_copied_manifest_has() {
    let disk = FaultyDisk::default();
    let walk = session(&disk, "copied", 3);
    let chain = disk.files()[&path(&walk, "chain.jsonl")].clone();
    assert_eq!(chain_within(&chain, 8), chain, "all of it");
    remove_last_append(&disk, &walk);
    assert_eq!(break_of(&disk, &walk), Some(ChainBreak::LogTruncated));
    disk.overwrite(&path(&walk, "chain.jsonl"), chain_within(&chain, 6).to_vec());
    assert!(state(&disk, &walk).covers_everything());
    assert_eq!(chain_within(b"not a chain", 1), b"not a chain");
}
