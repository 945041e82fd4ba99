//! Bundles are read back, changes are rejected, and old files stay readable.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may")]

mod sample;

use std::collections::BTreeSet;

use canon::digest::Digest;
use guide::bundle::{self, Bundle, BundleErrorCode, BundledSession, Producer, Salvaged};
use guide::derive;
use guide::plan::pins_of;
use guide::project::{preferred_tip, summary::session_summary};
use guide::record::{
    Event, EventData, EventIndex, ExecutionSnapshot, ManifestIndex, ManifestRecord, PinRecord, SegmentRecord,
    derive_id, segment_rel_path,
};
use guide::state::SessionState;
use proptest::prelude::*;
use serde_json::{Value, json};

use self::sample::{running, session};

const GOLDEN: &str = include_str!("../golden/bundles/v1.json");

fn producer() -> Producer {
    Producer { app_version: "0.1.0".into(), applied_config_hash: Some(Digest::of_bytes(b"settings")) }
}

fn built(session: BundledSession) -> Bundle {
    bundle::build(session, producer(), "2026-01-02T03:04:05.678Z")
        .unwrap_or_else(|refusal| panic!("{}", refusal.envelope()))
}

fn refusal_of(text: &str) -> BundleErrorCode {
    let refusal = bundle::read(text.as_bytes()).expect_err("the bundle is wrong");
    assert!(!refusal.envelope().suggestion().is_empty());
    refusal.code()
}

#[test]
fn bundles_are_read_back_equal() {
    let bundle = built(session(2));
    let text = bundle.to_json().unwrap();
    let read = bundle::read(text.as_bytes()).unwrap();
    assert_eq!(read, bundle);
    assert_eq!(read.to_json().unwrap(), text);
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(&text).unwrap()).unwrap();
    assert_eq!(bundle::read(pretty.as_bytes()).unwrap(), bundle, "white space is insignificant");
}

#[test]
fn the_golden_bundle_is_still_read_and_written() {
    let bundle = bundle::read(GOLDEN.trim_end().as_bytes()).unwrap();
    assert_eq!(bundle.session(), &session(2));
    assert_eq!(bundle.to_json().unwrap(), GOLDEN.trim_end());
    assert_eq!(bundle.bundle_id(), built(session(2)).bundle_id());
}

fn salvaged() -> Salvaged {
    Salvaged::new(session(1).session_id, "digest_mismatch", "the last segment is not what was attested")
}

#[test]
fn a_salvaged_session_is_marked_and_gets_a_new_id() {
    let whole = built(session(1));
    let part = bundle::build_part(session(1), Some(salvaged()), producer(), whole.exported_at()).unwrap();
    assert!(whole.keeps_its_id() && !part.keeps_its_id());
    let text = part.to_json().unwrap();
    let read = bundle::read(text.as_bytes()).unwrap();
    assert_eq!(read, part);
    assert_eq!(read.salvaged(), Some(&salvaged()));
    assert!(part.integrity().iter().any(|entry| entry.path == "salvaged"));
    assert_eq!(whole.integrity().len() + 1, part.integrity().len(), "and nothing else differs");
    let new = derive::session_id(&[6; 16]);
    assert_eq!(bundle::as_new(part, &new).unwrap().salvaged, Some(salvaged()));
    assert_eq!(bundle::as_new(whole, &new).unwrap().salvaged, None);

    let document: Value = serde_json::from_str(&text).unwrap();
    type Change = fn(&mut Value);
    let cases: [(&str, Change, BundleErrorCode); 5] = [
        (
            "without the mark",
            |b| drop(b.as_object_mut().unwrap().remove("salvaged")),
            BundleErrorCode::IntegrityFailed,
        ),
        ("nothing in it", |b| b["salvaged"] = Value::Null, BundleErrorCode::InvalidFormat),
        ("another reason", |b| b["salvaged"]["reason"] = "none".into(), BundleErrorCode::IntegrityFailed),
        (
            "a long problem",
            |b| b["salvaged"]["problem"] = "x".repeat(1025).into(),
            BundleErrorCode::InvalidFormat,
        ),
        ("an unknown field", |b| b["salvaged"]["banner"] = "x".into(), BundleErrorCode::InvalidFormat),
    ];
    for (name, change, expected) in cases {
        let mut changed = document.clone();
        change(&mut changed);
        assert_eq!(refusal_of(&changed.to_string()), expected, "{name}");
    }
}

