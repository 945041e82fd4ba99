//! Rules of the service that are easy to lose: damaged data is refused and never lost, and sessions can be transferred.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use canon::digest::Digest;
use catalogue::{Catalogue, CatalogueOptions};
use guide::engine::{self, Advance, Output};
use guide::project::summary::session_summary;
use guide::record::{
    Event, EventData, EventIndex, MANIFEST_VERSION, ManifestIndex, ManifestRecord, OutputPayload,
    SegmentRecord, SessionId, segment_rel_path,
};
use guide::state::SessionState;
use guided::Refusal;
use guided::api::{ContinueRequest, Handle, Intent, Reply, ResumeRequest, StartRequest};
use serde_json::{Value, json};
use storage::disk::RealDisk;
use storage::files::{Loaded, SessionFiles};
use system::{ManualClock, SeededEntropy};

use crate::sync::Guided;

/// A folder with a workflow, and a data directory beside it.
struct Desk {
    directory: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("flows")).unwrap();
        let step = |id: &str| json!({"id": id, "title": id, "prompt": format!("Do {id} for {{{{goal}}}}.")});
        let workflow = json!({"id": "project.release", "name": "Release notes", "description": "Write them.",
            "version": "1.0.0", "steps": [step("collect"), step("draft"), step("publish")]});
        std::fs::write(directory.path().join("flows/release.json"), workflow.to_string()).unwrap();
        Self { directory }
    }

    /// The service, as a process that has read nothing yet.
    fn guided(&self, seed: u64) -> Guided {
        let disk = RealDisk::open(&self.data()).unwrap();
        let catalogue = Catalogue::new(CatalogueOptions {
            configured_dirs: vec![self.directory.path().join("flows")],
            ..CatalogueOptions::default()
        });
        Guided::new(
            SessionFiles::open(Arc::new(disk)).unwrap(),
            catalogue,
            Arc::new(ManualClock::at(1_700_000_000_000)),
            Arc::new(SeededEntropy::new(seed)),
        )
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Every file below a folder of the data directory, with its content.
    fn files(&self, below: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, found);
                } else {
                    let content = std::fs::read(&path).unwrap();
                    found.insert(path, content);
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(&self.data().join(below), &mut found);
        found
    }

    /// Flips a bit of the last segment of a session.
    fn damage(&self, session: &str) {
        let segments = self.files(&format!("sessions/{session}/events"));
        let (path, content) = segments.last_key_value().unwrap();
        std::fs::write(path, flipped(content)).unwrap();
    }
}

fn flipped(content: &[u8]) -> Vec<u8> {
    let mut changed = content.to_vec();
    changed[content.len() / 2] ^= 1;
    changed
}

