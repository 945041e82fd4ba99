//! Every error code is produced, says what to do, and has a page.

use std::collections::BTreeSet;
use std::path::Path;

use canon::digest::Digest;
use guide::record::{EventIndex, SessionId};
use storage::disk::FaultyDisk;
use storage::files::{Attachments, NewObject};
use storage::{ObjectKind, StoreError, StoreErrorCode};

use crate::support::{SampleSession, open, session};

#[test]
fn every_code_has_a_page_and_a_suggestion() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    let session = SessionId::derived(&["errors"]);
    let digest = Digest::of_bytes(b"");
    let disk = |kind: std::io::ErrorKind| StoreError::Disk {
        doing: "write",
        path: "sessions".to_owned(),
        cause: kind.into(),
    };
    let health = storage::files::SessionHealth::CorruptHead {
        damage: storage::files::Damage {
            reason: storage::files::DamageReason::DigestMismatch,
            file: "manifest.jsonl".to_owned(),
            problem: "x".to_owned(),
        },
    };
    let errors = [
        StoreError::Locked { session: session.clone() },
        StoreError::NotHealthy { session: session.clone(), health: Box::new(health) },
        StoreError::Unknown { session: session.clone() },
        StoreError::Exists { session: session.clone() },
        StoreError::Moved { session: session.clone(), tip: EventIndex(1), planned: EventIndex(2) },
        StoreError::Spent { session },
        StoreError::Busy { with: "something" },
        disk(std::io::ErrorKind::Other),
        disk(std::io::ErrorKind::StorageFull),
        disk(std::io::ErrorKind::ReadOnlyFilesystem),
        disk(std::io::ErrorKind::FileTooLarge),
        StoreError::NewerVersion { found: 2, known: 1 },
        StoreError::Damaged { path: "format.json".to_owned(), problem: "x".to_owned() },
        StoreError::ObjectMissing { kind: ObjectKind::Snapshot, digest },
        StoreError::ObjectDamaged { kind: ObjectKind::Artifact, digest, problem: "x".to_owned() },
        StoreError::NewerFile { path: "snapshots/x.json".to_owned(), found: 2, known: 1 },
        StoreError::TooLarge { what: "x".to_owned(), measured: 2, maximum: 1 },
    ];
    let mut seen = BTreeSet::new();
    for error in &errors {
        let envelope = error.envelope();
        assert!(!envelope.message().is_empty() && !envelope.suggestion().is_empty(), "{error}");
        seen.insert(envelope.code());
    }
    let all: BTreeSet<_> = StoreErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(seen, all);
    for code in all.iter().chain(&["PLAN_REFUSED"]) {
        let page = std::fs::read_to_string(docs.join(format!("{code}.md")))
            .unwrap_or_else(|error| panic!("{code}: {error}"));
        assert!(page.starts_with(&format!("# {code}\n")), "{code}");
        assert!(page.contains("**What to do.**"), "{code}");
    }
}

#[test]
fn a_plan_is_refused_before_anything_is_written_when_something_is_missing_or_wrong() {
    let disk = FaultyDisk::default();
    let mut walk = session(&disk, "missing", 1);
    let step = walk.advance_with_artifact(b"[1]");
    let artifact = NewObject { digest: Digest::of_bytes(b"[1]"), bytes: b"[2]" };
    let large = vec![b' '; 1_048_577];
    let too_large = NewObject { digest: Digest::of_bytes(&large), bytes: &large };
    let whole = step.attachments();
    let cases = [
        ("no snapshot", Attachments { snapshots: Vec::new(), ..whole.clone() }, "STORE_OBJECT_MISSING"),
        ("no artifact", Attachments { artifacts: Vec::new(), ..whole.clone() }, "STORE_OBJECT_MISSING"),
        (
            "another artifact",
            Attachments { artifacts: vec![artifact], ..whole.clone() },
            "STORE_OBJECT_DAMAGED",
        ),
        ("a large artifact", Attachments { artifacts: vec![too_large], ..whole.clone() }, "STORE_TOO_LARGE"),
    ];
    let files = open(&disk);
    let mut writer = files.lock(&walk.session, None).unwrap();
    let before = disk.files();
    for (name, attachments, code) in cases {
        let error = writer.append(&step.plan, &attachments).unwrap_err();
        assert_eq!(error.envelope().code(), code, "{name}");
        assert_eq!(disk.files(), before, "{name}");
    }
    writer.append(&step.plan, &whole).unwrap();
    let mut stranger = SampleSession::new("stranger");
    stranger.start();
    let error = writer.append(&stranger.advance("x").plan, &Attachments::default()).unwrap_err();
    assert_eq!(error.envelope().code(), "SESSION_MOVED");
}
