use std::sync::Arc;

use catalogue::{Catalogue, CatalogueOptions};
use ports::wait;
use storage::disk::{Disk as _, DiskPath, Fault, FaultyDisk, Survival};
use storage::files::{FileSessions, SessionFiles};
use system::{ManualClock, SeededEntropy};

use super::*;
use crate::api::{ContinueRequest, Handle, Intent, ResumeRequest, StartRequest};
use crate::{GuidedOptions, Verifier};

fn guided(disk: &FaultyDisk, seed: u64) -> Guided {
    Guided::new(GuidedOptions {
        store: Arc::new(FileSessions::open(Arc::new(disk.clone())).unwrap()),
        catalogue: Catalogue::new(CatalogueOptions::default()),
        clock: Arc::new(ManualClock::at(1_700_000_000_000)),
        entropy: Arc::new(SeededEntropy::new(seed)),
        verifier: Verifier::none(),
        advanced: Arc::default(),
    })
}

fn call(handle: Handle, intent: Intent) -> ContinueRequest {
    let notes_markdown = (intent == Intent::Advance).then(|| "too little".to_owned());
    ContinueRequest {
        handle,
        intent,
        notes_markdown,
        artifacts: Vec::new(),
        context: None,
        preferences: None,
    }
}

/// The file of the snapshot that the last append created.
fn last_snapshot(disk: &FaultyDisk) -> String {
    let files = disk.files();
    let blocked = |(path, bytes): &(&String, &Vec<u8>)| {
        path.starts_with("snapshots/") && String::from_utf8_lossy(bytes).contains("\"kind\":\"blocked\"")
    };
    files.iter().find(blocked).map(|(path, _)| path.clone()).unwrap()
}

/// An exported session with a blocked attempt and a checkpoint.
fn exported() -> (SessionId, Vec<u8>) {
    let service = guided(&FaultyDisk::default(), 1);
    let id = session(&service);
    let bytes = wait(service.export(&id)).unwrap();
    (id, bytes)
}

/// The same session, without its last append.
fn salvaged() -> (SessionId, Vec<u8>) {
    let disk = FaultyDisk::default();
    let service = guided(&disk, 1);
    let id = session(&service);
    damage(&disk, &last_segment(&disk), |bytes| bytes[0] ^= 1);
    (id.clone(), wait(guided(&disk, 2).export_sound_part(&id)).unwrap().bundle)
}

fn last_segment(disk: &FaultyDisk) -> String {
    disk.files().into_keys().rfind(|path| path.contains("/events/")).unwrap()
}

fn damage(disk: &FaultyDisk, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = disk.files()[path].clone();
    change(&mut bytes);
    disk.overwrite(path, bytes);
}

fn session(service: &Guided) -> SessionId {
    let request = StartRequest {
        workflow_id: "wr.change_review".to_owned(),
        goal: "cross over".to_owned(),
        ..StartRequest::default()
    };
    let reply = wait(service.start(request)).unwrap();
    wait(service.checkpoint(reply.checkpoint_token.as_deref().unwrap(), None)).unwrap();
    let blocked =
        wait(service.proceed(call(Handle::Single(reply.continue_token.unwrap()), Intent::Advance))).unwrap();
    assert!(blocked.blocked.is_some());
    SessionId::parse(&reply.run.session_id).unwrap()
}

#[test]
fn an_import_is_whole_or_absent_at_every_crash_point() {
    let (id, bytes) = exported();
    let imported = whole_or_absent(&bytes);
    assert_eq!((imported.session_id, imported.salvaged), (id, None));
    let (id, bytes) = salvaged();
    let imported = whole_or_absent(&bytes);
    assert!(imported.session_id != id && imported.salvaged.is_some(), "a part, which does not keep its id");
}

