//! Recorded logs: every log that was ever written stays readable.
//!
//! `tests/golden/logs/<name>` contains one run: the definition, the genesis, the stored bytes of the log, and the snapshot of the folded
//! state. `UPDATE_GOLDEN=1` writes the folders again. A change that requires this changes the format: keep the old folder
//! under another name in [`KEPT`], because users have logs of older versions.

mod scenarios;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use flow::definition::{Capabilities, Definition};
use flow::engine::replay::{Source, replay};
use flow::engine::{Effect, Input, Limits, decide};
use flow::event::{Event, EventKind, wire};
use flow::id::{RunId, WorkflowId};
use flow::run::Genesis;
use flow::snapshot::snapshot;
use flow::state::RunState;
use serde_json::Value;

use self::scenarios::{CHILDREN, SCENARIOS, Scenario};
use crate::driver::World;

/// Folders of logs that this version would write differently, but still reads.
const KEPT: &[&str] = &[
    // Parents did not record that a child waits for a person.
    "cancel-cascade-untold",
];

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/logs").join(name)
}

/// A recorded run.
pub(crate) struct Kept {
    pub(crate) definition: Definition,
    pub(crate) genesis: Genesis,
    pub(crate) events: Vec<Event>,
    lines: String,
    snapshot: Value,
}

/// The sorted folders of recorded logs.
pub(crate) fn names() -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder("")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

pub(crate) fn read(name: &str) -> Kept {
    let text = |file: &str| {
        let path = folder(name).join(file);
        let hint = "run the tests with UPDATE_GOLDEN=1";
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}; {hint}", path.display()))
    };
    let document: Value = serde_json::from_str(&text("definition.json")).unwrap();
    let lines = text("events.jsonl");
    Kept {
        definition: Definition::check(&document, &Capabilities::OURS).unwrap(),
        genesis: serde_json::from_str(&text("genesis.json")).unwrap(),
        events: lines.lines().map(|line| wire::decode(line.as_bytes()).unwrap()).collect(),
        lines,
        snapshot: serde_json::from_str(&text("snapshot.json")).unwrap(),
    }
}

/// The runs of a scenario, by folder.
fn played(scenario: &Scenario) -> Vec<(&'static str, World, RunId)> {
    let play = || {
        let mut world = (scenario.world)();
        (scenario.play)(&mut world);
        world
    };
    let mut runs = vec![(scenario.name, play(), RunId::new("r"))];
    for (_, folder, workflow_id) in CHILDREN.iter().filter(|(parent, ..)| *parent == scenario.name) {
        let world = play();
        let child = world.children().into_iter().find(|(id, _)| *id == *workflow_id).unwrap().1;
        runs.push((folder, world, child));
    }
    runs
}

fn lines(run_id: &RunId, events: &[Event]) -> String {
    events.iter().fold(String::new(), |mut lines, event| {
        writeln!(lines, "{}", wire::encode(run_id, event)).unwrap();
        lines
    })
}

/// The snapshot at the time of the last event.
fn shown(definition: &Definition, genesis: &Genesis, events: &[Event]) -> Value {
    let state = RunState::fold(definition, Arc::new(genesis.clone()), events).unwrap();
    snapshot(definition, &state, events.last().unwrap().timestamp)
}

fn pretty(value: &Value) -> String {
    format!("{}\n", serde_json::to_string_pretty(value).unwrap())
}

#[test]
fn the_engine_makes_the_recorded_decisions_again() {
    for scenario in SCENARIOS {
        for (name, world, run_id) in played(scenario) {
            let run = &world.runs[&run_id];
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::create_dir_all(folder(name)).unwrap();
                let write = |file: &str, text: String| std::fs::write(folder(name).join(file), text).unwrap();
                write("definition.json", pretty(&run.definition.document));
                write("genesis.json", pretty(&serde_json::to_value(&*run.genesis).unwrap()));
                write("events.jsonl", lines(&run_id, &run.events));
                write("snapshot.json", pretty(&shown(&run.definition, &run.genesis, &run.events)));
            }
            let kept = read(name);
            assert_eq!(kept.genesis, *run.genesis, "{name}");
            assert_eq!(kept.definition.digest, run.definition.digest, "{name}: the document is another one");
            assert!(
                kept.lines == lines(&run_id, &run.events),
                "{name}: the run now decides\n{}\nand not\n{}\nIf that is meant, keep the old folder under another \
                 name and run again with UPDATE_GOLDEN=1",
                lines(&run_id, &run.events),
                kept.lines,
            );
        }
    }
}

