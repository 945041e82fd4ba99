//! Guided sessions.

use std::sync::Arc;

use canon::digest::Digest;
use guide::record::{EventIndex, ManifestRecord};
use ports::contract::sessions::{SampleSession, contract};
use ports::sessions::{
    Append, ChainBreak, ChainState, Cursor, IsAwaited, Retention, SessionHealth, SessionLog, SessionStore,
    SessionStores as _, StoreError,
};
use postgres::{Options, PostgresRuns, PostgresSessions, Role};
use sealing::MasterKey;
use storage::disk::{Disk as _, MemoryDisk};
use storage::files::FileSessions;

use crate::proxy::{Cut, Proxy};
use crate::{admin, database, options};

fn master_key() -> Arc<MasterKey> {
    Arc::new(MasterKey::parse(&"5a".repeat(32)).unwrap())
}

/// A process with the sessions of a tenant.
struct Process {
    runs: Arc<PostgresRuns>,
    store: Arc<dyn SessionStore>,
}

async fn process(url: &str, tenant: Option<&str>) -> Process {
    let options = Options { role: Role::Command, ..options(url) };
    let runs = Arc::new(PostgresRuns::open(&options).await.unwrap());
    let store = PostgresSessions::new(&runs, master_key()).open(tenant).await.unwrap();
    Process { runs, store }
}