fn whole_or_absent(bytes: &[u8]) -> ImportOutcome {
    let disk = FaultyDisk::default();
    let outcome = wait(guided(&disk, 2).import(bytes.to_vec(), false)).unwrap();
    let id = &outcome.session_id;
    let whole = SessionFiles::open(Arc::new(disk.clone())).unwrap().load(id).unwrap().events;
    let writes = disk.writes();
    assert!(writes > 10, "{writes}");
    for crash_at in 0..writes {
        let disk = FaultyDisk::new(Fault::CrashBefore(crash_at));
        let imported = wait(guided(&disk, 2).import(bytes.to_vec(), false)).is_ok();
        for survival in Survival::ALL {
            let after = disk.surviving(survival);
            let service = guided(&after, 3);
            let sessions = wait(service.store().sessions()).unwrap();
            assert!(
                !imported || sessions == [id.clone()],
                "what was acknowledged is there: {crash_at} {survival:?}"
            );
            for session in &sessions {
                assert_eq!(
                    wait(service.store().load(session.clone())).unwrap().events,
                    whole,
                    "{crash_at} {survival:?}"
                );
                assert!(
                    wait(service.store().verify(session.clone())).unwrap().is_sound(),
                    "{crash_at} {survival:?}"
                );
                let mark = wait(service.store().salvaged(session.clone())).unwrap();
                assert_eq!(mark, outcome.salvaged, "what is a part is never seen without its mark");
            }
            let again = wait(service.import(bytes.to_vec(), false)).unwrap();
            let is_part = outcome.salvaged.is_some();
            assert_eq!(again.as_new, is_part || !sessions.is_empty(), "{crash_at} {survival:?}");
        }
    }
    outcome
}

#[test]
fn the_sound_part_of_a_damaged_session_travels_says_so_and_is_gone_on_with_as_a_new_session() {
    type Damaging = fn(&FaultyDisk);
    let cases: [(&str, Damaging, &str, usize); 5] = [
        (
            "the last segment",
            |disk| damage(disk, &last_segment(disk), |bytes| bytes[0] ^= 1),
            "digest_mismatch",
            2,
        ),
        (
            "the end of the manifest",
            |disk| {
                let manifest =
                    disk.files().into_keys().find(|path| path.ends_with("manifest.jsonl")).unwrap();
                damage(disk, &manifest, |bytes| bytes.extend(b"{}"));
            },
            "schema_validation_failed",
            3,
        ),
        (
            "the state of the last node",
            |disk| damage(disk, &last_snapshot(disk), Vec::clear),
            "STORE_OBJECT_DAMAGED",
            2,
        ),
        (
            "the state of the last node, gone",
            |disk| disk.remove_file(&DiskPath::parse(&last_snapshot(disk)).unwrap()).unwrap(),
            "STORE_OBJECT_MISSING",
            2,
        ),
        (
            "the last segment, and the state that it made",
            |disk| {
                damage(disk, &last_snapshot(disk), Vec::clear);
                damage(disk, &last_segment(disk), Vec::clear);
            },
            "digest_mismatch",
            2,
        ),
    ];
    for (name, damaging, reason, appends) in cases {
        let disk = FaultyDisk::default();
        let id = session(&guided(&disk, 1));
        let whole = wait(guided(&disk, 1).store().load(id.clone())).unwrap();
        damaging(&disk);
        let before = disk.files();
        let service = guided(&disk, 2);
        assert!(wait(service.export(&id)).is_err(), "{name}: not by accident");
        let part = wait(service.export_sound_part(&id)).unwrap();
        assert!(disk.files() == before, "{name}: nothing is repaired or marked");
        let said = part.salvaged.clone().unwrap();
        assert_eq!((&said.session_id, said.reason.as_str()), (&id, reason), "{name}: {}", said.problem);
        let bundle = bundle::read(&part.bundle).unwrap();
        assert_eq!(bundle.salvaged(), Some(&said), "{name}");
        assert_eq!(bundle.session().events, whole.events[..part.events], "{name}");
        assert_eq!(bundle::as_is(bundle).unwrap().segments.len(), appends, "{name}");

        // The id is free in this store, but a salvaged part must not get it: tokens of the complete session must not
        // resolve to the part.
        let service = guided(&FaultyDisk::default(), 3);
        let outcome = wait(service.import(part.bundle.clone(), false)).unwrap();
        assert!(outcome.as_new && outcome.session_id != id, "{name}");
        assert_eq!(outcome.salvaged.as_ref(), Some(&said), "{name}");
        assert!(wait(service.store().verify(outcome.session_id.clone())).unwrap().is_sound(), "{name}");
        assert_eq!(
            wait(service.store().salvaged(outcome.session_id.clone())).unwrap().as_ref(),
            Some(&said),
            "{name}"
        );
        let request =
            ResumeRequest { session_id: Some(outcome.session_id.to_string()), ..ResumeRequest::default() };
        let found = wait(service.resume(&request)).unwrap().candidates;
        let state_token = found[0]["resumeToken"].as_str().unwrap().to_owned();
        let handle = Handle::Pair { state_token, ack_token: None };
        let back = wait(service.proceed(call(handle, Intent::Rehydrate))).unwrap();
        let handle = Handle::Single(back.continue_token.unwrap());
        assert!(
            wait(service.proceed(call(handle, Intent::Advance))).unwrap().blocked.is_some(),
            "{name}: it continues"
        );
        let again = bundle::read(&wait(service.export(&outcome.session_id)).unwrap()).unwrap();
        assert_eq!(again.salvaged(), Some(&said), "{name}: and stays marked as a part in the next export");
    }
}

