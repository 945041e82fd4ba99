//! The host dies at every commit of every kind of work: with the commit lost, and with the commit made but not acknowledged. The next
//! host loses nothing that was acknowledged, repeats nothing, and completes everything.

mod client;
mod executors;
mod models;
mod mortal;
mod receiver;
mod scenarios;
mod tools;
mod triggers;

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use flow::id::{RunId, Tenant};
use ports::runs::RunFilter;
use ports::runs::prelude::*;
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use self::client::Client;
use self::mortal::{Death, live};
use self::receiver::Receiver;
use self::scenarios::{Playing, Scenario, Scene};
use super::{Setup, caller, open};
use crate::wait::Wait as _;

fn setup() -> Setup {
    Setup { outbound: outbound::Client::new(outbound::Reach::Loopback), ..Setup::default() }
}

/// A folder in memory, if available: only the process dies and not the machine, so the disk does not matter.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

/// A database with the workflows, to be copied.
fn prepared() -> TempDir {
    let folder = folder();
    let all = super::workflows().into_iter().chain(scenarios::workflows());
    live(folder.path(), None, setup(), async |runs, _| {
        for workflow in all {
            runs.definitions().register(&caller("acme"), &workflow).await.unwrap();
        }
    });
    folder
}

fn copied(from: &Path) -> TempDir {
    let folder = folder();
    // The WAL of SQLite belongs to the database.
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    folder
}

