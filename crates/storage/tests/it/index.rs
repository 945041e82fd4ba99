//! The index gives the same results if it is deleted, damaged or outdated.

use std::collections::BTreeMap;

use guide::project::resume::{RankingInput, TokenText};
use guide::record::{EventData, EventIndex, OutputPayload, Scope, SessionId};
use storage::disk::{Disk, DiskPath, FaultyDisk};
use storage::files::{Cursor, Loaded, Retention, SessionFiles};
use storage::index::{Index, PositionKey, Projection};

use crate::support::{SampleSession, Step, open};

fn key(text: &str) -> PositionKey {
    *canon::digest::Digest::of_bytes(text.as_bytes()).as_bytes().first_chunk().unwrap()
}

/// A stand-in for the engine's projection: the words of the notes, and one position for each node.
fn project(loaded: &Loaded) -> Option<Projection> {
    let mut projection = Projection::default();
    let mut notes = Vec::new();
    for event in &loaded.events {
        let Scope::Node(run, node) = &event.scope else { continue };
        match &event.data {
            EventData::NodeCreated { .. } => {
                projection.positions.push((key(node.as_str()), event.event_index));
                projection.runs = vec![RankingInput {
                    session_id: event.session_id.clone(),
                    run_id: run.clone(),
                    tip_node_id: node.clone(),
                    workflow_id: "wr.test".to_owned(),
                    title: (loaded.events.len() > 20).then(|| "long".to_owned()),
                    recap: "is not kept".to_owned(),
                    git_branch: None,
                    git_head_sha: None,
                    repo_root_hash: None,
                    last_activity_index: event.event_index,
                    is_complete: false,
                    last_modified_ms: Some(event.timestamp_ms),
                    text_tokens: TokenText::default(),
                    workflow_tokens: TokenText::of(["wr.test"], 64),
                    branch_tokens: TokenText::default(),
                }];
            }
            EventData::NodeOutputAppended {
                payload: OutputPayload::Notes { notes_markdown, .. }, ..
            } => {
                notes.push(notes_markdown.as_str());
            }
            _ => {}
        }
    }
    notes.reverse();
    if let Some(run) = projection.runs.first_mut() {
        run.text_tokens = TokenText::of(notes, 100);
    }
    Some(projection)
}

/// Appends, and updates the index as the engine would.
fn record(files: &SessionFiles, index: &Index, step: &Step, before: Option<&Cursor>) -> Cursor {
    let cursor = match before {
        None => step.create(files).unwrap().cursor,
        Some(before) => step.append(files, Some(before)).unwrap().cursor,
    };
    let mut projection = project(&files.load(cursor.session_id()).unwrap()).unwrap();
    projection.positions.retain(|(_, index)| before.is_none_or(|before| *index >= before.next_event()));
    index.record(before, &cursor, projection).unwrap();
    cursor
}

type Answers = (BTreeMap<SessionId, RankingInput>, Vec<Option<(SessionId, EventIndex)>>);

fn answers(index: &Index, keys: &[PositionKey]) -> Answers {
    let inputs = index
        .with_inputs(&project, |inputs| {
            inputs.map(|input| (input.session_id.clone(), input.clone())).collect()
        })
        .unwrap();
    (inputs, keys.iter().map(|key| index.position(key, &project).unwrap()).collect())
}

/// Three sessions that grow in turns, and all their positions.
fn grown(disk: &FaultyDisk) -> (Index, Vec<PositionKey>) {
    let files = open(disk);
    let index = Index::new(files.clone());
    let mut walks: Vec<_> = ["a", "b", "c"].into_iter().map(SampleSession::new).collect();
    let mut cursors: Vec<_> =
        walks.iter_mut().map(|walk| record(&files, &index, &walk.start(), None)).collect();
    for round in 0..7 {
        for (walk, cursor) in walks.iter_mut().zip(&mut cursors) {
            let step = walk.advance(&format!("word{round} shared words of {}", walk.session));
            *cursor = record(&files, &index, &step, Some(cursor));
        }
    }
    let nodes = walks.iter().flat_map(|walk| walk.events.iter()).filter_map(|event| match &event.data {
        EventData::NodeCreated { .. } => event.scope.node_id().map(|node| key(node.as_str())),
        _ => None,
    });
    (index, nodes.collect())
}

