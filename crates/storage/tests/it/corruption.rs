//! Flips every byte of every file: each flip is detected, or provably has no effect.

use canon::digest::Digest;
use guide::bundle::Salvaged;
use guide::plan::pins_of;
use guide::record::{
    EventIndex, MANIFEST_VERSION, ManifestIndex, ManifestRecord, PinRecord, SegmentRecord, SessionId,
    segment_rel_path,
};
use storage::StoreError;
use storage::disk::{Disk as _, DiskPath, FaultyDisk};
use storage::files::{DamageReason, SessionHealth};

use crate::support::{SampleSession, open, session};

/// Two ways to flip a byte: one bit, and to NUL, which also marks space that was never written.
fn flips(byte: u8) -> impl Iterator<Item = u8> {
    [byte ^ 0x01, byte ^ 0x80, 0, b'\n'].into_iter().filter(move |other| *other != byte)
}

fn flip_everywhere(disk: &FaultyDisk, prefix: &str, mut look: impl FnMut(&FaultyDisk, &str)) -> usize {
    let files = disk.files();
    let mut flipped = 0;
    for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with(prefix)) {
        for position in 0..bytes.len() {
            for other in flips(bytes[position]) {
                let mut changed = bytes.clone();
                changed[position] = other;
                disk.overwrite(path, changed);
                look(disk, &format!("{path}, byte {position}: {} -> {other}", bytes[position]));
                flipped += 1;
            }
        }
        disk.overwrite(path, bytes.clone());
    }
    flipped
}

#[test]
fn a_flipped_byte_of_a_log_is_reported_with_a_closed_reason() {
    let disk = FaultyDisk::default();
    let walk = session(&disk, "flip", 1);
    let prefix = format!("sessions/{}/", walk.session);
    let flipped = flip_everywhere(&disk, &prefix, |disk, name| {
        if name.contains("chain.jsonl") {
            // The chain says whether the log is authentic, and readers of the log do not need it: see chain.rs.
            return;
        }
        let found = open(disk).load_validated_prefix(&walk.session);
        match found {
            Ok(prefix) => match prefix.health {
                // Only if the content is the same: the last line end carries no data.
                SessionHealth::Healthy => {
                    assert_eq!(prefix.loaded.events, walk.events, "{name}");
                    assert!(name.ends_with(": 10 -> 0"), "{name}");
                }
                SessionHealth::CorruptTail { .. } | SessionHealth::UnknownVersion { .. } => {
                    assert_eq!(prefix.loaded.events, walk.events[..prefix.loaded.events.len()], "{name}");
                    let error = open(disk).load(&walk.session).unwrap_err().envelope();
                    assert_eq!(error.code(), "SESSION_NOT_HEALTHY", "{name}");
                    let reason = error.details()["reason"].as_str().unwrap().to_owned();
                    assert!(DamageReason::parse(&reason).is_some(), "{name}: {reason}");
                    assert!(open(disk).lock(&walk.session, None).is_err(), "{name}");
                }
                SessionHealth::CorruptHead { .. } => assert!(prefix.loaded.events.is_empty(), "{name}"),
            },
            Err(error) => panic!("{name}: {error}"),
        }
    });
    assert!(flipped > 10_000, "{flipped}");
}