#[test]
fn a_recorded_log_folds_to_the_recorded_snapshot() {
    for name in names() {
        let kept = read(&name);
        assert_eq!(
            kept.genesis.definition, kept.definition.digest,
            "{name}: the run is pinned to its definition"
        );
        assert_eq!(shown(&kept.definition, &kept.genesis, &kept.events), kept.snapshot, "{name}");
        assert_eq!(lines(&kept.genesis.run_id, &kept.events), kept.lines, "{name}: bytes survive being read");
    }
}

#[test]
fn a_recorded_run_is_replayed_from_its_log() {
    let scenarios = SCENARIOS.iter().map(|scenario| scenario.name);
    for name in scenarios.chain(CHILDREN.iter().map(|(_, name, _)| *name)).chain(KEPT.iter().copied()) {
        let kept = read(name);
        let (run_id, now) = (kept.genesis.run_id.clone(), kept.events.last().unwrap().timestamp);
        let source = Source { run_id: &run_id, events: &kept.events };
        let genesis = Arc::new(kept.genesis.clone());
        let (state, decision) =
            replay(&kept.definition, genesis, source, 0, now, &Limits::default(), &|_: &WorkflowId| false);
        assert!(
            lines(&run_id, &decision.events) == kept.lines,
            "{name}: the replay decides\n{}\nand not\n{}",
            lines(&run_id, &decision.events),
            kept.lines
        );
        assert!(state.status.is_terminal(), "{name}: a recorded run has an end");
    }
}

/// Earlier versions derived the id of a child without the shard of its parent. Ids in a log are kept: in a replay, in recovery and in a
/// branch. Only a child that is not in the log gets an id in the shard of its parent.
#[test]
fn a_child_keeps_the_id_that_an_earlier_version_derived() {
    const PARENT: &str = "run_01a2b3c4d5e67ab0123456789abcdef0";
    let mut kept = read("sub-workflow");
    kept.lines =
        kept.lines.replace("\"r\"", &format!("\"{PARENT}\"")).replace("evt_r_", &format!("evt_{PARENT}_"));
    kept.events = kept.lines.lines().map(|line| wire::decode(line.as_bytes()).unwrap()).collect();
    kept.genesis.run_id = RunId::new(PARENT);
    let genesis = Arc::new(kept.genesis.clone());
    let (run_id, now) = (&genesis.run_id, kept.events.last().unwrap().timestamp);
    let dispatched = kept.events.iter().position(|event| event.kind() == EventKind::NodeDispatched).unwrap();
    let named = RunId::new(kept.events[dispatched].payload()["childRunId"].as_str().unwrap());
    assert_ne!(named.shard(), run_id.shard(), "an id of an earlier version");
    let source = Source { run_id, events: &kept.events };
    let known = |_: &WorkflowId| true;
    let limits = Limits::default();

    let (_, decision) = replay(&kept.definition, genesis.clone(), source, 0, now, &limits, &known);
    assert_eq!(lines(run_id, &decision.events), kept.lines, "a replay repeats it");

    let asked = |genesis: &Arc<Genesis>, events: &[Event], input: Input| -> Vec<RunId> {
        let mut state = RunState::fold(&kept.definition, genesis.clone(), events).unwrap();
        let decision = decide(&kept.definition, &mut state, input, now, &limits, &known).unwrap();
        let starts = decision.effects.into_iter().filter_map(|effect| match effect {
            Effect::StartChild(child) => Some(child.run_id),
            _ => None,
        });
        starts.collect()
    };
    assert_eq!(
        asked(&genesis, &kept.events[..=dispatched], Input::Recover),
        std::slice::from_ref(&named),
        "recovery"
    );
    let branch = Arc::new(Genesis { run_id: RunId::new("fork"), ..kept.genesis.clone() });
    let copied = source.copied(&branch.run_id, kept.events[dispatched].sequence + 1);
    assert_eq!(asked(&branch, &copied, Input::Fork), std::slice::from_ref(&named), "a branch");

    let new = asked(&genesis, &[], Input::Create);
    assert_eq!(new.iter().map(RunId::shard).collect::<Vec<_>>(), [run_id.shard()], "a new child");
    assert_ne!(new, [named]);
}

#[test]
fn every_folder_of_logs_belongs_to_a_scenario_or_is_kept() {
    let known: BTreeSet<&str> = SCENARIOS
        .iter()
        .map(|scenario| scenario.name)
        .chain(CHILDREN.iter().map(|(_, name, _)| *name))
        .chain(KEPT.iter().copied())
        .collect();
    let found = names();
    assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), known);
    let ends: BTreeSet<&str> = known
        .iter()
        .map(|name| match read(name).events.last().unwrap().kind() {
            EventKind::RunCompleted => "completed",
            EventKind::RunFailed => "failed",
            EventKind::RunCancelled => "cancelled",
            _ => "open",
        })
        .collect();
    assert_eq!(ends, ["cancelled", "completed", "failed"].into(), "each end of a run is recorded");
}
