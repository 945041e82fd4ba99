//! A data directory of version 1: every later version must be able to read and continue it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalogue::{Catalogue, CatalogueOptions};
use guided::api::{ContinueRequest, Handle, Intent, Reply, StartRequest};
use serde_json::{Value, json};
use storage::disk::RealDisk;
use storage::files::SessionFiles;
use system::{ManualClock, SeededEntropy};

use crate::sync::Guided;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/data-v1")
}

/// The checkpoint token that version 1 issued with the first step. Later versions issue a short one.
const LONG_CHECKPOINT: &str = "chk.v1.eyJhdHRlbXB0SWQiOiJhdHRlbXB0X3E1c3V6dDRqdnVubTZhdGQybXM1YzM1Z3A0Iiwibm9kZUlkIjoibm9kZV94Z3gzZmFta3RtbHRteHpncnZ0NXJ3ZTdzNCIsInJ1bklkIjoicnVuX2I2eHBrZmE3aG42ZW5od3I3ZXlhZnVqbHZxIiwic2Vzc2lvbklkIjoic2Vzc18yM3hra2NuZHk3eWRsZmNqeDVhNng1YWl2bSIsInRva2VuS2luZCI6ImNoZWNrcG9pbnQiLCJ0b2tlblZlcnNpb24iOjF9.gJARqjdb4g-qvmD3PaUQsBLeW-2pIqyE3m-PpQQaU08";

fn open(directory: &Path) -> Guided {
    let files = SessionFiles::open(Arc::new(RealDisk::open(&directory.join("data")).unwrap())).unwrap();
    let catalogue = Catalogue::new(CatalogueOptions::default());
    Guided::new(
        files,
        catalogue,
        Arc::new(ManualClock::at(1_700_000_000_000)),
        Arc::new(SeededEntropy::new(42)),
    )
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn call(guided: &Guided, token: &Value, intent: Intent, notes: Option<&str>, artifacts: Vec<Value>) -> Reply {
    guided
        .proceed(ContinueRequest {
            handle: Handle::Single(token.as_str().unwrap().to_owned()),
            intent,
            notes_markdown: notes.map(str::to_owned),
            artifacts,
            context: None,
            preferences: None,
        })
        .unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// Writes the directory again: a start, a block, a retry, a checkpoint and two branches.
fn write(directory: &Path) -> Value {
    let flows = directory.join("workflows");
    std::fs::create_dir_all(&flows).unwrap();
    let workflow = json!({"id": "project.golden", "name": "Golden", "description": "Kept for good.",
        "version": "1.0.0", "steps": [
            {"id": "one", "title": "One", "prompt": "Do one for {{goal}}."},
            {"id": "passes", "type": "loop", "title": "Passes", "loop": {"type": "while", "maxIterations": 3,
                "conditionSource": {"kind": "artifact_contract", "contractRef": "wr.contracts.loop_control"}},
             "body": [{"id": "again", "title": "Again?", "prompt": "Decide.",
                "outputContract": {"contractRef": "wr.contracts.loop_control"}}]},
            {"id": "end", "title": "End", "prompt": "End."}]});
    std::fs::write(flows.join("golden.json"), workflow.to_string()).unwrap();
    let guided = open(directory);
    let start = guided
        .start(StartRequest {
            workflow_id: "project.golden".to_owned(),
            goal: "last".to_owned(),
            // A project's workflow is recorded by its path in the project, independent of the machine.
            workspace: Some(directory.to_owned()),
            ..StartRequest::default()
        })
        .unwrap_or_else(|refusal| panic!("{refusal}"));
    guided.checkpoint(start.checkpoint_token.as_deref().unwrap(), Some("before")).unwrap();
    let token = |reply: &Reply| json!(reply.continue_token);
    let blocked = call(&guided, &token(&start), Intent::Advance, None, Vec::new());
    let loops = call(&guided, &token(&blocked), Intent::Advance, Some("one is done"), Vec::new());
    let decision = |decision: &str| vec![json!({"kind": "wr.loop_control", "decision": decision})];
    let again = call(&guided, &token(&loops), Intent::Advance, None, decision("continue"));
    let end = call(&guided, &token(&again), Intent::Advance, None, decision("stop"));
    let back = call(&guided, &token(&start), Intent::Rehydrate, None, Vec::new());
    call(&guided, &token(&back), Intent::Advance, Some("another way"), Vec::new());
    json!({"start": token(&start), "end": token(&end), "session": start.run.session_id, "reply": start})
}

#[test]
fn a_data_directory_of_version_1_is_read_and_gone_on_with() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let fresh = tempfile::tempdir().unwrap();
        let facts = write(fresh.path());
        let _ = std::fs::remove_dir_all(golden());
        copy(fresh.path(), &golden());
        // Derived data is not part of the format.
        let _ = std::fs::remove_dir_all(golden().join("data/cache"));
        std::fs::write(golden().join("facts.json"), format!("{facts:#}\n")).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    copy(&golden(), directory.path());
    let facts: Value = serde_json::from_slice(&std::fs::read(golden().join("facts.json")).unwrap()).unwrap();
    let guided = open(directory.path());
    let session = guide::record::SessionId::parse(facts["session"].as_str().unwrap()).unwrap();
    assert!(guided.files().health(&session).unwrap().is_healthy());
    let start = call(&guided, &facts["start"], Intent::Rehydrate, None, Vec::new());
    assert_eq!(start.pending.unwrap().step_id, "one", "a handle of then still works");
    let bookmark = guided.checkpoint(LONG_CHECKPOINT, Some("again")).unwrap();
    assert_eq!(bookmark.run.step, 1, "a long checkpoint token of then still works");
    let done = call(&guided, &facts["end"], Intent::Advance, Some("ended"), Vec::new());
    assert!(done.is_complete, "and the run can be finished");
    assert!(guided.files().verify(&session).unwrap().is_sound());
}

#[test]
fn the_same_calls_still_write_the_same_bytes() {
    let fresh = tempfile::tempdir().unwrap();
    let facts = write(fresh.path());
    let expected: Value =
        serde_json::from_slice(&std::fs::read(golden().join("facts.json")).unwrap()).unwrap();
    assert_eq!(facts, expected, "ids, tokens and prompts");
    let log = |root: &Path| {
        let folder = root.join("data/sessions").join(facts["session"].as_str().unwrap());
        let mut text = std::fs::read_to_string(folder.join("manifest.jsonl")).unwrap();
        let mut segments: Vec<PathBuf> =
            std::fs::read_dir(folder.join("events")).unwrap().map(|entry| entry.unwrap().path()).collect();
        segments.sort();
        for segment in segments {
            text.push_str(&std::fs::read_to_string(segment).unwrap());
        }
        text
    };
    assert!(log(fresh.path()) == log(&golden()), "events and manifest differ");
}