#[test]
fn deleted_or_read_by_another_process_it_gives_the_same_answers() {
    let disk = FaultyDisk::default();
    let (index, keys) = grown(&disk);
    let expected = answers(&index, &keys);
    assert_eq!(expected.0.len(), 3);
    assert!(expected.1.iter().all(Option::is_some));
    assert!(expected.0.values().all(|input| input.recap.is_empty()));
    let other = Index::new(open(&disk));
    assert_eq!(answers(&other, &keys), expected);
    assert_eq!(other.report(), storage::index::IndexReport::default(), "nothing was read from a log");
    disk.remove_file(&DiskPath::parse("cache/sessions.index").unwrap()).unwrap();
    let rebuilt = Index::new(open(&disk));
    assert_eq!(answers(&rebuilt, &keys), expected);
    assert_eq!(rebuilt.report().projected_sessions, 3);
    let again = Index::new(open(&disk));
    assert_eq!(answers(&again, &keys), expected);
    assert_eq!(again.report().projected_sessions, 0, "the file was rewritten");
    assert_eq!(answers(&index, &keys), expected, "and an index that was open continues");
}

#[test]
fn what_another_process_adds_is_found() {
    let disk = FaultyDisk::default();
    let (index, keys) = grown(&disk);
    let other = Index::new(open(&disk));
    answers(&other, &keys);
    let files = open(&disk);
    let mut walk = SampleSession::new("later");
    let cursor = record(&files, &index, &walk.start(), None);
    record(&files, &index, &walk.advance("something new"), Some(&cursor));
    let tip = walk.events.iter().rev().find_map(|event| event.scope.node_id()).unwrap();
    let tips = [key(tip.as_str()), [0; 12]];
    let (inputs, positions) = answers(&other, &tips);
    assert_eq!(inputs.len(), 4);
    assert_eq!(positions[0].as_ref().unwrap().0, walk.session);
    assert_eq!(positions[1], None);
    // Appended without updating the index.
    let mut silent = SampleSession::new("silent");
    silent.start().create(&files).unwrap();
    let root = silent.events[2].scope.node_id().unwrap();
    assert!(other.position(&key(root.as_str()), &project).unwrap().is_some());
    // Garbage collection deletes all sessions.
    let report = files.gc(Retention { now_ms: 1_000_000_000, ttl_ms: 1, dry_run: false }).unwrap();
    index.forget(&report.deleted_sessions).unwrap();
    assert_eq!(answers(&other, &keys), (BTreeMap::new(), vec![None; keys.len()]));
}

#[test]
fn a_flipped_byte_is_noticed_and_the_log_is_asked() {
    let disk = FaultyDisk::default();
    let (index, keys) = grown(&disk);
    let expected = answers(&index, &keys);
    let path = "cache/sessions.index";
    let bytes = disk.files()[path].clone();
    // Every seventh byte reaches every field of every kind of line.
    for position in (0..bytes.len()).step_by(7) {
        let mut changed = bytes.clone();
        changed[position] ^= 0x04;
        disk.overwrite(path, changed);
        let fresh = Index::new(open(&disk));
        assert_eq!(answers(&fresh, &keys), expected, "byte {position}");
        assert!(fresh.report().discarded_lines > 0, "byte {position}");
    }
    for end in (0..bytes.len()).step_by(101) {
        disk.overwrite(path, bytes[..end].to_vec());
        assert_eq!(answers(&Index::new(open(&disk)), &keys), expected, "cut at {end}");
    }
}

#[test]
fn it_is_rewritten_when_it_has_grown() {
    let disk = FaultyDisk::default();
    let (index, keys) = grown(&disk);
    let expected = answers(&index, &keys);
    let path = DiskPath::parse("cache/sessions.index").unwrap();
    let line = {
        let bytes = disk.files()["cache/sessions.index"].clone();
        let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
        bytes[last + 1..].to_vec()
    };
    disk.append(&path, &line.repeat(5000)).unwrap();
    let fresh = Index::new(open(&disk));
    assert_eq!(answers(&fresh, &keys), expected);
    assert!(fresh.report().compacted);
    assert!(disk.files()["cache/sessions.index"].len() < 10_000);
    assert_eq!(answers(&Index::new(open(&disk)), &keys), expected);
    assert_eq!(answers(&index, &keys), expected, "an index that had the old file open reads the new one");
}
