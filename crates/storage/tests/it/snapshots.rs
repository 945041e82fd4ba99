//! Snapshots are stored as differences and read back unchanged.

use std::collections::BTreeSet;

use guide::record::{
    CompletedSteps, EngineState, ExecutionSnapshot, Pending, Running, SnapshotRef, StepInstanceKey,
};
use guide::snapshot_digest::NamedSnapshot;
use proptest::prelude::*;
use storage::disk::FaultyDisk;

use crate::support::{SampleSession, open, session};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every snapshot of a run reads back unchanged, in a process with an empty cache.
    #[test]
    fn every_snapshot_of_a_run_reads_back_as_itself(advances in 1..90_usize, checkpoints in any::<u64>()) {
        let disk = FaultyDisk::default();
        let mut walk = SampleSession::new("chain");
        let files = open(&disk);
        let mut cursor = walk.start().create(&files).unwrap().cursor;
        let mut whole = vec![walk.snapshot()];
        for number in 0..advances {
            if checkpoints >> (number % 64) & 1 == 1 {
                cursor = walk.checkpoint().append(&files, Some(&cursor)).unwrap().cursor;
            }
            cursor = walk.advance("x").append(&files, Some(&cursor)).unwrap().cursor;
            whole.push(walk.snapshot());
        }
        let fresh = open(&disk);
        for snapshot in whole.iter().rev() {
            prop_assert_eq!(&*fresh.snapshot(snapshot.snapshot_ref()).unwrap(), snapshot);
        }
        let longest = disk.files().into_iter()
            .filter(|(path, _)| path.starts_with("snapshots/")).map(|(_, bytes)| bytes.len()).max();
        prop_assert!(longest.unwrap() < 400 + 14 * 64, "a difference is small: {:?}", longest);
    }
}

#[test]
fn a_snapshot_that_lost_steps_is_stored_whole_and_reads_back() {
    let disk = FaultyDisk::default();
    let files = open(&disk);
    let mut walk = SampleSession::new("shrinking");
    let cursor = walk.start().create(&files).unwrap().cursor;
    let cursor = walk.advance("x").append(&files, Some(&cursor)).unwrap().cursor;
    let parent = walk.snapshot().snapshot_ref();
    let other = ExecutionSnapshot::new(EngineState::Running(Running {
        completed: CompletedSteps { values: [StepInstanceKey::new("elsewhere", &[])].into_iter().collect() },
        loop_stack: Vec::new(),
        pending: Pending::None,
    }));
    let mut writer = files.lock(&walk.session, Some(&cursor)).unwrap();
    let step = walk.advance("y");
    let mut attachments = step.attachments();
    let named = NamedSnapshot::new(other.clone());
    attachments.snapshots.push(storage::files::NewSnapshot { named: &named, parent: Some(parent) });
    writer.append(&step.plan, &attachments).unwrap();
    assert_eq!(*open(&disk).snapshot(other.snapshot_ref()).unwrap(), other);
}

#[test]
fn a_snapshot_of_a_later_version_is_reported_and_not_changed() {
    type Change = fn(&str) -> String;
    let file: Change = |text| text.replacen("{\"v\":1,", "{\"v\":7,\"future\":true,", 1);
    let state: Change = |text| text.replacen("\"v\":1}", "\"v\":7}", 1);
    let older: Change = |text| text.replacen("{\"v\":1,", "{\"v\":0,", 1);
    let none: Change = |text| text.replacen("{\"v\":1,", "{", 1);
    for (name, at, change, code) in [
        ("the file", 3, file, "STORE_NEWER_VERSION"),
        ("a file that it builds on", 2, file, "STORE_NEWER_VERSION"),
        ("the state in it", 3, state, "STORE_NEWER_VERSION"),
        ("an older file than there ever was", 3, older, "STORE_OBJECT_DAMAGED"),
        ("no version at all", 3, none, "STORE_OBJECT_DAMAGED"),
    ] {
        let disk = FaultyDisk::default();
        let files = open(&disk);
        let mut walk = SampleSession::new("later");
        let mut cursor = walk.start().create(&files).unwrap().cursor;
        let mut references = vec![walk.snapshot().snapshot_ref()];
        for _ in 0..3 {
            cursor = walk.advance("x").append(&files, Some(&cursor)).unwrap().cursor;
            references.push(walk.snapshot().snapshot_ref());
        }
        let path = format!("snapshots/{}.json", references[at].0.to_hex());
        let text = String::from_utf8(disk.files()[&path].clone()).unwrap();
        assert_ne!(change(&text), text, "{name}: {text}");
        disk.overwrite(&path, change(&text).into_bytes());

        let error = open(&disk).snapshot(references[3]).unwrap_err().envelope();
        assert_eq!(error.code(), code, "{name}: {error}");
        let verified = open(&disk).verify(&walk.session).unwrap();
        let codes: BTreeSet<_> = verified.problems.iter().map(|problem| problem.code().as_str()).collect();
        assert_eq!(codes, BTreeSet::from([code]), "{name}");
        if code == "STORE_NEWER_VERSION" {
            assert_eq!(
                (&error.details()["found"], &error.details()["known"]),
                (&7.into(), &1.into()),
                "{name}"
            );
            // Storing the same state again does not overwrite it.
            let before = disk.files();
            let error = walk.checkpoint().append(&open(&disk), Some(&cursor)).unwrap_err();
            assert_eq!(error.code().as_str(), code, "{name}");
            assert!(disk.files() == before, "{name}");
        }
    }
}

#[test]
fn what_is_missing_or_damaged_is_said_and_not_used() {
    let disk = FaultyDisk::default();
    let walk = session(&disk, "missing", 3);
    let missing = SnapshotRef(canon::digest::Digest::of_bytes(b"missing"));
    assert_eq!(open(&disk).snapshot(missing).unwrap_err().envelope().code(), "STORE_OBJECT_MISSING");
    let files = disk.files();
    let tip = walk.snapshot().snapshot_ref();
    let path = format!("snapshots/{}.json", tip.0.to_hex());
    let text = String::from_utf8(files[&path].clone()).unwrap();
    // A cycle of bases is detected.
    let circle =
        text.replace(text.split("\"base\":\"").nth(1).unwrap().split('"').next().unwrap(), &tip.to_string());
    disk.overwrite(&path, circle.into_bytes());
    assert_eq!(open(&disk).snapshot(tip).unwrap_err().envelope().code(), "STORE_OBJECT_DAMAGED");
    // Storing a damaged snapshot again rewrites it.
    disk.overwrite(&path, b"{".to_vec());
    let mut again = SampleSession::new("missing");
    again.start();
    for number in 0..3 {
        again.advance(&format!("notes {number}"));
    }
    let step = again.checkpoint();
    step.append(&open(&disk), None).unwrap();
    assert_eq!(*open(&disk).snapshot(tip).unwrap(), walk.snapshot());
}