#[test]
fn a_flipped_byte_of_an_object_is_reported_or_changes_nothing() {
    let disk = FaultyDisk::default();
    let files = open(&disk);
    let mut walk = SampleSession::new("objects");
    let cursor = walk.start().create(&files).unwrap().cursor;
    let cursor = walk.advance("x").append(&files, Some(&cursor)).unwrap().cursor;
    walk.advance_with_artifact(br#"{"some":"artifact"}"#).append(&files, Some(&cursor)).unwrap();
    let tip = walk.snapshot();
    let reference = tip.snapshot_ref();
    for prefix in ["snapshots/", "workflows/", "artifacts/"] {
        let mut reported = 0;
        let flipped = flip_everywhere(&disk, prefix, |disk, name| {
            let verified = open(disk).verify(&walk.session).unwrap();
            if verified.problems.is_empty() {
                // The generation only affects how later snapshots are stored; a line end carries no data.
                assert_eq!(prefix, "snapshots/", "{name}");
                assert_eq!(*open(disk).snapshot(reference).unwrap(), tip, "{name}");
            } else {
                reported += 1;
                for problem in &verified.problems {
                    assert!(matches!(problem, StoreError::ObjectDamaged { .. }), "{name}: {problem}");
                }
            }
        });
        assert!(reported * 100 > flipped * 95, "{prefix}: {reported} of {flipped}");
    }
}

#[test]
fn a_workflow_is_written_once_and_again_only_when_its_file_is_not_what_was_left() {
    type Damaging = fn(&FaultyDisk, &str);
    let disk = FaultyDisk::default();
    let files = open(&disk);
    let create = |name: &str| SampleSession::new(name).start().create(&files).unwrap();
    create("first");
    let path = disk.files().into_keys().find(|path| path.starts_with("workflows/pinned/")).unwrap();
    let (whole, first) = (disk.files()[&path].clone(), disk.writes());
    create("second");
    let second = disk.writes();
    create("third");
    assert!(second < 2 * first, "{second} writes for two, {first} for one");
    assert_eq!(disk.writes() - second, second - first, "each costs the same from then on");
    let cases: [(&str, Damaging); 3] = [
        ("cut", |disk, path| disk.overwrite(path, b"{".to_vec())),
        ("changed later, at the same length", |disk, path| {
            disk.set_clock(99_000);
            let len = disk.files()[path].len();
            let file = DiskPath::parse(path).unwrap();
            disk.create(&file, &vec![b' '; len]).and_then(storage::disk::Unsynced::sync).unwrap();
        }),
        ("gone", |disk, path| disk.remove_file(&DiskPath::parse(path).unwrap()).unwrap()),
    ];
    for (name, damage) in cases {
        damage(&disk, &path);
        create(name);
        assert_eq!(disk.files()[&path], whole, "{name}");
    }
}

#[test]
fn each_kind_of_damage_has_its_own_reason() {
    type Damaging = Box<dyn Fn(&FaultyDisk, &str)>;
    let mut cases: Vec<(&str, &str, Damaging)> = Vec::new();
    let edit = |from: &'static str, to: &'static str| {
        move |disk: &FaultyDisk, dir: &str| {
            let path = format!("{dir}manifest.jsonl");
            let text = String::from_utf8(disk.files()[&path].clone()).unwrap();
            assert!(text.contains(from), "{text}");
            disk.overwrite(&path, text.replacen(from, to, 1).into_bytes());
        }
    };
    let remove = |name: &'static str| {
        move |disk: &FaultyDisk, dir: &str| {
            disk.remove_file(&DiskPath::parse(&format!("{dir}{name}")).unwrap()).unwrap();
        }
    };
    cases.push((
        "corrupt_tail",
        "missing_attested_segment",
        Box::new(remove("events/00000003-00000006.jsonl")),
    ));
    cases.push((
        "corrupt_head",
        "missing_attested_segment",
        Box::new(remove("events/00000000-00000002.jsonl")),
    ));
    cases.push((
        "corrupt_tail",
        "non_contiguous_indices",
        Box::new(edit("\"manifestIndex\":2,", "\"manifestIndex\":9,")),
    ));
    cases.push((
        "corrupt_tail",
        "non_contiguous_indices",
        Box::new(edit("\"firstEventIndex\":3", "\"firstEventIndex\":4")),
    ));
    cases.push((
        "unknown_version",
        "unknown_schema_version",
        Box::new(edit("\"v\":1,\"manifestIndex\":2,", "\"v\":2,\"manifestIndex\":2,")),
    ));
    cases.push((
        "corrupt_tail",
        "schema_validation_failed",
        Box::new(edit("\"manifestIndex\":3,", "\"manifestIndex\":x,")),
    ));
    cases.push((
        "corrupt_tail",
        "digest_mismatch",
        Box::new(|disk: &FaultyDisk, dir: &str| {
            disk.overwrite(&format!("{dir}events/00000007-00000010.jsonl"), b"{}\n".to_vec());
        }),
    ));
    cases.push((
        "corrupt_tail",
        "missing_snapshot_pin",
        Box::new(|disk: &FaultyDisk, dir: &str| {
            let path = format!("{dir}manifest.jsonl");
            let text = String::from_utf8(disk.files()[&path].clone()).unwrap();
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.remove(3);
            lines[3] = lines[3].replace("\"manifestIndex\":4", "\"manifestIndex\":3");
            disk.overwrite(&path, (lines.join("\n") + "\n").into_bytes());
        }),
    ));
    for (health, reason, damage) in cases {
        let disk = FaultyDisk::default();
        let walk = session(&disk, "kinds", 2);
        damage(&disk, &format!("sessions/{}/", walk.session));
        let found = open(&disk).health(&walk.session).unwrap();
        assert_eq!((found.as_str(), found.damage().unwrap().reason.as_str()), (health, reason), "{found}");
    }
}