#[test]
fn the_id_depends_only_on_the_content() {
    let first = built(session(1));
    let other = Producer { app_version: "9.9.9".into(), applied_config_hash: None };
    let second = bundle::build(session(1), other, "later").unwrap();
    assert_eq!(first.bundle_id(), second.bundle_id());
    assert_ne!(first.bundle_id(), built(session(2)).bundle_id());
}

#[test]
fn building_omits_unneeded_objects_and_rejects_missing_ones() {
    let mut extra = session(1);
    let unneeded = ExecutionSnapshot::new(running("elsewhere"));
    extra.snapshots.insert(unneeded.snapshot_ref(), unneeded);
    extra.artifacts.insert(Digest::of_canonical(&json!([1])).unwrap(), json!([1]));
    assert_eq!(built(extra), built(session(1)));

    type Damage = fn(&mut BundledSession);
    let cases: [(Damage, BundleErrorCode); 8] = [
        (|session| session.snapshots.clear(), BundleErrorCode::MissingSnapshot),
        (|session| session.pinned_workflows.clear(), BundleErrorCode::MissingPinnedWorkflow),
        (|session| session.artifacts.clear(), BundleErrorCode::IntegrityFailed),
        (|session| session.events.clear(), BundleErrorCode::EventOrderInvalid),
        (|session| session.events.swap(3, 4), BundleErrorCode::EventOrderInvalid),
        (|session| session.manifest.clear(), BundleErrorCode::ManifestOrderInvalid),
        (|session| session.manifest.truncate(2), BundleErrorCode::ManifestOrderInvalid),
        (|session| session.events[2].timestamp_ms = u64::MAX, BundleErrorCode::InvalidFormat),
    ];
    for (number, (spoil, expected)) in cases.into_iter().enumerate() {
        let mut session = session(1);
        spoil(&mut session);
        let refusal = bundle::build(session, producer(), "now").unwrap_err();
        assert_eq!(refusal.code(), expected, "case {number}: {refusal}");
    }
}

/// The golden document with one change and a correct integrity list.
fn forged(change: impl FnOnce(&mut Value)) -> String {
    let mut document: Value = serde_json::from_str(&built(session(1)).to_json().unwrap()).unwrap();
    change(&mut document);
    let session = document["session"].clone();
    let mut parts = vec![
        ("exportedAt".to_owned(), document["exportedAt"].clone()),
        ("producer".to_owned(), document["producer"].clone()),
    ];
    for name in ["sessionId", "events", "manifest"] {
        parts.push((format!("session/{name}"), session[name].clone()));
    }
    for name in ["snapshots", "pinnedWorkflows", "artifacts"] {
        for (key, value) in session[name].as_object().into_iter().flatten() {
            parts.push((format!("session/{name}/{key}"), value.clone()));
        }
    }
    parts.sort_by(|left, right| left.0.cmp(&right.0));
    let mut digests = Vec::new();
    let entries = parts.iter().map(|(path, value)| {
        let bytes = canon::canonical::to_vec(value).unwrap();
        let sha256 = Digest::of_bytes(&bytes).to_string();
        if path.starts_with("session/") {
            digests.push(sha256.clone());
        }
        json!({"path": path, "sha256": sha256, "bytes": bytes.len()})
    });
    document["integrity"]["entries"] = entries.collect();
    let digests: Vec<&str> = digests.iter().map(String::as_str).collect();
    document["bundleId"] = derive_id("bundle_", &digests).into();
    document.to_string()
}

