use std::sync::Arc;

use storage::disk::{Fault, FaultyDisk, Survival};
use storage::files::SessionFiles;

use super::*;
use crate::catalogue::{Catalogue, CatalogueOptions};
use crate::guided::api::{ContinueRequest, Handle, Intent, StartRequest};
use crate::system::{ManualClock, SeededEntropy};

fn guided(disk: &FaultyDisk, seed: u64) -> Guided {
    Guided::new(
        SessionFiles::open(Arc::new(disk.clone())).unwrap(),
        Catalogue::new(CatalogueOptions::default()),
        Arc::new(ManualClock::at(1_700_000_000_000)),
        Arc::new(SeededEntropy::new(seed)),
    )
}

/// A session of a blocked attempt and a checkpoint, exported.
fn exported() -> (SessionId, Vec<u8>) {
    let service = guided(&FaultyDisk::default(), 1);
    let request = StartRequest {
        workflow_id: "wr.change_review".to_owned(),
        goal: "cross over".to_owned(),
        ..StartRequest::default()
    };
    let reply = service.start(request).unwrap();
    service.checkpoint(reply.checkpoint_token.as_deref().unwrap(), None).unwrap();
    let blocked = service
        .proceed(ContinueRequest {
            handle: Handle::Single(reply.continue_token.unwrap()),
            intent: Intent::Advance,
            notes_markdown: Some("too little".to_owned()),
            artifacts: Vec::new(),
            context: None,
            preferences: None,
        })
        .unwrap();
    assert!(blocked.blocked.is_some());
    let id = SessionId::parse(&reply.run.session_id).unwrap();
    let bytes = service.export(&id).unwrap();
    (id, bytes)
}

#[test]
fn an_import_is_whole_or_absent_at_every_crash_point() {
    let (id, bytes) = exported();
    let disk = FaultyDisk::default();
    guided(&disk, 2).import(&bytes, false).unwrap();
    let whole = SessionFiles::open(Arc::new(disk.clone())).unwrap().load(&id).unwrap().events;
    let writes = disk.writes();
    assert!(writes > 10, "{writes}");
    for crash_at in 0..writes {
        let disk = FaultyDisk::new(Fault::CrashBefore(crash_at));
        let told = guided(&disk, 2).import(&bytes, false).is_ok();
        for survival in Survival::ALL {
            let after = disk.surviving(survival);
            let service = guided(&after, 3);
            let sessions = service.files().sessions().unwrap();
            assert!(
                !told || sessions == [id.clone()],
                "what was acknowledged is there: {crash_at} {survival:?}"
            );
            for session in &sessions {
                assert_eq!(service.files().load(session).unwrap().events, whole, "{crash_at} {survival:?}");
                assert!(service.files().verify(session).unwrap().is_sound(), "{crash_at} {survival:?}");
            }
            let again = service.import(&bytes, false).unwrap();
            assert_eq!(again.as_new, !sessions.is_empty(), "{crash_at} {survival:?}");
        }
    }
}

#[test]
fn a_full_or_read_only_disk_refuses_with_its_code() {
    let (_, bytes) = exported();
    for (fault, code) in [(Fault::ReadOnly, "STORE_READ_ONLY"), (Fault::FullFrom(4), "STORE_FULL")] {
        let disk = FaultyDisk::new(fault);
        let refusal = guided(&disk, 2).import(&bytes, false).unwrap_err();
        assert_eq!(refusal.envelope().code(), code, "{fault:?}");
        let after = disk.surviving(Survival::Everything);
        assert!(guided(&after, 3).files().sessions().unwrap().is_empty(), "{fault:?}");
    }
}

#[test]
fn exports_of_the_same_session_are_the_same_bytes_wherever_it_lives() {
    let (id, bytes) = exported();
    let disk = FaultyDisk::default();
    let service = guided(&disk, 2);
    assert_eq!(service.import(&bytes, false).unwrap().session_id, id);
    assert_eq!(service.export(&id).unwrap(), bytes);
    let copy = service.import(&bytes, false).unwrap();
    assert!(copy.as_new && copy.session_id != id);
    let copied = bundle::read(&service.export(&copy.session_id).unwrap()).unwrap();
    let original = bundle::read(&bytes).unwrap();
    assert_eq!(copied.session().snapshots, original.session().snapshots);
    assert_eq!(copied.session().events.len(), original.session().events.len());
}

#[test]
fn moments_are_written_as_dates() {
    for (ms, expected) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
        (4_107_542_400_123, "2100-03-01T00:00:00.123Z"),
    ] {
        assert_eq!(date_and_time(ms), expected, "{ms}");
    }
}
