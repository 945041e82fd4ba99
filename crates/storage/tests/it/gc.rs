//! Garbage collection: what it deletes, what it keeps, and what stops it.

use storage::disk::FaultyDisk;
use storage::files::{GcOutcome, GcReport, Retention};

use crate::support::{SampleSession, open, session};

const LATER: Retention = Retention { now_ms: 10_000_000, ttl_ms: 1_000_000, dry_run: false };

#[test]
fn old_sessions_go_with_everything_that_only_they_needed() {
    let disk = FaultyDisk::default();
    let files = open(&disk);
    let mut walk = SampleSession::new("goes");
    let cursor = walk.start().create(&files).unwrap().cursor;
    walk.advance_with_artifact(b"[1]").append(&files, Some(&cursor)).unwrap();
    let would = files.gc(Retention { dry_run: true, ..LATER }).unwrap();
    assert_eq!(would.outcome, GcOutcome::DryRun);
    assert_eq!(files.sessions().unwrap().len(), 1);
    let report = files.gc(LATER).unwrap();
    let expected = GcReport {
        deleted_sessions: vec![walk.session.clone()],
        deleted_snapshots: 2,
        deleted_workflows: 1,
        deleted_artifacts: 1,
        ..GcReport::default()
    };
    assert_eq!(report, expected);
    assert_eq!(would, GcReport { outcome: GcOutcome::DryRun, ..expected });
    let left: Vec<_> = disk.files().into_keys().filter(|path| !path.contains("lock")).collect();
    assert_eq!(left, ["format.json", "keys/integrity.json"]);
}

#[test]
fn young_and_marked_sessions_stay_with_the_bases_of_their_snapshots() {
    let disk = FaultyDisk::default();
    let files = open(&disk);
    // All three have the same steps, so they share snapshots.
    let kept = session(&disk, "kept", 5);
    let old = session(&disk, "old", 9);
    let mut young = SampleSession::new("young");
    young.now_ms = LATER.now_ms - 1;
    let mut cursor = young.start().create(&files).unwrap().cursor;
    for _ in 0..7 {
        cursor = young.advance("x").append(&files, Some(&cursor)).unwrap().cursor;
    }
    files.set_kept(&kept.session, true).unwrap();
    let report = files.gc(LATER).unwrap();
    assert_eq!(report.deleted_sessions, [old.session]);
    assert_eq!(report.spared_sessions, std::slice::from_ref(&kept.session));
    assert_eq!((report.deleted_snapshots, report.deleted_workflows), (2, 0));
    for session in [&kept.session, &young.session] {
        assert!(open(&disk).verify(session).unwrap().is_sound());
    }
    files.set_kept(&kept.session, false).unwrap();
    assert_eq!(files.gc(LATER).unwrap().deleted_sessions, [kept.session]);
}

/// Finding R10: the age of a session is that of its last event or its import. Copying the files does not change it.
#[test]
fn events_and_imports_say_how_old_a_session_is_and_files_do_not() {
    let disk = FaultyDisk::default();
    disk.set_clock(LATER.now_ms - 10);
    let imported = session(&disk, "imported", 1);
    let copied = session(&disk, "copied", 1);
    open(&disk).set_imported(&imported.session, LATER.now_ms - 10).unwrap();
    assert_eq!(open(&disk).gc(LATER).unwrap().deleted_sessions, [copied.session]);
    assert!(open(&disk).load(&imported.session).is_ok());
    let much_later = Retention { now_ms: 2 * LATER.now_ms, ..LATER };
    assert_eq!(open(&disk).gc(much_later).unwrap().deleted_sessions, [imported.session]);
}

#[test]
fn anything_that_cannot_be_validated_means_that_nothing_is_deleted() {
    let manifest = |walk: &SampleSession| format!("sessions/{}/manifest.jsonl", walk.session);
    for case in ["a damaged manifest", "a missing segment", "a newer record", "a damaged snapshot"] {
        let disk = FaultyDisk::default();
        let old = session(&disk, "old", 1);
        let mut young = SampleSession::new("young");
        young.now_ms = LATER.now_ms;
        let files = open(&disk);
        let cursor = young.start().create(&files).unwrap().cursor;
        young.advance("x").append(&files, Some(&cursor)).unwrap();
        let path = match case {
            "a missing segment" => format!("sessions/{}/events/00000003-00000006.jsonl", young.session),
            "a damaged snapshot" => format!("snapshots/{}.json", young.snapshot().snapshot_ref().0.to_hex()),
            _ => manifest(&young),
        };
        let mut bytes = disk.files()[&path].clone();
        match case {
            "a newer record" => {
                bytes = String::from_utf8(bytes).unwrap().replacen("\"v\":1", "\"v\":7", 1).into_bytes();
            }
            _ => bytes.truncate(bytes.len() / 3),
        }
        if case == "a damaged manifest" {
            bytes.extend_from_slice(b"!");
        }
        disk.overwrite(&path, bytes);
        let before = disk.files();
        let report = open(&disk).gc(LATER).unwrap();
        assert_eq!(report.outcome, GcOutcome::SafeMode, "{case}");
        assert!(!report.warnings.is_empty() && report.deleted_sessions.is_empty(), "{case}");
        assert_eq!(disk.files(), before, "{case}");
        assert!(open(&disk).load(&old.session).is_ok(), "{case}");
    }
}