async fn append(store: &dyn SessionStore, append: Append) -> Result<(), StoreError> {
    let session = append.plan.session_id().clone();
    store.lock(session, None).await?.append(append).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_keep_the_contract() {
    let Some(url) = database().await else { return };
    let (one, other) = (process(&url, None).await, process(&url, None).await);
    contract(&*one.store, &*other.store).await;
}

/// The manifest, and each segment with its name.
type LogBytes = (Vec<u8>, Vec<(i64, Vec<u8>)>);

async fn bytes_in_database(url: &str, walk: &SampleSession) -> LogBytes {
    let sql = "select first, manifest, events from session_segments where session_id = $1 order by first";
    let rows = admin(url).await.query(sql, &[&walk.session.as_str()]).await.unwrap();
    let manifest = rows.iter().flat_map(|row| row.get::<_, Vec<u8>>(1)).collect();
    (manifest, rows.iter().map(|row| (row.get(0), row.get(2))).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_the_same_bytes_as_in_files() {
    let Some(url) = database().await else { return };
    let here = process(&url, None).await;
    let disk = Arc::new(MemoryDisk::default());
    let files = FileSessions::open(Arc::clone(&disk) as _).unwrap();
    let mut walk = SampleSession::new("same-bytes");
    let start = walk.start();
    here.store.create(start.clone()).await.unwrap();
    SessionLog::create(&files, start).await.unwrap();
    for number in 0..20 {
        let step = walk.advance(&number.to_string());
        append(&*here.store, step.clone()).await.unwrap();
        append(&files, step).await.unwrap();
    }
    let (manifest, segments) = bytes_in_database(&url, &walk).await;
    let folder = format!("sessions/{}", walk.session);
    let read =
        |path: String| disk.read_from(&storage::disk::DiskPath::parse(&path).unwrap(), 0, 1 << 20).unwrap();
    assert_eq!(manifest, read(format!("{folder}/manifest.jsonl")));
    let loaded = files.files().load(&walk.session).unwrap();
    let names: Vec<String> = loaded
        .manifest
        .iter()
        .filter_map(|record| match record {
            ManifestRecord::SegmentClosed(segment) => Some(segment.segment_rel_path.clone()),
            ManifestRecord::SnapshotPinned(_) => None,
        })
        .collect();
    assert_eq!(names.len(), segments.len());
    for (name, (_, events)) in names.iter().zip(&segments) {
        assert_eq!(*events, read(format!("{folder}/{name}")), "{name}");
    }
    let here = here.store.load(walk.session.clone()).await.unwrap();
    assert_eq!((here.events, here.manifest), (loaded.events, loaded.manifest));
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_do_not_share_sessions_objects_or_keys() {
    let Some(url) = database().await else { return };
    let (own, acme) = (process(&url, None).await, process(&url, Some("acme")).await);
    let mut walk = SampleSession::new("tenants");
    own.store.create(walk.start()).await.unwrap();
    let id = || walk.session.clone();
    assert!(matches!(acme.store.load(id()).await, Err(StoreError::Unknown { .. })));
    assert_eq!(acme.store.sessions().await.unwrap(), []);
    assert!(acme.store.workflow(walk.workflow_hash()).await.is_err());
    assert_eq!(acme.store.page(0, 10).await.unwrap().total, 0);
    let keys = own.store.keyring_or_create([1; 32]).await.unwrap();
    assert_ne!(acme.store.keyring_or_create([2; 32]).await.unwrap(), keys);
}

/// Only one of many writers at once appends, and every one of them can append after it has read the session again.
#[tokio::test(flavor = "multi_thread")]
async fn writers_of_two_processes_take_turns() {
    let Some(url) = database().await else { return };
    let (one, other) = (process(&url, None).await, process(&url, None).await);
    let mut walk = SampleSession::new("turns");
    one.store.create(walk.start()).await.unwrap();
    for number in 0..10 {
        let step = walk.advance(&number.to_string());
        let tries = (0..6).map(|at| {
            let (store, step) = (if at % 2 == 0 { &one.store } else { &other.store }, step.clone());
            let store = Arc::clone(store);
            tokio::spawn(async move { append(&*store, step).await })
        });
        let mut appended = 0;
        for attempt in tries.collect::<Vec<_>>() {
            match attempt.await.unwrap() {
                Ok(()) => appended += 1,
                Err(error) => assert!(matches!(error, StoreError::Moved { .. }), "{error:?}"),
            }
        }
        assert_eq!(appended, 1, "append {number}");
    }
    assert_eq!(other.store.load(walk.session.clone()).await.unwrap().events, walk.events);
    assert!(other.store.verify(walk.session.clone()).await.unwrap().is_sound());
}

/// A connection that is lost at any moment of an append neither loses nor repeats it.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_whose_connection_is_lost_takes_effect_once() {
    let Some(url) = database().await else { return };
    let proxy = Proxy::start(&url).await;
    let here = process(&proxy.url, None).await;
    let mut walk = SampleSession::new("lost");
    here.store.create(walk.start()).await.unwrap();
    append(&*here.store, walk.advance("prepared")).await.unwrap();
    for cut in Cut::ALL {
        let words = format!("cut {cut:?}");
        let step = walk.advance(&words);
        proxy.arm(words.as_bytes(), 0, cut);
        append(&*here.store, step).await.unwrap();
        assert!(proxy.disarm(), "{cut:?}");
        assert_eq!(here.store.load(walk.session.clone()).await.unwrap().events, walk.events, "{cut:?}");
    }
    assert!(here.store.verify(walk.session.clone()).await.unwrap().is_sound());
}

/// A process whose row is gone writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_process_writes_nothing() {
    let Some(url) = database().await else { return };
    let here = process(&url, None).await;
    let mut walk = SampleSession::new("fenced");
    here.store.create(walk.start()).await.unwrap();
    here.store.keyring_or_create([1; 32]).await.unwrap();
    admin(&url).await.execute("delete from hosts", &[]).await.unwrap();
    let session = walk.session.clone();
    let id = || session.clone();
    let mut other = SampleSession::new("fenced-too");
    let ended = ports::sessions::Ended {
        run_id: flow::id::RunId::new("r"),
        node_id: flow::id::NodeId::new("n"),
        run_status: "failed".to_owned(),
    };
    let step = walk.advance("x");
    let refusals = [
        append(&*here.store, step).await,
        here.store.create(other.start()).await.map(drop),
        here.store.set_kept(id(), true).await,
        here.store.lock(id(), None).await.unwrap().end(ended).await,
        here.store.rotate_keys([2; 32]).await.map(drop),
        here.store
            .gc(Retention { now_ms: 10_000_000, ttl_ms: 1, dry_run: false }, IsAwaited::never())
            .await
            .map(drop),
    ];
    for (at, refusal) in refusals.into_iter().enumerate() {
        let error = refusal.unwrap_err().envelope();
        assert!(error.message().contains("taken over"), "{at}: {}", error.message());
    }
    assert_eq!(here.store.load(id()).await.unwrap().events.len(), 3);
    assert_eq!(here.store.sessions().await.unwrap(), [id()]);
    assert!(!here.store.is_kept(id()).await.unwrap());
}

/// What an operator with access to the tables can damage is found.
#[tokio::test(flavor = "multi_thread")]
async fn damage_is_found() {
    let Some(url) = database().await else { return };
    let here = process(&url, None).await;
    let client = admin(&url).await;
    let cases: [(&str, &str); 6] = [
        (
            "update session_segments set events = events || 'x'::bytea where session_id = $1 and first > 5",
            "digest_mismatch",
        ),
        (
            "update session_segments set manifest = 'x'::bytea where session_id = $1 and first > 5",
            "schema_validation_failed",
        ),
        ("delete from session_segments where session_id = $1 and first > 5", "missing_attested_segment"),
        ("update sessions set next_event = next_event + 1 where session_id = $1", "missing_attested_segment"),
        (
            "update session_segments set chain = ''::bytea where session_id = $1 and first = 0",
            "chain_invalid",
        ),
        ("delete from session_objects where $1 <> ''", "STORE_OBJECT_MISSING"),
    ];
    for (number, (sql, expected)) in cases.into_iter().enumerate() {
        let mut walk = SampleSession::new(&format!("damage-{number}"));
        here.store.create(walk.start()).await.unwrap();
        append(&*here.store, walk.advance("a")).await.unwrap();
        append(&*here.store, walk.advance("b")).await.unwrap();
        assert!(here.store.verify(walk.session.clone()).await.unwrap().is_sound());
        assert!(client.execute(sql, &[&walk.session.as_str()]).await.unwrap() > 0, "{sql}");
        let found = here.store.verify(walk.session.clone()).await.unwrap();
        assert!(!found.is_sound(), "{sql}");
        let codes = found
            .health
            .damage()
            .map(|damage| damage.reason.as_str().to_owned())
            .into_iter()
            .chain(found.problems.iter().map(|problem| problem.envelope().code().to_owned()))
            .chain(match &found.chain {
                ChainState::Broken { reason, .. } => Some(reason.as_str().to_owned()),
                _ => None,
            });
        assert!(codes.clone().any(|code| code == expected), "{sql}: {:?}", codes.collect::<Vec<_>>());
        if !found.health.is_healthy() {
            let refused = here.store.lock(walk.session.clone(), None).await.unwrap_err();
            assert!(
                matches!(refused, StoreError::NotHealthy { .. }),
                "{sql}: a damaged session is not continued"
            );
            let prefix = here.store.load_validated_prefix(walk.session.clone()).await.unwrap();
            assert_eq!(prefix.loaded.events, walk.events[..prefix.loaded.events.len()], "{sql}");
            assert!(!matches!(prefix.health, SessionHealth::Healthy));
        }
    }
}

/// Removing the last steps and correcting the row of the session is found, because the row has the end of the chain.
#[tokio::test(flavor = "multi_thread")]
async fn removed_steps_are_found() {
    let Some(url) = database().await else { return };
    let here = process(&url, None).await;
    let mut walk = SampleSession::new("removed");
    here.store.create(walk.start()).await.unwrap();
    append(&*here.store, walk.advance("a")).await.unwrap();
    let kept = here.store.load(walk.session.clone()).await.unwrap();
    append(&*here.store, walk.advance("b")).await.unwrap();
    let (event, record) = (kept.cursor.next_event().0, kept.manifest.len());
    let (event, record) = (i64::try_from(event).unwrap(), i64::try_from(record).unwrap());
    let client = admin(&url).await;
    let id = walk.session.as_str();
    client
        .execute("delete from session_segments where session_id = $1 and first >= $2", &[&id, &event])
        .await
        .unwrap();
    let sql = "update sessions set next_event = $2, next_record = $3 where session_id = $1";
    client.execute(sql, &[&id, &event, &record]).await.unwrap();
    let found = here.store.verify(walk.session.clone()).await.unwrap();
    assert!(found.health.is_healthy(), "{:?}", found.health);
    assert!(
        matches!(found.chain, ChainState::Broken { reason: ChainBreak::LogTruncated, .. }),
        "{:?}",
        found.chain
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_encrypted_and_need_the_master_key() {
    let Some(url) = database().await else { return };
    let here = process(&url, None).await;
    here.store.keyring_or_create([0xab; 32]).await.unwrap();
    let sealed: Vec<u8> =
        admin(&url).await.query_one("select sealed from sealed_keys", &[]).await.unwrap().get(0);
    let digits = "ab".repeat(32);
    let text = String::from_utf8_lossy(&sealed);
    assert!(!text.contains(&digits) && !sealed.windows(8).any(|part| part == [0xab; 8]));
    let other = Arc::new(MasterKey::parse(&"11".repeat(32)).unwrap());
    let other = PostgresSessions::new(&here.runs, other).open(None).await.unwrap();
    let refused = other.keyring().await.unwrap_err().envelope();
    assert_eq!(refused.code(), "STORE_DAMAGED");
    assert!(refused.message().contains("`database.master_key`"), "{}", refused.message());
    // A row that is copied to another tenant does not open there.
    let client = admin(&url).await;
    client
        .execute("insert into sealed_keys select 'acme', name, version, sealed from sealed_keys", &[])
        .await
        .unwrap();
    let acme = process(&url, Some("acme")).await;
    assert!(acme.store.keyring().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_and_keys_of_a_data_directory_are_adopted_once() {
    let Some(url) = database().await else { return };
    let here = process(&url, None).await;
    let sessions = PostgresSessions::new(&here.runs, master_key());
    let local = guide::token::Keyring::new([7; 32]);
    assert_eq!(sessions.keyring_or(local.clone()).await.unwrap(), local);
    assert_eq!(sessions.keyring_or(guide::token::Keyring::new([8; 32])).await.unwrap(), local);
    assert_eq!(here.store.keyring().await.unwrap(), Some(local));
    assert_eq!(sessions.secret_or("audit", [1; 32]).await.unwrap(), [1; 32]);
    assert_eq!(sessions.secret_or("audit", [2; 32]).await.unwrap(), [1; 32]);
    assert_eq!(sessions.secret_or("other", [2; 32]).await.unwrap(), [2; 32]);
}

/// Objects are collected once no append has needed them for an hour, and an append in between keeps them.
#[tokio::test(flavor = "multi_thread")]
async fn collection_spares_objects_that_an_append_may_need() {
    let Some(url) = database().await else { return };
    let here = process(&url, None).await;
    let client = admin(&url).await;
    let count = |kind: &'static str| {
        let client = &client;
        async move {
            let sql = "select count(*) from session_objects where kind = $1";
            client.query_one(sql, &[&kind]).await.unwrap().get::<_, i64>(0)
        }
    };
    let mut walk = SampleSession::new("garbage");
    here.store.create(walk.start()).await.unwrap();
    let content = br#"{"kind":"test","text":"large"}"#;
    append(&*here.store, walk.advance_with_artifact(content)).await.unwrap();
    let old = Retention { now_ms: 10_000_000, ttl_ms: 1, dry_run: false };
    let report = here.store.gc(old, IsAwaited::never()).await.unwrap();
    assert_eq!((report.deleted_sessions.len(), report.deleted_artifacts), (1, 0), "the objects are young");
    assert_eq!((count("artifact").await, count("workflow").await), (1, 1));
    let age = "update session_objects set needed_at = needed_at - interval '2 hours'";
    client.execute(age, &[]).await.unwrap();
    // A new session of the same workflow needs the workflow again.
    let mut again = SampleSession::new("garbage");
    here.store.create(again.start()).await.unwrap();
    let dry = Retention { dry_run: true, ..old };
    assert_eq!(here.store.gc(dry, IsAwaited::never()).await.unwrap().deleted_artifacts, 1);
    here.store.set_kept(again.session.clone(), true).await.unwrap();
    let report = here.store.gc(old, IsAwaited::never()).await.unwrap();
    assert_eq!((report.deleted_artifacts, report.deleted_workflows, report.retained_sessions), (1, 0, 1));
    assert_eq!((count("artifact").await, count("workflow").await), (0, 1));
    assert!(here.store.verify(again.session.clone()).await.unwrap().is_sound());
    assert!(here.store.artifact(Digest::of_bytes(content)).await.is_err());
    // Positions and segments of the deleted session are gone.
    let rows = client.query_one("select count(*) from session_segments", &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 1);
    let loaded = here.store.load_since(Cursor::start(again.session.clone())).await.unwrap();
    assert_eq!(loaded.cursor.next_event(), EventIndex(3));
}