#[test]
fn of_a_sound_session_the_sound_part_is_the_whole() {
    let service = guided(&FaultyDisk::default(), 1);
    let id = session(&service);
    let part = wait(service.export_sound_part(&id)).unwrap();
    assert_eq!((part.bundle, part.salvaged), (wait(service.export(&id)).unwrap(), None));
}

#[test]
fn nothing_is_salvaged_where_nothing_is_sound_or_a_newer_program_can_read_it_all() {
    type Damaging = fn(&FaultyDisk);
    let cases: [(&str, Damaging, &str); 4] = [
        (
            "the first segment",
            |disk| {
                let first = disk.files().into_keys().find(|path| path.contains("/events/")).unwrap();
                damage(disk, &first, |bytes| bytes[0] ^= 1);
            },
            "SESSION_NOT_HEALTHY",
        ),
        (
            "a later manifest",
            |disk| {
                let manifest =
                    disk.files().into_keys().find(|path| path.ends_with("manifest.jsonl")).unwrap();
                damage(disk, &manifest, |bytes| {
                    let text = String::from_utf8(bytes.clone()).unwrap();
                    let (head, last) = text.trim_end().rsplit_once('\n').unwrap();
                    *bytes = format!("{head}\n{}\n", last.replacen("\"v\":1", "\"v\":2", 1)).into_bytes();
                });
            },
            "SESSION_NOT_HEALTHY",
        ),
        (
            "a later snapshot",
            |disk| {
                damage(disk, &last_snapshot(disk), |bytes| {
                    let text = String::from_utf8(bytes.clone()).unwrap();
                    *bytes = text.replacen("\"v\":1", "\"v\":2", 1).into_bytes();
                });
            },
            "STORE_NEWER_VERSION",
        ),
        (
            "no workflow",
            |disk| {
                let workflow = disk.files().into_keys().find(|path| path.starts_with("workflows/")).unwrap();
                disk.remove_file(&DiskPath::parse(&workflow).unwrap()).unwrap();
            },
            "STORE_OBJECT_MISSING",
        ),
    ];
    for (name, damaging, code) in cases {
        let disk = FaultyDisk::default();
        let id = session(&guided(&disk, 1));
        damaging(&disk);
        let refusal = wait(guided(&disk, 2).export_sound_part(&id)).unwrap_err();
        assert_eq!(refusal.envelope().code(), code, "{name}: {refusal}");
    }
}

#[test]
fn a_full_or_read_only_disk_refuses_with_its_code() {
    let (_, bytes) = exported();
    for (fault, code) in [(Fault::ReadOnly, "STORE_READ_ONLY"), (Fault::FullFrom(4), "STORE_FULL")] {
        let disk = FaultyDisk::new(fault);
        let refusal = wait(guided(&disk, 2).import(bytes.clone(), false)).unwrap_err();
        assert_eq!(refusal.envelope().code(), code, "{fault:?}");
        let after = disk.surviving(Survival::Everything);
        assert!(wait(guided(&after, 3).store().sessions()).unwrap().is_empty(), "{fault:?}");
    }
}

#[test]
fn exports_of_the_same_session_are_the_same_bytes_wherever_it_lives() {
    let (id, bytes) = exported();
    let disk = FaultyDisk::default();
    let service = guided(&disk, 2);
    assert_eq!(wait(service.import(bytes.clone(), false)).unwrap().session_id, id);
    assert_eq!(wait(service.export(&id)).unwrap(), bytes);
    let copy = wait(service.import(bytes.clone(), false)).unwrap();
    assert!(copy.as_new && copy.session_id != id);
    let copied = bundle::read(&wait(service.export(&copy.session_id)).unwrap()).unwrap();
    let original = bundle::read(&bytes).unwrap();
    assert_eq!(copied.session().snapshots, original.session().snapshots);
    assert_eq!(copied.session().events.len(), original.session().events.len());
}
