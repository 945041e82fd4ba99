//! Views of sessions, valid and damaged ones.

use std::path::PathBuf;

use guide::project::RunStatus;
use guide::record::{NodeId, NodeKind, SessionId};
use guided::api::Reply;
use guided::view::{Sides, TURNS};

use crate::guided::{Desk, advance, token};
use crate::sync::Guided;

fn session_of(reply: &Reply) -> SessionId {
    let wire = serde_json::to_value(reply).unwrap();
    SessionId::parse(wire["run"]["sessionId"].as_str().unwrap()).unwrap()
}

fn address(node: &NodeId) -> String {
    format!("/nodes/{node}")
}

/// A session with a block, a checkpoint and a fork.
fn branched(desk: &Desk) -> SessionId {
    let first = desk.start("project.release", "2.4");
    let blocked = advance(&desk.guided, token(&first), None).unwrap();
    let second = desk.advance(token(&blocked), "# Collected\n\n14 changes");
    desk.guided.checkpoint(second.checkpoint_token.as_deref().unwrap(), Some("a good place")).unwrap();
    desk.advance(token(&second), "drafted");
    let back = desk.rehydrate(token(&second));
    desk.advance(token(&back), "drafted in another way");
    session_of(&first)
}

#[test]
fn a_session_is_shown_with_its_forks_blocks_checkpoints_and_tip() {
    let desk = Desk::new();
    let id = branched(&desk);
    let look = desk.guided.look(&id, None, None, &address).unwrap();
    assert_eq!((look.health, &look.damage), ("healthy", &None));
    assert_eq!(look.runs.len(), 1);
    let shown = look.shown.unwrap();
    let turns = &shown.replay.turns;
    let kinds: Vec<_> = turns.iter().map(|turn| (turn.kind, turn.is_fork, turn.is_tip)).collect();
    let step = |is_fork, is_tip| (NodeKind::Step, is_fork, is_tip);
    assert_eq!(
        kinds,
        [
            step(false, false),
            (NodeKind::BlockedAttempt, false, false),
            step(false, false),
            (NodeKind::Checkpoint, false, false),
            step(false, false),
            step(true, true),
        ]
    );
    assert_eq!(shown.picture.matches("<a href=\"/nodes/").count(), turns.len());
    assert!(shown.picture.contains("collect") && shown.picture.contains("fork"), "{}", shown.picture);
    assert_eq!(turns[1].blockers.len(), 1);
    assert_eq!(turns[2].notes.as_deref(), Some("# Collected\n\n14 changes"));
}

#[test]
fn a_node_is_shown_with_prompt_recap_and_trace() {
    let desk = Desk::new();
    let id = branched(&desk);
    let shown = desk.guided.look(&id, None, None, &address).unwrap().shown.unwrap();
    let nodes: Vec<_> = shown.replay.turns.iter().map(|turn| turn.node_id.clone()).collect();
    let root = desk.guided.look_at_node(&id, &nodes[0]).unwrap().unwrap();
    assert!(root.prompt.unwrap().text.contains("Do collect for 2.4."));
    assert_eq!((root.place, root.children_total), (0, 1));
    let second = desk.guided.look_at_node(&id, &nodes[2]).unwrap().unwrap();
    assert!(second.prompt.unwrap().text.contains("Do draft for 2.4."));
    assert_eq!(second.turn.answered_step_title.as_deref(), Some("collect"));
    assert!(!second.trace.is_empty(), "the engine says why it chose the step");
    assert_eq!(second.children_total, 3, "a checkpoint, and two ways on");
    let stranger = NodeId::derived(&["stranger"]);
    assert_eq!(desk.guided.look_at_node(&id, &stranger).unwrap(), None);
}