#[test]
fn forged_bundles_are_rejected_although_their_integrity_is_valid() {
    use BundleErrorCode as C;
    assert!(bundle::read(forged(|_| {}).as_bytes()).is_ok(), "an unchanged one is accepted");
    type Change = fn(&mut Value);
    let cases: [(&str, Change, C); 19] = [
        ("a later version", |b| b["bundleSchemaVersion"] = 2.into(), C::UnsupportedVersion),
        ("no version", |b| b["bundleSchemaVersion"] = Value::Null, C::InvalidFormat),
        ("another attestation", |b| b["integrity"]["kind"] = "crc32".into(), C::UnsupportedVersion),
        ("an unknown field", |b| b["tokens"] = json!([]), C::InvalidFormat),
        ("an unknown field inside", |b| b["session"]["tokens"] = json!([]), C::InvalidFormat),
        ("a long text", |b| b["exportedAt"] = "x".repeat(257).into(), C::InvalidFormat),
        ("another session", |b| b["session"]["sessionId"] = "sess_other".into(), C::EventOrderInvalid),
        ("a later event", |b| b["session"]["events"][0]["v"] = 2.into(), C::UnsupportedVersion),
        ("an unknown event", |b| b["session"]["events"][0]["kind"] = "x".into(), C::InvalidFormat),
        ("a missing event", |b| drop(list(b, "events").remove(3)), C::EventOrderInvalid),
        ("the last event missing", |b| drop(list(b, "events").pop()), C::ManifestOrderInvalid),
        ("a repeated key", repeat_key, C::EventOrderInvalid),
        ("a missing record", |b| drop(list(b, "manifest").remove(0)), C::ManifestOrderInvalid),
        ("a missing pin", |b| drop(list(b, "manifest").pop()), C::ManifestOrderInvalid),
        (
            "another path",
            |b| b["session"]["manifest"][0]["segmentRelPath"] = "../x".into(),
            C::ManifestOrderInvalid,
        ),
        (
            "a pin of another event",
            |b| b["session"]["manifest"][1]["eventIndex"] = 1.into(),
            C::ManifestOrderInvalid,
        ),
        ("a missing snapshot", |b| remove_first(b, "snapshots"), C::MissingSnapshot),
        ("a missing workflow", |b| remove_first(b, "pinnedWorkflows"), C::MissingPinnedWorkflow),
        ("a missing artifact", |b| remove_first(b, "artifacts"), C::IntegrityFailed),
    ];
    for (name, change, expected) in cases {
        assert_eq!(refusal_of(&forged(change)), expected, "{name}");
    }
    for name in ["snapshots", "pinnedWorkflows", "artifacts"] {
        let moved = forged(|bundle| {
            let map = bundle["session"][name].as_object_mut().unwrap();
            let key = map.keys().next().unwrap().clone();
            let value = map.remove(&key).unwrap();
            map.insert(Digest::of_bytes(b"elsewhere").to_string(), value);
        });
        assert_eq!(refusal_of(&moved), C::IntegrityFailed, "{name} under another digest");
    }
    let unneeded = forged(|bundle| {
        let value = json!({"not": "needed"});
        let key = Digest::of_canonical(&value).unwrap().to_string();
        bundle["session"]["artifacts"][key] = value;
    });
    assert_eq!(refusal_of(&unneeded), C::InvalidFormat, "an object that no event needs");
}