#[test]
fn an_advance_that_is_attested_without_its_node_or_its_edge_is_damage() {
    for (name, gone) in
        [("no node, no edge", &["node_created", "edge_created"][..]), ("no edge", &["edge_created"][..])]
    {
        let disk = FaultyDisk::default();
        let mut walk = session(&disk, "unfinished", 1);
        let dir = format!("sessions/{}", walk.session);
        let manifest = open(&disk).load(&walk.session).unwrap().manifest.len() as u64;
        let sound = walk.events.len() as u64;
        let mut events = walk.advance("half of it").plan.into_events();
        events.retain(|event| !gone.contains(&event.data.kind()));
        for (event, index) in events.iter_mut().zip(sound..) {
            event.event_index = EventIndex(index);
        }
        // A segment that no program writes, with a valid digest.
        let segment: Vec<u8> =
            events.iter().flat_map(|event| [event.encode(), b"\n".to_vec()].concat()).collect();
        let (first, last) = (EventIndex(sound), EventIndex(sound + events.len() as u64 - 1));
        let mut records = vec![ManifestRecord::SegmentClosed(SegmentRecord {
            v: MANIFEST_VERSION,
            manifest_index: ManifestIndex(manifest),
            session_id: walk.session.clone(),
            first_event_index: first,
            last_event_index: last,
            segment_rel_path: segment_rel_path(first, last),
            sha256: Digest::of_bytes(&segment),
            bytes: segment.len() as u64,
        })];
        records.extend(pins_of(&events).into_iter().map(|pin| {
            ManifestRecord::SnapshotPinned(PinRecord {
                v: MANIFEST_VERSION,
                manifest_index: ManifestIndex(manifest + 1),
                session_id: walk.session.clone(),
                event_index: pin.event_index,
                snapshot_ref: pin.snapshot_ref,
                created_by_event_id: pin.event_id,
            })
        }));
        let path = DiskPath::parse(&format!("{dir}/{}", segment_rel_path(first, last))).unwrap();
        disk.create(&path, &segment).unwrap().sync().unwrap();
        let mut bytes = disk.files()[&format!("{dir}/manifest.jsonl")].clone();
        bytes.extend(records.iter().flat_map(|record| [record.encode(), b"\n".to_vec()].concat()));
        disk.overwrite(&format!("{dir}/manifest.jsonl"), bytes);

        let verified = open(&disk).verify(&walk.session).unwrap();
        assert!(!verified.is_sound(), "{name}");
        assert_eq!(verified.events as u64, sound, "{name}: what was before it is sound");
        let found = verified.health;
        let reason = found.damage().unwrap().reason.as_str();
        assert_eq!((found.as_str(), reason), ("corrupt_tail", "unfinished_advance"), "{name}: {found}");
        assert!(open(&disk).lock(&walk.session, None).is_err(), "{name}: and no writer gets the lock");
    }
}

