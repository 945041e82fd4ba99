//! The contract of a store of sessions, as a suite that every adapter passes.
//!
//! [`contract`] gets two handles on the same sessions, as two processes have them. Each rule of [`crate::sessions`] is one
//! function here, named after it.

mod sample;

use std::pin::Pin;
use std::task::{Context, Waker};

use canon::digest::Digest;
use guide::bundle::Salvaged;
use guide::project::resume::ResumeQuery;
use guide::record::{EventIndex, ManifestRecord, SessionId, SnapshotRef};
use guide::token::ShortToken;

pub use self::sample::SampleSession;
use crate::PortFuture;
use crate::sessions::{
    Append, Appended, Creation, Cursor, Ended, GcOutcome, IsAwaited, NewObjects, Object, ObjectKind,
    ObjectRef, Retention, SessionStore, StoreError, positions_of,
};

/// Checks everything that the port promises. `other` is another handle on the same sessions, with caches of its own.
///
/// # Panics
/// If the store breaks a rule.
pub async fn contract(store: &dyn SessionStore, other: &dyn SessionStore) {
    keys_are_shared_and_rotated(store, other).await;
    what_is_appended_is_read_in_order(store, other).await;
    the_bytes_of_an_append_are_those_of_its_plan(store).await;
    a_plan_for_another_end_is_refused_and_changes_nothing(store).await;
    unknown_and_existing_sessions_are_distinguished(store).await;
    of_two_writers_one_appends(store, other).await;
    a_dropped_writer_releases_its_session(store, other).await;
    a_dropped_future_does_not_stop_an_append(store).await;
    cursors_give_only_what_is_new(store, other).await;
    a_session_that_was_created_again_is_read_completely(store).await;
    revisions_change_with_every_append(store, other).await;
    objects_are_stored_with_their_append(store, other).await;
    an_append_without_its_objects_is_refused(store).await;
    marks_stay_as_they_were_set(store, other).await;
    the_index_finds_what_was_appended(store, other).await;
    a_sound_session_is_verified(store).await;
    collection_spares_what_is_needed(store, other).await;
}

async fn append(store: &dyn SessionStore, append: Append) -> Result<Appended, StoreError> {
    let session = append.plan.session_id().clone();
    store.lock(session, None).await?.append(append).await
}

fn code<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    result.expect_err("it is refused").envelope().code().to_owned()
}

async fn keys_are_shared_and_rotated(store: &dyn SessionStore, other: &dyn SessionStore) {
    assert_eq!(store.keyring().await.unwrap(), None, "a new store has no keys");
    let made = store.keyring_or_create([1; 32]).await.unwrap();
    assert_eq!(other.keyring_or_create([2; 32]).await.unwrap(), made, "the first caller decides");
    let rotated = other.rotate_keys([3; 32]).await.unwrap();
    assert_eq!(rotated.previous.as_ref(), Some(&made.current));
    assert_eq!(store.keyring().await.unwrap(), Some(rotated), "a rotation takes effect at once");
}

async fn what_is_appended_is_read_in_order(store: &dyn SessionStore, other: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-order");
    let created = store.create(walk.start()).await.unwrap();
    assert_eq!((created.first, created.last), (EventIndex(0), EventIndex(2)));
    for number in 0..5 {
        let appended = append(store, walk.advance(&number.to_string())).await.unwrap();
        assert_eq!(appended.cursor.next_event(), walk.state().next_index());
        for store in [store, other] {
            assert_eq!(store.load(walk.session.clone()).await.unwrap().events, walk.events);
        }
    }
    assert!(other.sessions().await.unwrap().contains(&walk.session));
    // An import is the same session in one creation.
    let mut whole = SampleSession::new("contract-import");
    let mut creation = whole.start();
    for number in 0..3 {
        let Append { plan, objects, projection } = whole.advance(&number.to_string());
        creation.plans.push(plan);
        creation.objects.snapshots.extend(objects.snapshots);
        creation.projection = projection;
    }
    store.create(Creation { imported_ms: Some(5), ..creation }).await.unwrap();
    assert_eq!(other.load(whole.session.clone()).await.unwrap().events, whole.events);
}

async fn the_bytes_of_an_append_are_those_of_its_plan(store: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-bytes");
    let start = walk.start();
    let step = walk.advance("x");
    let expected: Vec<_> =
        start.plans.iter().chain([&step.plan]).map(|plan| plan.segment().to_vec()).collect();
    store.create(start).await.unwrap();
    append(store, step).await.unwrap();
    let manifest = store.load(walk.session.clone()).await.unwrap().manifest;
    let closed = manifest.iter().filter_map(|record| match record {
        ManifestRecord::SegmentClosed(segment) => Some((segment.sha256, segment.bytes)),
        ManifestRecord::SnapshotPinned(_) => None,
    });
    let expected: Vec<_> =
        expected.iter().map(|bytes| (Digest::of_bytes(bytes), bytes.len() as u64)).collect();
    assert_eq!(closed.collect::<Vec<_>>(), expected);
}