#[test]
fn a_bundle_with_an_incomplete_advance_is_rejected() {
    // A start, a checkpoint and an advance. The last segment is split after each of its events.
    let whole = session(1);
    let ManifestRecord::SegmentClosed(last) = whole.manifest[4].clone() else {
        panic!("two segments with a pin each come first")
    };
    let edge = whole.events.iter().rposition(|event| event.data.kind() == "edge_created").unwrap() as u64;
    for cut in last.first_event_index.0..last.last_event_index.0 {
        let mut divided = whole.clone();
        divided.manifest.truncate(4);
        let mut segment = |first: EventIndex, last_event: EventIndex| {
            let manifest_index = ManifestIndex(divided.manifest.len() as u64);
            divided.manifest.push(ManifestRecord::SegmentClosed(SegmentRecord {
                manifest_index,
                first_event_index: first,
                last_event_index: last_event,
                segment_rel_path: segment_rel_path(first, last_event),
                ..last.clone()
            }));
            for pin in pins_of(&divided.events) {
                if (first..=last_event).contains(&pin.event_index) {
                    divided.manifest.push(ManifestRecord::SnapshotPinned(PinRecord {
                        v: last.v,
                        manifest_index: ManifestIndex(divided.manifest.len() as u64),
                        session_id: last.session_id.clone(),
                        event_index: pin.event_index,
                        snapshot_ref: pin.snapshot_ref,
                        created_by_event_id: pin.event_id,
                    }));
                }
            }
        };
        segment(last.first_event_index, EventIndex(cut));
        segment(EventIndex(cut + 1), last.last_event_index);
        let built = bundle::build(divided, producer(), "now");
        if cut >= edge {
            assert!(built.is_ok(), "events after the edge may be a separate append: {cut}");
            continue;
        }
        let refusal = built.unwrap_err();
        assert_eq!(refusal.code(), BundleErrorCode::EventOrderInvalid, "cut after event {cut}: {refusal}");
        assert_eq!(refusal.envelope().details()["index"], last.first_event_index.0, "cut after event {cut}");
    }
}

fn list<'b>(bundle: &'b mut Value, name: &str) -> &'b mut Vec<Value> {
    bundle["session"][name].as_array_mut().unwrap()
}

fn repeat_key(bundle: &mut Value) {
    let key = bundle["session"]["events"][1]["dedupeKey"].clone();
    bundle["session"]["events"][2]["dedupeKey"] = key;
}

fn remove_first(bundle: &mut Value, name: &str) {
    let map = bundle["session"][name].as_object_mut().unwrap();
    let key = map.keys().next().unwrap().clone();
    map.remove(&key);
}

#[test]
fn integrity_entries_must_be_complete_and_exact() {
    let text = built(session(1)).to_json().unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let entries = document["integrity"]["entries"].as_array().unwrap().len();
    for index in 0..entries {
        let mut missing = document.clone();
        missing["integrity"]["entries"].as_array_mut().unwrap().remove(index);
        assert_eq!(refusal_of(&missing.to_string()), BundleErrorCode::IntegrityFailed, "{index} missing");
        let mut twice = document.clone();
        let entry = twice["integrity"]["entries"][index].clone();
        twice["integrity"]["entries"].as_array_mut().unwrap().insert(index, entry);
        assert_eq!(refusal_of(&twice.to_string()), BundleErrorCode::IntegrityFailed, "{index} twice");
    }
}

#[test]
fn every_code_is_produced() {
    let codes: BTreeSet<_> = [
        refusal_of("not json"),
        refusal_of(&forged(|b| b["bundleSchemaVersion"] = 7.into())),
        refusal_of(&built(session(1)).to_json().unwrap().replace("write the notes", "wrote the notes")),
        refusal_of(&forged(|b| remove_first(b, "snapshots"))),
        refusal_of(&forged(|b| remove_first(b, "pinnedWorkflows"))),
        refusal_of(&forged(|b| list(b, "events").clear())),
        refusal_of(&forged(|b| list(b, "manifest").clear())),
    ]
    .into();
    assert_eq!(codes.into_iter().collect::<Vec<_>>(), BundleErrorCode::ALL);
}