fn start(guided: &Guided, workflow_id: &str, goal: &str) -> Reply {
    let request = StartRequest {
        workflow_id: workflow_id.to_owned(),
        goal: goal.to_owned(),
        ..StartRequest::default()
    };
    guided.start(request).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn proceed(guided: &Guided, handle: Handle, intent: Intent, artifacts: Vec<Value>) -> Result<Reply, Refusal> {
    let advances = intent == Intent::Advance;
    guided.proceed(ContinueRequest {
        handle,
        intent,
        notes_markdown: advances.then(|| "did it".to_owned()),
        artifacts,
        context: None,
        preferences: None,
    })
}

fn advance(guided: &Guided, reply: &Reply) -> Result<Reply, Refusal> {
    let token = reply.continue_token.clone().expect("something is pending");
    proceed(guided, Handle::Single(token), Intent::Advance, Vec::new())
}

/// Advances with custom notes.
fn say(guided: &Guided, reply: &Reply, notes: &str) -> Reply {
    guided
        .proceed(ContinueRequest {
            handle: Handle::Single(reply.continue_token.clone().expect("something is pending")),
            intent: Intent::Advance,
            notes_markdown: Some(notes.to_owned()),
            artifacts: Vec::new(),
            context: None,
            preferences: None,
        })
        .unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// Returns to the tip of an abandoned session.
fn come_back(guided: &Guided, session: &SessionId) -> Reply {
    let request = ResumeRequest { session_id: Some(session.to_string()), ..ResumeRequest::default() };
    let found = guided.resume(&request).unwrap();
    let candidate = found.candidates.iter().find(|found| found["sessionId"] == session.as_str()).unwrap();
    let state_token = candidate["resumeToken"].as_str().unwrap().to_owned();
    proceed(guided, Handle::Pair { state_token, ack_token: None }, Intent::Rehydrate, Vec::new()).unwrap()
}

fn session_id(reply: &Reply) -> SessionId {
    SessionId::parse(&reply.run.session_id).unwrap()
}

fn folded(id: &SessionId, events: &[Event]) -> SessionState {
    let mut state = SessionState::new(id.clone());
    for event in events {
        state.apply(event).unwrap();
    }
    state
}

#[test]
fn large_artifacts_go_to_the_store_and_small_ones_stand_in_the_event() {
    let desk = Desk::new();
    let guided = desk.guided(1);
    let first = start(&guided, "project.release", "2.4");
    let of_bytes = |bytes: usize| {
        let frame = json!({"blob": "", "kind": "x"}).to_string().len();
        json!({"kind": "x", "blob": "b".repeat(bytes - frame)})
    };
    let artifacts = vec![of_bytes(40), of_bytes(2048), of_bytes(2049), of_bytes(20_000), of_bytes(20_000)];
    let token = first.continue_token.clone().unwrap();
    proceed(&guided, Handle::Single(token), Intent::Advance, artifacts).unwrap();
    let id = session_id(&first);
    let events = guided.files().load(&id).unwrap().events;
    let mut seen = Vec::new();
    for event in &events {
        if let EventData::NodeOutputAppended { payload: OutputPayload::ArtifactRef(found), .. } = &event.data
        {
            seen.push((found.byte_length, found.content.is_some()));
            if found.content.is_none() {
                let stored = guided.files().artifact(found.sha256).unwrap();
                assert_eq!(Digest::of_bytes(&stored), found.sha256);
                assert_eq!(stored.len() as u64, found.byte_length);
            }
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, [(40, true), (2048, true), (2049, false), (20_000, false), (20_000, false)]);
    assert_eq!(desk.files("artifacts").len(), 2, "equal artifacts are one file");

    let elsewhere = Desk::new();
    let there = elsewhere.guided(2);
    there.import(&guided.export(&id).unwrap(), false).unwrap();
    let contents = |desk: &Desk| desk.files("artifacts").into_values().collect::<Vec<_>>();
    assert_eq!(contents(&elsewhere), contents(&desk), "and they travel");
}

#[test]
fn rehydrate_shows_the_functions_that_the_step_cites() {
    let desk = Desk::new();
    let workflow = json!({"id": "project.cited", "name": "Cited", "description": "Uses functions.",
        "version": "1.0.0",
        "functionDefinitions": [
            {"name": "cite", "definition": "Quote the line and name the file.", "parameters": []},
            {"name": "unused", "definition": "Never shown.", "parameters": []}],
        "steps": [{"id": "read", "title": "Read", "prompt": "Read it.", "functionReferences": ["cite()"]}]});
    std::fs::write(desk.directory.path().join("flows/cited.json"), workflow.to_string()).unwrap();
    let guided = desk.guided(1);
    let first = start(&guided, "project.cited", "look it up");
    let back = come_back(&desk.guided(2), &session_id(&first));
    let prompt = back.pending.unwrap().prompt;
    assert!(prompt.contains("Quote the line and name the file."), "{prompt}");
    assert!(!prompt.contains("Never shown."), "{prompt}");
}

#[test]
fn going_back_also_shows_the_functions_that_later_notes_call() {
    let desk = Desk::new();
    let step = |id: &str, cites: &str| json!({"id": id, "title": id, "prompt": "Do.", "functionReferences": [cites]});
    let workflow = json!({"id": "project.cited", "name": "Cited", "description": "Uses functions.",
        "version": "1.0.0",
        "functionDefinitions": [
            {"name": "cite", "definition": "Quote the line."}, {"name": "score", "definition": "From 1 to 5."},
            {"name": "file", "definition": "Put it away."}],
        "steps": [step("read", "cite()"), step("judge", "score()"), step("end", "file()")]});
    std::fs::write(desk.directory.path().join("flows/cited.json"), workflow.to_string()).unwrap();
    let guided = desk.guided(1);
    let first = start(&guided, "project.cited", "look it up");
    let reported = |reply: &Reply| {
        let prompt = reply.pending.as_ref().unwrap().prompt.clone();
        ["cite() = ", "score() = ", "file() = "].map(|function| prompt.contains(function))
    };
    assert_eq!(reported(&first), [true, false, false], "the start defines what its step cites");
    let second = say(&guided, &first, "Read it, and wrote cite() three times.");
    assert_eq!(reported(&second), [false, true, false], "and so does an advance");
    assert_eq!(say(&guided, &first, "whatever"), second, "also when it is replayed");
    let third = say(&guided, &second, "Gave score(2); file (not a call) can wait.");
    assert_eq!(reported(&third), [false, false, true]);

    let back = |reply: &Reply| {
        let state_token = reply.state_token.clone();
        let handle = Handle::Pair { state_token, ack_token: None };
        reported(&proceed(&desk.guided(2), handle, Intent::Rehydrate, Vec::new()).unwrap())
    };
    assert_eq!(back(&third), [false, false, true], "at the tip nothing is downstream");
    assert_eq!(back(&second), [false, true, false], "its own, which is also what the notes after it call");
    assert_eq!(back(&first), [true, true, false], "its own, and what the notes of both later steps call");
}

#[test]
fn a_damaged_candidate_is_skipped() {
    let desk = Desk::new();
    let guided = desk.guided(1);
    let ids: Vec<String> = (0..7)
        .map(|number| start(&guided, "project.release", &format!("spring release {number}")).run.session_id)
        .collect();
    let offered = |guided: &Guided| -> Vec<String> {
        let request = ResumeRequest { query: Some("spring".to_owned()), ..ResumeRequest::default() };
        let found = guided.resume(&request).unwrap().candidates;
        found.iter().map(|candidate| candidate["sessionId"].as_str().unwrap().to_owned()).collect()
    };
    let before = offered(&guided);
    assert_eq!(before.len(), 5);
    desk.damage(&before[0]);
    desk.damage(&before[3]);
    let after = offered(&desk.guided(2));
    assert_eq!(after.len(), 5, "the next ones move up");
    assert!(!after.contains(&before[0]) && !after.contains(&before[3]), "{after:?}");
    assert_eq!(after[..3], [before[1].clone(), before[2].clone(), before[4].clone()], "in the same order");
    assert!(after.iter().all(|id| ids.contains(id)));
}

#[test]
fn an_imported_session_continues_with_equal_projections() {
    let (here, elsewhere) = (Desk::new(), Desk::new());
    let guided = here.guided(1);
    let first = start(&guided, "project.release", "2.4");
    guided.checkpoint(first.checkpoint_token.as_deref().unwrap(), Some("before")).unwrap();
    advance(&guided, &first).unwrap();
    let id = session_id(&first);
    let original = guided.files().load(&id).unwrap().events;
    let bundle = guided.export(&id).unwrap();
    // The source does not exist at the destination: the pinned workflow is executed.
    std::fs::remove_file(elsewhere.directory.path().join("flows/release.json")).unwrap();
    let there = elsewhere.guided(2);
    let as_is = there.import(&bundle, false).unwrap();
    assert_eq!((as_is.session_id == id, as_is.as_new), (true, false));
    assert_eq!(there.files().load(&id).unwrap().events, original);
    assert_eq!(there.export(&id).unwrap(), bundle);
    let copy = guided.import(&bundle, false).unwrap();
    assert!(copy.as_new && copy.session_id != id);

    let summary = |guided: &Guided, id: &SessionId| {
        let state = folded(id, &guided.files().load(id).unwrap().events);
        let run = &state.runs()[0];
        let mut summary = serde_json::to_value(session_summary(&state, run)).unwrap();
        // Ids are derived from the session; everything else is the same.
        let own: Vec<String> = summary
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, value)| {
                value.as_str().is_some_and(|text| {
                    ["sess_", "run_", "node_"].iter().any(|prefix| text.starts_with(prefix))
                })
            })
            .map(|(key, _)| key.clone())
            .collect();
        if *id != session_id(&first) {
            for key in &own {
                summary[key] = Value::Null;
            }
        }
        (summary, own, run.workflow_hash)
    };
    let (expected, own, hash) = summary(&guided, &id);
    assert_eq!(summary(&there, &id), (expected.clone(), own.clone(), hash), "as it is, elsewhere");
    let mut anonymous = expected;
    for key in &own {
        anonymous[key] = Value::Null;
    }
    assert_eq!(summary(&guided, &copy.session_id), (anonymous, own, hash), "as new, beside itself");

    let mut prompts = Vec::new();
    for (guided, session) in [(&guided, &id), (&there, &id), (&guided, &copy.session_id)] {
        let back = come_back(guided, session);
        assert_eq!(back.pending.as_ref().unwrap().step_id, "draft");
        prompts.push(back.pending.clone().unwrap().prompt);
        let third = advance(guided, &back).unwrap();
        let done = advance(guided, &third).unwrap();
        assert!(done.is_complete);
        assert!(guided.files().verify(session).unwrap().is_sound());
    }
    assert!(prompts.iter().all(|prompt| *prompt == prompts[0]), "{prompts:#?}");
}

#[test]
fn what_a_step_needs_is_refused_while_it_is_missing_or_damaged_and_nothing_is_lost() {
    let desk = Desk::new();
    let first = start(&desk.guided(1), "project.release", "2.4");
    let second = advance(&desk.guided(1), &first).unwrap();
    let id = session_id(&first);
    let state = folded(&id, &desk.guided(1).files().load(&id).unwrap().events);
    let tip = state.node(&guide::project::preferred_tip(&state, &state.runs()[0]).unwrap().id).unwrap();
    let named = |folder: &str, digest: &str| {
        let name = digest.trim_start_matches("sha256:").to_owned();
        let found = desk.files(folder).into_iter().find(|(path, _)| path.to_string_lossy().contains(&name));
        found.unwrap_or_else(|| panic!("{folder} has no {name}"))
    };
    let segment = |last: bool| {
        let segments = desk.files(&format!("sessions/{id}/events"));
        let found = if last { segments.last_key_value() } else { segments.first_key_value() };
        found.map(|(path, content)| (path.clone(), content.clone())).unwrap()
    };
    let snapshot = named("snapshots", &tip.snapshot_ref.0.to_string());
    let workflow = named("workflows", &state.runs()[0].workflow_hash.to_string());
    let cases = [
        ("the snapshot", snapshot, ["STORE_OBJECT_MISSING", "STORE_OBJECT_DAMAGED"]),
        ("the pinned workflow", workflow, ["STORE_OBJECT_MISSING", "STORE_OBJECT_DAMAGED"]),
        ("the last segment", segment(true), ["SESSION_NOT_HEALTHY"; 2]),
        ("the first segment", segment(false), ["SESSION_NOT_HEALTHY"; 2]),
    ];
    let pair = Handle::Pair { state_token: second.state_token.clone(), ack_token: second.ack_token.clone() };
    for (name, (path, content), codes) in cases {
        for (changed, code) in [None, Some(flipped(&content))].into_iter().zip(codes) {
            match &changed {
                None => std::fs::remove_file(&path).unwrap(),
                Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            }
            let before = desk.files("sessions");
            let short = Handle::Single(second.continue_token.clone().unwrap());
            for (handle, intent) in
                [(short, Intent::Advance), (pair.clone(), Intent::Advance), (pair.clone(), Intent::Rehydrate)]
            {
                let refusal = proceed(&desk.guided(3), handle, intent, Vec::new()).unwrap_err();
                assert_eq!(refusal.envelope().code(), code, "{name}, {intent:?}: {refusal}");
            }
            if code == "SESSION_NOT_HEALTHY" {
                let bookmark = second.checkpoint_token.as_deref().unwrap();
                let refusal = desk.guided(3).checkpoint(bookmark, None).unwrap_err();
                assert_eq!(refusal.envelope().code(), code, "{name}: {refusal}");
                assert_eq!(desk.guided(3).export(&id).unwrap_err().envelope().code(), code, "{name}");
            }
            assert_eq!(desk.files("sessions"), before, "{name}: nothing was written");
            std::fs::write(&path, &content).unwrap();
        }
    }
    let third = advance(&desk.guided(4), &second).unwrap();
    assert_eq!(third.pending.unwrap().step_id, "publish", "the same token is good once all is back");
}

/// Appends events like the store, without validating them.
fn append_by_hand(desk: &Desk, id: &SessionId, loaded: &Loaded, events: &[Event]) {
    let folder = desk.data().join("sessions").join(id.as_str());
    let segment: Vec<u8> =
        events.iter().flat_map(|event| [event.encode(), b"\n".to_vec()].concat()).collect();
    let (first, last) =
        (events[0].event_index, EventIndex(events[0].event_index.0 + events.len() as u64 - 1));
    std::fs::write(folder.join(segment_rel_path(first, last)), &segment).unwrap();
    let record = ManifestRecord::SegmentClosed(SegmentRecord {
        v: MANIFEST_VERSION,
        manifest_index: ManifestIndex(loaded.manifest.len() as u64),
        session_id: id.clone(),
        first_event_index: first,
        last_event_index: last,
        segment_rel_path: segment_rel_path(first, last),
        sha256: Digest::of_bytes(&segment),
        bytes: segment.len() as u64,
    });
    let manifest = folder.join("manifest.jsonl");
    let bytes = [std::fs::read(&manifest).unwrap(), record.encode(), b"\n".to_vec()].concat();
    std::fs::write(manifest, bytes).unwrap();
}

#[test]
fn a_log_that_contradicts_itself_can_be_exported_up_to_there() {
    let desk = Desk::new();
    let first = start(&desk.guided(1), "project.release", "2.4");
    let id = session_id(&first);
    let loaded = desk.guided(1).files().load(&id).unwrap();
    // No program writes this: the same event again, attested.
    let last = loaded.events.last().unwrap();
    let again = Event { event_index: last.event_index.next(), ..last.clone() };
    append_by_hand(&desk, &id, &loaded, &[again]);
    let guided = desk.guided(2);
    assert!(guided.files().health(&id).unwrap().is_healthy(), "the bytes are what was attested");
    assert_eq!(guided.export(&id).unwrap_err().envelope().code(), "BUNDLE_EVENT_ORDER_INVALID");
    let part = guided.export_sound_part(&id).unwrap();
    assert_eq!(part.salvaged.map(|salvaged| salvaged.reason).as_deref(), Some("EVENT_DUPLICATE"));
    assert_eq!(part.events, loaded.events.len());
    assert_eq!(desk.guided(3).import(&part.bundle, false).unwrap().events, loaded.events.len());
}

#[test]
fn a_replay_whose_recorded_node_is_missing_is_refused_and_decides_nothing_again() {
    let desk = Desk::new();
    let first = start(&desk.guided(1), "project.release", "2.4");
    let id = session_id(&first);
    {
        // No program writes this: the outcome of an attempt, without the node that it led to.
        let guided = desk.guided(1);
        let loaded = guided.files().load(&id).unwrap();
        let state = folded(&id, &loaded.events);
        let run = &state.runs()[0];
        let node = guide::project::preferred_tip(&state, run).unwrap();
        let additions = engine::advance(&Advance {
            state: &state,
            node_id: &node.id,
            attempt_id: &guide::derive::attempt_id(&id, &node.id, 0),
            workflow: &guided.pinned(run.workflow_hash).unwrap(),
            snapshot: guided.files().snapshot(node.snapshot_ref).unwrap().state(),
            output: Output { notes_markdown: Some("did it".to_owned()), artifacts: Vec::new() },
            context: None,
            preferences: None,
            people: engine::PeopleAnswers::default(),
            verification: None,
            now_ms: 2,
        })
        .unwrap();
        append_by_hand(&desk, &id, &loaded, &additions.events[..1]);
    }
    let before = desk.files("");
    for _ in 0..3 {
        let refusal = advance(&desk.guided(2), &first).unwrap_err();
        assert_eq!(refusal.envelope().code(), "SESSION_NOT_HEALTHY", "{refusal}");
        assert_eq!(refusal.envelope().details()["reason"], "unfinished_advance", "{refusal}");
        assert!(refusal.to_string().contains("session verify"), "{refusal}");
    }
    assert_eq!(desk.files("sessions"), {
        let mut kept = before;
        kept.retain(|path, _| path.starts_with(desk.data().join("sessions")));
        kept
    });
}