async fn a_plan_for_another_end_is_refused_and_changes_nothing(store: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-conflict");
    store.create(walk.start()).await.unwrap();
    let first = walk.advance("first");
    let second = walk.advance("second");
    assert_eq!(code(append(store, second.clone()).await), "SESSION_MOVED", "too early");
    append(store, first.clone()).await.unwrap();
    assert_eq!(code(append(store, first).await), "SESSION_MOVED", "twice");
    append(store, second).await.unwrap();
    assert_eq!(store.load(walk.session.clone()).await.unwrap().events, walk.events);
}

async fn unknown_and_existing_sessions_are_distinguished(store: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-unknown");
    let (start, step) = (walk.start(), walk.advance("x"));
    let id = || walk.session.clone();
    assert_eq!(code(append(store, step).await), "SESSION_UNKNOWN");
    assert_eq!(code(store.load(id()).await), "SESSION_UNKNOWN");
    assert_eq!(code(store.load_validated_prefix(id()).await), "SESSION_UNKNOWN");
    assert_eq!(code(store.verify(id()).await), "SESSION_UNKNOWN");
    assert_eq!(code(store.set_kept(id(), true).await), "SESSION_UNKNOWN");
    assert_eq!(store.revision(id()).await.unwrap(), None);
    assert!(!store.sessions().await.unwrap().contains(&walk.session), "reading does not create one");
    store.create(start.clone()).await.unwrap();
    assert_eq!(code(store.create(start).await), "SESSION_EXISTS");
}

async fn of_two_writers_one_appends(store: &dyn SessionStore, other: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-writers");
    store.create(walk.start()).await.unwrap();
    let step = walk.advance("x");
    let writer = store.lock(walk.session.clone(), None).await.unwrap();
    assert_eq!(other.load(walk.session.clone()).await.unwrap().events.len(), 3, "readers do not wait");
    // A store with locks refuses the second writer now, one without when it appends.
    let second = other.lock(walk.session.clone(), None).await;
    writer.append(step.clone()).await.unwrap();
    let lost = match second {
        Ok(second) => second.append(step).await,
        Err(error) => Err(error),
    };
    let lost = lost.expect_err("the second writer loses");
    assert!(matches!(lost, StoreError::Locked { .. } | StoreError::Moved { .. }), "{lost}");
    assert_eq!(other.load(walk.session.clone()).await.unwrap().events, walk.events);
}

async fn a_dropped_writer_releases_its_session(store: &dyn SessionStore, other: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-release");
    store.create(walk.start()).await.unwrap();
    drop(store.lock(walk.session.clone(), None).await.unwrap());
    append(other, walk.advance("x")).await.unwrap();
    assert_eq!(store.load(walk.session.clone()).await.unwrap().events, walk.events);
}