/// Plays a scenario with one more process than deaths. Returns the number of commits of the first process.
fn play(scenario: &Scenario, from: &Path, receiver: &Receiver, deaths: &[Death]) -> usize {
    let folder = copied(from);
    let mut client = Client::default();
    let mut first = None;
    for death in deaths.iter().copied().map(Some).chain([None]) {
        let commits = live(folder.path(), death, setup(), async |runs, store| {
            let client = &mut client;
            (scenario.play)(Scene { client, runs, store, receiver }).await;
        });
        first.get_or_insert(commits);
    }
    // A last host, without a client, completes what the previous one had started.
    live(folder.path(), None, setup(), async |_, store| {
        while !store.open_runs(None, 1).wait().unwrap().is_empty()
            || store.next_timer().wait().unwrap().is_some()
            || store.next_delivery().wait().unwrap().is_some()
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    check(scenario, folder.path(), &client);
    first.unwrap_or_default()
}

/// The invariants of a database, whatever happened to its writers.
fn check(scenario: &Scenario, folder: &Path, client: &Client) {
    let database = Connection::open(folder.join("runs.sqlite3")).unwrap();
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, usize>(0)).unwrap();
    let made = count("SELECT count(*) FROM runs");
    assert!(scenario.runs.contains(&made), "{made} runs: one is lost, or made twice");
    assert_eq!(count("SELECT count(*) FROM answers"), client.answers(), "one answer for each key");
    assert_eq!(count("SELECT count(*) FROM timers"), 0, "nothing is left to be done");
    assert_eq!(count("SELECT count(*) FROM deliveries"), 0);
    let unfinished = "SELECT count(*) FROM (SELECT id FROM activities GROUP BY id HAVING count(outcome) = 0)";
    assert_eq!(count(unfinished), 0, "no effect is left open");
    let effects = count("SELECT count(DISTINCT id) FROM activities");
    assert_eq!(effects, scenario.effects, "no effect is made under two ids");
    let (runs, store) = open(folder, Setup::default());
    let by = caller("acme");
    for snapshot in runs.queries().list(&by, &RunFilter::default(), 100).wait().unwrap().runs {
        let snapshot: Value = serde_json::from_slice(&snapshot).unwrap();
        let log = super::events(&runs, "acme", &RunId::new(snapshot["runId"].as_str().unwrap()));
        check_log(&log);
        let end = log.last().unwrap()["type"].as_str().unwrap();
        assert_eq!(snapshot["status"], end.strip_prefix("run.").unwrap(), "{end}");
    }
    let creations = store.audit(&Tenant::new("acme"), 0, 1 << 40, 1000).wait().unwrap();
    let creations =
        creations.iter().filter(|entry| String::from_utf8_lossy(&entry.entry).contains("run.create"));
    let asked_for =
        count("SELECT count(*) FROM runs WHERE parent_run_id IS NULL AND genesis NOT LIKE '%sourceRunId%'");
    assert_eq!(creations.count(), asked_for, "one entry for each creation");
    assert!(runs.audit().verify(&by, None, None).wait().unwrap().is_chain_valid);
}

/// Sequence numbers without gaps, one end, and no end of a node without its start.
fn check_log(log: &[Value]) {
    let reported: Vec<_> =
        log.iter().map(|event| (event["type"].as_str().unwrap(), &event["nodeId"])).collect();
    let sequences = log.iter().map(|event| event["sequence"].as_u64().unwrap());
    assert!(sequences.eq(0..log.len() as u64), "{reported:?}");
    let (mut under_way, mut resolved) = (Vec::new(), Vec::new());
    for (place, (event, (kind, node))) in log.iter().zip(&reported).enumerate() {
        match *kind {
            "run.started" => assert_eq!(place, 0, "{reported:?}"),
            "run.completed" | "run.failed" | "run.cancelled" => {
                assert_eq!(place, log.len() - 1, "{reported:?}");
            }
            "node.started" => under_way.push(node),
            "node.completed" => {
                let begun = under_way.iter().position(|begun| begun == &node);
                under_way.swap_remove(begun.unwrap_or_else(|| panic!("{node} ended twice: {reported:?}")));
            }
            "interrupt.resolved" => {
                let interrupt = &event["payload"]["interruptId"];
                assert!(!resolved.contains(&interrupt), "{interrupt} was resolved twice: {reported:?}");
                resolved.push(interrupt);
            }
            _ => {}
        }
    }
}

/// Kills the host at every commit of the scenario, and the next host at its first.
#[expect(clippy::print_stderr, reason = "where it died is what matters when it fails")]
fn survive(scenario: &Scenario) {
    static BASE: OnceLock<TempDir> = OnceLock::new();
    let (base, receiver) = (BASE.get_or_init(prepared).path(), Receiver::start());
    let commits = play(scenario, base, &receiver, &[]);
    assert!(commits > 0);
    for (at, made) in (1..=commits).flat_map(|at| [(at, false), (at, true)]) {
        for again in [false, true] {
            let second = again.then_some(Death { at: 1, made: !made });
            let deaths: Vec<Death> = [Death { at, made }].into_iter().chain(second).collect();
            eprintln!("{deaths:?}");
            play(scenario, base, &receiver, &deaths);
        }
    }
}

/// A test for each scenario, with its numbers of runs and effects.
macro_rules! survives {
    ($($name:ident: $play:ident, $runs:expr, $effects:literal;)+) => {
        $(
            #[test]
            fn $name() {
                let play: for<'a> fn(Scene<'a>) -> Playing<'a> = |scene| Box::pin(scenarios::$play(scene));
                survive(&Scenario { runs: $runs, effects: $effects, play });
            }
        )+
    };
}

survives! {
    a_run_that_ends_at_once_survives: at_once, 1..=1, 0;
    an_approval_survives: approval, 1..=1, 0;
    a_timer_survives: timer, 1..=1, 0;
    effects_are_made_once: effects, 1..=1, 2;
    a_child_and_its_parent_survive: child, 2..=2, 0;
    workers_that_lost_the_race_are_cancelled: race, 2..=4, 0;
    a_cancelled_parent_takes_its_child_along: cancelled_parent, 2..=2, 0;
    a_halt_survives: halt, 1..=1, 0;
    forks_survive: forks, 3..=3, 0;
    subscribers_get_every_event: subscription, 1..=1, 0;
    a_definition_and_a_note_survive: definition_and_note, 1..=1, 0;
    many_that_were_cancelled_at_once_stay_so: many_cancelled, 2..=2, 0;
}
