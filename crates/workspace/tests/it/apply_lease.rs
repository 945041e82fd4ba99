//! The lease table.

use serde_json::{Value, json};
use workspace::Code;
use workspace::Error;
use workspace::apply::{ApplyReport, ApplyRequest, LeaseReason, LeaseScope, LeaseState, Status};

use crate::apply_support::{NOW, Plan, World, text};

fn run(id: &str) -> Value {
    json!({"runId": id, "jobRunId": "job"})
}

fn session(id: &str) -> Value {
    json!({"sessionId": id})
}

fn apply(world: &World, plan: &Plan, turn_gen: u64, now: u64) -> Result<ApplyReport, Error> {
    let valid = plan.valid();
    let scope = LeaseScope::of(&valid, turn_gen);
    world.applier().apply(&ApplyRequest::new(&valid, &scope, "test"), &world.resolver(), now, &())
}

#[test]
fn the_table_of_leases() {
    // case 47 is the row of another session
    use LeaseReason::{Expired, PlanChanged, Renewed, Superseded};
    let base = Plan::base;
    let later = NOW + 900_000;
    type Row = (&'static str, (Plan, u64), (Plan, u64, u64), Result<(Status, LeaseReason, u64), Code>);
    let rows: Vec<Row> = vec![
        ("the same", (base(), 0), (base(), 0, NOW + 1), Ok((Status::Cached, Renewed, 1))),
        ("another plan", (base(), 0), (base().skill("a"), 0, NOW + 1), Ok((Status::Applied, PlanChanged, 2))),
        (
            "another request of the run",
            (base(), 0),
            (base().id('b'), 0, NOW + 1),
            Ok((Status::Applied, Superseded, 2)),
        ),
        ("another run", (base(), 0), (base().id('b').scope(run("run2")), 0, NOW + 1), Err(Code::LeaseHeld)),
        ("a session", (base(), 0), (base().id('b').scope(session("s")), 0, NOW + 1), Err(Code::LeaseHeld)),
        (
            "a later turn",
            (base().scope(session("s")), 3),
            (base().id('b').scope(session("s")), 4, NOW + 1),
            Ok((Status::Applied, Superseded, 2)),
        ),
        (
            "the same turn",
            (base().scope(session("s")), 3),
            (base().id('b').scope(session("s")), 3, NOW + 1),
            Ok((Status::Applied, Superseded, 2)),
        ),
        (
            "an earlier turn",
            (base().scope(session("s")), 3),
            (base().id('b').scope(session("s")), 2, NOW + 1),
            Err(Code::LeaseStaleGeneration),
        ),
        (
            "another session",
            (base().scope(session("s")), 3),
            (base().id('b').scope(session("t")), 9, NOW + 1),
            Err(Code::LeaseHeld),
        ),
        (
            "just before it expires",
            (base(), 0),
            (base().id('b').scope(run("run2")), 0, later - 1),
            Err(Code::LeaseHeld),
        ),
        (
            "expired",
            (base(), 0),
            (base().id('b').scope(run("run2")), 0, later),
            Ok((Status::Applied, Expired, 2)),
        ),
        ("expired, the same", (base(), 0), (base(), 0, later), Ok((Status::Applied, Expired, 2))),
    ];
    for (name, (first, turn), (second, second_turn, now), expected) in rows {
        let world = World::in_memory();
        world.memory.set("skill:a", &[("SKILL.md", text("a"))]);
        apply(&world, &first, turn, NOW).unwrap();
        world.write("tmp/mine", "mine");
        let before = world.tree();
        let outcome = apply(&world, &second, second_turn, now);
        match expected {
            Ok(expected) => {
                let report = outcome.unwrap();
                assert_eq!((report.status, report.lease_reason, report.generation), expected, "{name}");
                let lease = world.applier().lease().unwrap().unwrap();
                assert_eq!((lease.state, lease.generation), (LeaseState::Active, expected.2), "{name}");
            }
            Err(code) => {
                assert_eq!(outcome.unwrap_err().code(), code, "{name}");
                assert_eq!(world.tree(), before, "{name}");
            }
        }
        assert_eq!(world.read("tmp/mine").as_deref(), Some("mine"), "{name}: what the agent wrote is kept");
    }
}

#[test]
fn a_renewed_lease_lasts_longer() {
    let world = World::in_memory();
    apply(&world, &Plan::base(), 0, NOW).unwrap();
    apply(&world, &Plan::base(), 0, NOW + 800_000).unwrap();
    let other = Plan::base().id('b').scope(run("run2"));
    assert_eq!(apply(&world, &other, 0, NOW + 1_600_000).unwrap_err().code(), Code::LeaseHeld);
    assert!(apply(&world, &other, 0, NOW + 1_700_000).is_ok());
}

#[test]
fn a_released_workspace_is_free() {
    let world = World::in_memory();
    let id = "a".repeat(64);
    let applier = world.applier();
    assert_eq!(applier.release(&id, 1, NOW).unwrap_err().code(), Code::LeaseNotFound, "nothing was applied");
    apply(&world, &Plan::base(), 0, NOW).unwrap();
    world.write("tmp/mine", "mine");
    assert_eq!(applier.release(&"b".repeat(64), 1, NOW).unwrap_err().code(), Code::LeaseNotFound);
    assert_eq!(applier.release(&id, 2, NOW).unwrap_err().code(), Code::LeaseStaleGeneration);
    assert_eq!(applier.release(&id, 1, NOW).unwrap().state, LeaseState::Released);
    let report = apply(&world, &Plan::base().id('b').scope(run("run2")), 0, NOW + 1).unwrap();
    assert_eq!((report.status, report.lease_reason), (Status::Applied, LeaseReason::Released));
    assert_eq!(world.read("tmp/mine").as_deref(), Some("mine"));
}

#[test]
fn the_previous_lease_is_kept_with_the_current_one() {
    let world = World::in_memory();
    apply(&world, &Plan::base(), 0, NOW).unwrap();
    apply(&world, &Plan::base().id('b'), 0, NOW + 1).unwrap();
    let file: Value = serde_json::from_str(&world.read(".interlock/lease.json").unwrap()).unwrap();
    assert_eq!(file["previous"]["state"], "superseded");
    assert_eq!(file["previous"]["generation"], 1);
    assert_eq!(file["lease"]["state"], "active");
}