#[test]
fn a_session_imported_as_new_has_equal_projections() {
    let bundle = built(session(3));
    let new = derive::session_id(&[6; 16]);
    let plan = bundle::as_new(bundle.clone(), &new).unwrap();
    let as_is = bundle::as_is(bundle.clone()).unwrap();
    assert_eq!((&plan.session_id, &plan.exported_session_id), (&new, &bundle.session().session_id));
    assert_eq!(as_is.session_id, bundle.session().session_id);
    assert_eq!(plan.snapshots, as_is.snapshots);
    assert_eq!(plan.segments.len(), 5);

    let events: Vec<Event> = plan.segments.iter().flat_map(|segment| segment.events.clone()).collect();
    let old: Vec<Event> = as_is.segments.iter().flat_map(|segment| segment.events.clone()).collect();
    assert_eq!(old, bundle.session().events);
    let text = |events: &[Event]| {
        events.iter().map(|event| String::from_utf8(event.encode()).unwrap() + "\n").collect::<String>()
    };
    assert!(!text(&events).contains(bundle.session().session_id.as_str()), "the old session is gone");
    for event in &old {
        assert!(!text(&events).contains(event.event_id.as_str()), "event {} is cited", event.event_index.0);
    }

    let before = SessionState::fold(bundle.session().session_id.clone(), &old).unwrap();
    let after = SessionState::fold(new.clone(), &events).unwrap();
    let (old_run, new_run) = (&before.runs()[0], &after.runs()[0]);
    let mut expected = session_summary(&before, old_run);
    expected.session_id = new.clone();
    assert_eq!(session_summary(&after, new_run), expected);
    assert_eq!(
        preferred_tip(&after, new_run).map(|node| &node.id),
        preferred_tip(&before, old_run).map(|node| &node.id)
    );
    assert_eq!(after.context(&new_run.id), before.context(&old_run.id));

    for (index, segment) in plan.segments.iter().enumerate() {
        for (event_index, event_id, snapshot) in &segment.pins {
            let event = &events[usize::try_from(event_index.0).unwrap()];
            assert_eq!(&event.event_id, event_id);
            assert!(
                matches!(event.data, EventData::NodeCreated { snapshot_ref, .. } if snapshot_ref == *snapshot)
            );
            assert!(segment.events.contains(event), "a pin of segment {index} is about its own events");
        }
    }
}

#[test]
fn an_imported_session_can_be_exported_again() {
    let bundle = built(session(1));
    let new = derive::session_id(&[6; 16]);
    let renamed = |text: String| text.replace(bundle.session().session_id.as_str(), new.as_str());
    let plan = bundle::as_new(bundle.clone(), &new).unwrap();
    let manifest = bundle.session().manifest.iter().map(|record| {
        let mut value: Value =
            serde_json::from_str(&renamed(serde_json::to_string(record).unwrap())).unwrap();
        if value["kind"] == "snapshot_pinned" {
            let index = EventIndex(value["eventIndex"].as_u64().unwrap());
            value["createdByEventId"] = derive::event_id(&new, index).as_str().into();
        }
        ManifestRecord::from_value(value).unwrap()
    });
    let session = BundledSession {
        session_id: new.clone(),
        events: plan.segments.into_iter().flat_map(|segment| segment.events).collect(),
        manifest: manifest.collect(),
        snapshots: plan.snapshots,
        pinned_workflows: plan.pinned_workflows,
        artifacts: plan.artifacts,
    };
    let again = built(session);
    let back = bundle::as_new(again, &bundle.session().session_id).unwrap();
    assert_eq!(
        back.segments,
        bundle::as_is(bundle).unwrap().segments,
        "importing and exporting again changes nothing"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_flipped_byte_is_rejected_or_insignificant(at in any::<prop::sample::Index>(), mask in 1_u8..) {
        let mut bytes = GOLDEN.trim_end().as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= mask;
        if let Ok(read) = bundle::read(&bytes) {
            prop_assert_eq!(read.to_json().unwrap(), GOLDEN.trim_end(), "byte {}", at);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in any::<prop::sample::Index>()) {
        prop_assert!(bundle::read(&bytes).is_err());
        let text = GOLDEN.trim_end().as_bytes();
        prop_assert!(bundle::read(&text[..cut.index(text.len())]).is_err());
    }
}
