//! Checkpoints: a restored state equals the fold of the log.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use canon::digest::Digest;
use flow::definition::Definition;
use flow::run::Genesis;
use flow::state::RunState;
use flow::state::checkpoint::{CheckpointError, VERSION};
use serde_json::json;

use crate::driver::{World, workflow};
use crate::golden;

/// The state after saving and restoring it.
pub(crate) fn restored(definition: &Definition, state: &RunState) -> RunState {
    RunState::restore(definition, state.genesis.clone(), &state.checkpoint()).unwrap()
}

#[test]
fn a_checkpoint_plus_the_remaining_events_equals_the_complete_fold() {
    for name in golden::names() {
        let kept = golden::read(&name);
        let genesis = Arc::new(kept.genesis);
        let whole = RunState::fold(&kept.definition, genesis.clone(), &kept.events).unwrap();
        for split in 0..=kept.events.len() {
            let (before, rest) = kept.events.split_at(split);
            let before = RunState::fold(&kept.definition, genesis.clone(), before).unwrap();
            let mut state = restored(&kept.definition, &before);
            assert_eq!(state, before, "{name} at {split}");
            for event in rest {
                state.apply(&kept.definition, event).unwrap();
            }
            assert_eq!(state, whole, "{name} at {split}");
        }
    }
}

/// A change of the state or of its fold changes these digests. Then change the number in [`VERSION`] and run with `UPDATE_GOLDEN=1`, so that
/// the program ignores checkpoints that were written before the change.
#[test]
fn a_change_of_the_state_requires_a_new_version() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/checkpoints.txt");
    let (number, _) = VERSION.split_once('/').unwrap();
    let mut fresh = format!("format {number}\n");
    for name in golden::names() {
        let kept = golden::read(&name);
        let genesis = Arc::new(kept.genesis);
        let half = &kept.events[..kept.events.len() / 2];
        for events in [half, &kept.events] {
            let state = RunState::fold(&kept.definition, genesis.clone(), events).unwrap();
            let checkpoint = state.checkpoint();
            let saved = checkpoint.splitn(2, |byte| *byte == b'\n').nth(1).unwrap();
            writeln!(fresh, "{name} {} {}", events.len(), Digest::of_bytes(saved)).unwrap();
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, fresh).unwrap();
        return;
    }
    assert_eq!(fresh, std::fs::read_to_string(&path).unwrap());
}

#[test]
fn an_invalid_checkpoint_is_refused() {
    let document = |id: &str| workflow(id, &[("gate", "core.approvalGate", json!({}))], &[]);
    let mut world = World::new(&[document("w"), document("other")]);
    world.create("w");
    let run = world.run();
    let (definition, genesis) = (&run.definition, &run.genesis);
    let good = run.state.checkpoint();
    let text = String::from_utf8(good.clone()).unwrap();
    let replaced = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} is in {text}");
        text.replacen(from, to, 1).into_bytes()
    };
    let restore = |bytes: &[u8]| RunState::restore(definition, genesis.clone(), bytes);
    assert_eq!(restore(&good).unwrap(), run.state);

    let version = restore(&replaced(VERSION, "0/0.0.0")).unwrap_err();
    assert!(matches!(&version, CheckpointError::Version { found } if found == "0/0.0.0"), "{version}");
    let damaged = [
        ("empty", Vec::new()),
        ("without a state", text.lines().next().unwrap().as_bytes().to_vec()),
        ("cut short", good[..good.len() - 1].to_vec()),
        ("another state", replaced("\"node_executions\":1", "\"node_executions\":2")),
        ("another sequence", replaced("\"sequence\":", "\"sequence\":1")),
        ("another digest", replaced("\"digest\":\"sha256:", "\"digest\":\"sha256:0")),
    ];
    for (name, bytes) in damaged {
        let error = restore(&bytes).unwrap_err();
        assert!(
            matches!(error, CheckpointError::Damaged | CheckpointError::Malformed(_)),
            "{name}: {error:?}"
        );
    }
    let other_run = Arc::new(Genesis { run_id: flow::id::RunId::new("x"), ..(**genesis).clone() });
    let foreign = [
        ("another run", RunState::restore(definition, other_run, &good)),
        ("another definition", RunState::restore(&world.definitions["other"], genesis.clone(), &good)),
    ];
    for (name, result) in foreign {
        assert!(matches!(result, Err(CheckpointError::Foreign)), "{name}");
    }
}