async fn a_dropped_future_does_not_stop_an_append(store: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-dropped");
    store.create(walk.start()).await.unwrap();
    let writer = store.lock(walk.session.clone(), None).await.unwrap();
    let mut begun = writer.append(walk.advance("x"));
    let _ = Pin::new(&mut begun).poll(&mut Context::from_waker(Waker::noop()));
    drop(begun);
    // Another writer gets the session once the append has ended.
    let news = loop {
        match store.lock(walk.session.clone(), None).await {
            Ok(writer) if writer.news().events.len() == walk.events.len() => break writer.news().clone(),
            Ok(_) | Err(StoreError::Locked { .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(news.events, walk.events);
}

async fn cursors_give_only_what_is_new(store: &dyn SessionStore, other: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-cursors");
    let created = store.create(walk.start()).await.unwrap().cursor;
    assert_eq!(store.load(walk.session.clone()).await.unwrap().cursor, created);
    assert_eq!(store.load_since(created.clone()).await.unwrap().events, []);
    let appended = append(other, walk.advance("x")).await.unwrap().cursor;
    let news = store.load_since(created.clone()).await.unwrap();
    assert_eq!(news.events, walk.events[3..]);
    assert_eq!(news.cursor, appended);
    let writer = store.lock(walk.session.clone(), Some(created)).await.unwrap();
    assert_eq!(writer.news(), &news, "a writer reads what is new");
    drop(writer);
    // What no store has written is read from the start.
    for position in [&b"?"[..], &[0xff; 33]] {
        let foreign = Cursor::new(walk.session.clone(), EventIndex(3), position);
        let loaded = store.load_since(foreign).await.unwrap();
        assert_eq!(loaded.events, walk.events);
    }
}

async fn a_session_that_was_created_again_is_read_completely(store: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-again");
    let start = walk.start();
    let before = store.create(start.clone()).await.unwrap().cursor;
    let deleted = store.gc(all_but(store, &walk.session).await, IsAwaited::never()).await.unwrap();
    assert_eq!(deleted.deleted_sessions, [walk.session.clone()]);
    store.create(start).await.unwrap();
    append(store, walk.advance("x")).await.unwrap();
    let loaded = store.load_since(before).await.unwrap().events;
    // The events before the cursor are the same, so a store that cannot distinguish the two sessions may continue after them.
    let first = usize::try_from(loaded[0].event_index.0).unwrap();
    assert!([0, 3].contains(&first), "reading began with event {first}");
    assert_eq!(loaded, walk.events[first..]);
}

/// Keeps every session but one, and gives a retention for which that one is old.
async fn all_but(store: &dyn SessionStore, session: &SessionId) -> Retention {
    for id in store.sessions().await.unwrap() {
        store.set_kept(id.clone(), id != *session).await.unwrap();
    }
    Retention { now_ms: 10_000_000, ttl_ms: 1, dry_run: false }
}

async fn revisions_change_with_every_append(store: &dyn SessionStore, other: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-revisions");
    store.create(walk.start()).await.unwrap();
    let unknown = SessionId::derived(&["contract-no-revision"]);
    let ids = vec![unknown, walk.session.clone()];
    let created = store.revisions(ids.clone()).await.unwrap();
    assert!(created[0].is_none() && created[1].is_some());
    assert_eq!(other.revisions(ids.clone()).await.unwrap(), created, "nothing happened in between");
    append(store, walk.advance("x")).await.unwrap();
    assert_ne!(other.revisions(ids).await.unwrap()[1], created[1]);
}

async fn objects_are_stored_with_their_append(store: &dyn SessionStore, other: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-objects");
    store.create(walk.start()).await.unwrap();
    let content = br#"{"kind":"test","text":"large"}"#;
    append(store, walk.advance_with_artifact(content)).await.unwrap();
    let (snapshot, artifact) = (walk.last_snapshot().unwrap(), Digest::of_bytes(content));
    let missing = Digest::of_bytes(b"missing");
    for store in [store, other] {
        assert_eq!(guide::snapshot_digest::snapshot_ref(&store.snapshot(snapshot).await.unwrap()), snapshot);
        let workflow = store.workflow(walk.workflow_hash()).await.unwrap();
        assert_eq!(Digest::of_bytes(&workflow), walk.workflow_hash());
        assert_eq!(store.artifact(artifact).await.unwrap(), content);
        assert_eq!(code(store.snapshot(SnapshotRef(missing)).await), "STORE_OBJECT_MISSING");
        let wanted =
            vec![ObjectRef::Artifact(missing), ObjectRef::Artifact(artifact), ObjectRef::Snapshot(snapshot)];
        let read = store.objects(wanted).await;
        assert!(matches!(&read[0], Err(StoreError::ObjectMissing { kind: ObjectKind::Artifact, .. })));
        assert!(matches!(&read[1], Ok(Object::Bytes(bytes)) if bytes == content));
        assert!(matches!(&read[2], Ok(Object::Snapshot(_))));
    }
}

async fn an_append_without_its_objects_is_refused(store: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-incomplete");
    let creation = walk.start();
    let incomplete = Creation { objects: NewObjects::default(), ..creation.clone() };
    assert_eq!(code(store.create(incomplete).await), "STORE_OBJECT_MISSING");
    assert_eq!(store.revision(walk.session.clone()).await.unwrap(), None);
    store.create(creation).await.unwrap();
    let step = walk.advance_with_artifact(b"{\"never\":\"stored\"}");
    let incomplete = Append { objects: NewObjects::default(), ..step.clone() };
    assert_eq!(code(append(store, incomplete).await), "STORE_OBJECT_MISSING");
    assert_eq!(store.load(walk.session.clone()).await.unwrap().events.len(), 3);
    append(store, step).await.unwrap();
}

async fn marks_stay_as_they_were_set(store: &dyn SessionStore, other: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-marks");
    let source = SessionId::derived(&["contract-damaged"]);
    let salvaged = Salvaged::new(source, "digest_mismatch", "a segment is damaged");
    store.create(Creation { salvaged: Some(salvaged.clone()), ..walk.start() }).await.unwrap();
    let id = || walk.session.clone();
    assert_eq!(other.salvaged(id()).await.unwrap(), Some(salvaged));
    for kept in [true, true, false] {
        store.set_kept(id(), kept).await.unwrap();
        assert_eq!(other.are_kept(vec![id(), id()]).await.unwrap(), [kept, kept]);
    }
    assert_eq!(other.ended(id()).await.unwrap(), None);
    let ended = |status: &str| Ended {
        run_id: flow::id::RunId::new("run-1"),
        node_id: flow::id::NodeId::new("guide"),
        run_status: status.to_owned(),
    };
    for status in ["cancelled", "failed"] {
        store.lock(id(), None).await.unwrap().end(ended(status)).await.unwrap();
        assert_eq!(other.ended(id()).await.unwrap(), Some(ended("cancelled")), "the first mark stays");
    }
    assert_eq!(other.lock(id(), None).await.unwrap().ended(), Some(&ended("cancelled")));
    append(store, walk.advance("the mark is for callers")).await.unwrap();
}

async fn the_index_finds_what_was_appended(store: &dyn SessionStore, other: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-index");
    store.create(walk.start()).await.unwrap();
    append(store, walk.advance("the reader hangs")).await.unwrap();
    let node = walk.state().node(walk.node()).unwrap();
    let position = positions_of(walk.state(), node).pop().unwrap();
    let key = ShortToken::position_digest(&position);
    let query = ResumeQuery { session_id: Some(walk.session.clone()), ..ResumeQuery::default() };
    for store in [store, other] {
        let found = store.position(key).await.unwrap();
        assert_eq!(found, Some((walk.session.clone(), node.created_index)));
        assert_eq!(store.position([0xee; 12]).await.unwrap(), None);
        let best = store.search(query.clone(), 1).await.unwrap();
        assert_eq!(best.candidates.first().map(|run| &run.session_id), Some(&walk.session));
        let page = store.page(0, 1000).await.unwrap();
        assert_eq!(page.total, page.sessions.len());
        assert!(page.sessions.iter().any(|listed| listed.session_id == walk.session));
        assert_eq!(store.newest_open_run("no such repository".to_owned()).await.unwrap(), None);
    }
}

async fn a_sound_session_is_verified(store: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-verify");
    store.create(walk.start()).await.unwrap();
    append(store, walk.advance("x")).await.unwrap();
    let found = store.verify(walk.session.clone()).await.unwrap();
    assert!(found.is_sound() && found.chain.covers_everything(), "{found:?}");
    assert_eq!((found.events, found.objects), (walk.events.len(), 3), "two snapshots and a workflow");
    assert!(store.load_validated_prefix(walk.session.clone()).await.unwrap().health.is_healthy());
}

async fn collection_spares_what_is_needed(store: &dyn SessionStore, other: &dyn SessionStore) {
    let mut walk = SampleSession::new("contract-old");
    store.create(walk.start()).await.unwrap();
    let retention = all_but(store, &walk.session).await;
    let id = walk.session.clone();
    let awaited = IsAwaited::new(move |events| {
        PortFuture::ready(events.first().is_some_and(|event| event.session_id == id))
    });
    let report = store.gc(retention, awaited).await.unwrap();
    assert_eq!(report.awaited_sessions, [walk.session.clone()]);
    assert_eq!(report.deleted_sessions, []);
    let dry = store.gc(Retention { dry_run: true, ..retention }, IsAwaited::never()).await.unwrap();
    assert_eq!((dry.outcome, &dry.deleted_sessions[..]), (GcOutcome::DryRun, &[walk.session.clone()][..]));
    let writer = store.lock(walk.session.clone(), None).await.unwrap();
    match other.gc(retention, IsAwaited::never()).await {
        // A store without locks refuses the writer instead.
        Ok(_) => {}
        Err(error) => assert_eq!(error.envelope().code(), "STORE_BUSY"),
    }
    drop(writer);
    let report = store.gc(retention, IsAwaited::never()).await.unwrap();
    assert_eq!(report.outcome, GcOutcome::Collected);
    for store in [store, other] {
        assert_eq!(code(store.load(walk.session.clone()).await), "SESSION_UNKNOWN");
        assert!(!store.sessions().await.unwrap().contains(&walk.session));
        let mut kept = SampleSession::new("contract-verify");
        drop(kept.start());
        assert!(store.snapshot(kept.last_snapshot().unwrap()).await.is_ok(), "others still need it");
    }
}