#[test]
fn what_an_append_left_that_was_cut_off_is_ignored_and_anything_else_is_damage() {
    let disk = FaultyDisk::default();
    let mut walk = session(&disk, "tail", 1);
    let before = disk.files();
    let path = format!("sessions/{}/manifest.jsonl", walk.session);
    let known = walk.events.len();
    let step = walk.advance("cut off");
    step.append(&open(&disk), None).unwrap();
    let whole = disk.files()[&path].clone();
    let old = before[&path].len();
    for end in old..=whole.len() {
        for nuls in [0, 1, 700] {
            let mut bytes = whole[..end].to_vec();
            bytes.extend(std::iter::repeat_n(0, nuls));
            disk.overwrite(&path, bytes.clone());
            let loaded = open(&disk).load(&walk.session).unwrap();
            // The last line end carries no data: without it the group is complete.
            let expected = if end + 1 >= whole.len() { walk.events.len() } else { known };
            assert_eq!(loaded.events.len(), expected, "cut at {end}, {nuls} NULs");
            let mut torn = disk.copy(storage::disk::Fault::None);
            if expected == known {
                step.append(&open(&torn), None).unwrap();
                assert_eq!(torn.files()[&path], whole, "cut at {end}, {nuls} NULs, repaired");
            } else {
                torn = torn.copy(storage::disk::Fault::None);
                assert_eq!(open(&torn).load(&walk.session).unwrap().events, walk.events);
            }
            bytes.push(b'!');
            disk.overwrite(&path, bytes);
            assert!(
                !open(&disk).health(&walk.session).unwrap().is_healthy(),
                "cut at {end}, {nuls} NULs, then !"
            );
        }
    }
}

#[test]
fn a_manifest_that_shrinks_under_a_reader_is_damage() {
    let disk = FaultyDisk::default();
    let walk = session(&disk, "shrinks", 2);
    let files = open(&disk);
    let cursor = files.load(&walk.session).unwrap().cursor;
    assert!(files.load_since(&cursor).unwrap().events.is_empty());
    let path = format!("sessions/{}/manifest.jsonl", walk.session);
    let bytes = disk.files()[&path].clone();
    disk.overwrite(&path, bytes[..bytes.len() / 2].to_vec());
    let error = files.load_since(&cursor).unwrap_err().envelope();
    assert_eq!(error.details()["reason"], "manifest_truncated");
}

#[test]
fn the_mark_of_a_salvaged_part_is_read_or_reported_as_damaged_or_newer() {
    let disk = FaultyDisk::default();
    let files = open(&disk);
    let mut walk = SampleSession::new("part");
    let step = walk.start();
    let salvaged = Salvaged::new(SessionId::derived(&["hurt"]), "digest_mismatch", "one byte is wrong");
    files.create_part(std::slice::from_ref(&step.plan), &step.attachments(), &salvaged).unwrap();
    assert_eq!(open(&disk).salvaged(&walk.session).unwrap(), Some(salvaged));
    assert!(open(&disk).verify(&walk.session).unwrap().is_sound());
    let whole = session(&disk, "whole", 0);
    assert_eq!(open(&disk).salvaged(&whole.session).unwrap(), None);

    let path = format!("sessions/{}/salvaged.json", walk.session);
    let text = String::from_utf8(disk.files()[&path].clone()).unwrap();
    for (change, code) in [
        (text.replace("\"v\":1", "\"v\":2,\"more\":true"), "STORE_NEWER_VERSION"),
        (text.replace("\"v\":1", "\"v\":0"), "STORE_DAMAGED"),
        (text.replace("\"reason\"", "\"season\""), "STORE_DAMAGED"),
        (String::new(), "STORE_DAMAGED"),
    ] {
        disk.overwrite(&path, change.clone().into_bytes());
        let error = open(&disk).salvaged(&walk.session).unwrap_err().envelope();
        assert_eq!((error.code(), &error.details()["file"]), (code, &path.clone().into()), "{change}");
        let verified = open(&disk).verify(&walk.session).unwrap();
        assert!(verified.health.is_healthy() && !verified.is_sound(), "{change}");
        assert_eq!(
            (verified.objects, verified.problems.len()),
            (2, 1),
            "{change}: a workflow and a snapshot"
        );
    }
}

#[test]
fn the_version_of_the_directory_is_respected() {
    for (text, code) in [
        ("{\"version\":2}", "STORE_NEWER_VERSION"),
        ("{\"version\":0}", "STORE_DAMAGED"),
        ("{\"version\":\"1\"}", "STORE_DAMAGED"),
        ("", "STORE_DAMAGED"),
    ] {
        let disk = FaultyDisk::default();
        session(&disk, "version", 0);
        disk.overwrite("format.json", text.as_bytes().to_vec());
        let before = disk.files();
        let error = storage::files::SessionFiles::open(std::sync::Arc::new(disk.clone())).unwrap_err();
        assert_eq!(error.envelope().code(), code, "{text}");
        assert_eq!(disk.files(), before, "{text}");
    }
}