#[test]
fn a_damaged_session_is_shown_as_far_as_it_is_sound() {
    let desk = Desk::new();
    let id = branched(&desk);
    let last = segments(&desk, &id).pop().unwrap();
    let mut bytes = std::fs::read(&last).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&last, bytes).unwrap();
    // The session is not in memory any more.
    let fresh = Guided::new(
        desk.guided.files().clone(),
        desk.guided.catalogue().clone(),
        std::sync::Arc::new(system::ManualClock::at(1)),
        std::sync::Arc::new(system::SeededEntropy::new(5)),
    );
    let look = fresh.look(&id, None, None, &address).unwrap();
    assert_eq!(look.health, "corrupt_tail");
    assert!(look.damage.is_some());
    let shown = look.shown.unwrap();
    assert_eq!(shown.replay.turns.len(), 5, "the last append is not among them");
    let node = shown.replay.turns[0].node_id.clone();
    assert!(fresh.look_at_node(&id, &node).unwrap().unwrap().damage.is_some());
    let shelf = fresh.shelf(0, 10).unwrap();
    let entry = &shelf.folders[0].branches[0].sessions[0];
    assert_eq!((&entry.session_id, entry.health), (&id, "corrupt_tail"));
}

fn segments(desk: &Desk, id: &SessionId) -> Vec<PathBuf> {
    let folder = desk.data().join("sessions").join(id.as_str()).join("events");
    let mut segments: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    segments
}

#[test]
fn the_list_shows_what_was_recorded_since() {
    let desk = Desk::new();
    assert_eq!(desk.guided.shelf(0, 10).unwrap().total, 0);
    let first = desk.start("project.release", "2.4");
    let status = |guided: &Guided| {
        let shelf = guided.shelf(0, 10).unwrap();
        let run = &shelf.folders[0].branches[0].sessions[0].runs[0];
        (shelf.total, run.status, run.step_ordinal)
    };
    assert_eq!(status(&desk.guided), (1, RunStatus::InProgress, 1));
    desk.advance(token(&first), "collected");
    assert_eq!(status(&desk.guided), (1, RunStatus::InProgress, 2));
    desk.start("project.triage", "a report");
    let shelf = desk.guided.shelf(1, 10).unwrap();
    assert_eq!((shelf.total, shelf.folders[0].branches[0].sessions.len()), (2, 1), "the second page");
}

#[test]
fn a_long_run_is_shown_in_pages_of_turns() {
    let desk = Desk::new();
    let first = desk.start("project.release", "2.4");
    for _ in 0..TURNS + 1 {
        desk.guided
            .checkpoint(first.checkpoint_token.as_deref().unwrap(), None)
            .unwrap_or_else(|refusal| panic!("{refusal}"));
        let back = desk.rehydrate(token(&first));
        desk.advance(token(&back), "one more way");
    }
    let id = session_of(&first);
    let last = desk.guided.look(&id, None, None, &address).unwrap().shown.unwrap();
    assert!(last.nodes > TURNS, "{}", last.nodes);
    assert_eq!(last.window.end, last.nodes, "without a wish the last turns are shown");
    let begin = desk.guided.look(&id, None, Some(0), &address).unwrap().shown.unwrap();
    assert_eq!(begin.window, 0..TURNS);
    let beyond = desk.guided.look(&id, None, Some(usize::MAX), &address).unwrap().shown.unwrap();
    assert_eq!(beyond.window, last.window);
}

#[test]
fn a_changed_workflow_is_distinguished_from_the_pinned_one() {
    let desk = Desk::new();
    let id = branched(&desk);
    let pin = || desk.guided.pin(&id, None, |_| false).unwrap().unwrap();
    assert_eq!(pin().sides(), Sides::Same);
    assert!(pin().source.unwrap().contains("project.release"));
    let file = desk.directory.path().join("flows/release.json");
    let source = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, source.replace("Do draft", "Write a draft")).unwrap();
    let drifted = pin();
    assert_eq!(drifted.sides(), Sides::Drifted);
    let differing = drifted.steps().into_iter().filter(|pair| !pair.is_same());
    assert_eq!(differing.map(|pair| pair.pinned.unwrap().step_id.to_string()).collect::<Vec<_>>(), ["draft"]);
    std::fs::write(&file, "{").unwrap();
    assert_eq!(pin().sides(), Sides::NoSource);
    assert!(pin().pinned.is_ok(), "what the run is pinned to is its own");
}
