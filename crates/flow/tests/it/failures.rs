//! Every failure code is produced, and has a page that starts with its name.

use std::collections::BTreeSet;
use std::path::Path;

use flow::engine::{GuideFailure, Input};
use flow::failure::FailureCode;
use flow::id::NodeId;
use flow::run::RunStatus;
use flow::state::RunError;
use serde_json::{Value, json};

use crate::driver::{World, workflow};

/// The error of a run with one node after an action.
fn failed(
    nodes: &[(&str, &str, Value)],
    edges: &[(&str, &str)],
    change: fn(&mut Value),
    drive: fn(&mut World),
) -> String {
    let mut document = workflow("w", nodes, edges);
    change(&mut document);
    let child = workflow("child", &[("f", "core.fail", json!({}))], &[]);
    let mut world = World::new(&[document, child]);
    world.create("w");
    drive(&mut world);
    assert_eq!(world.status(), RunStatus::Failed);
    world.snapshot("r")["error"]["code"].as_str().unwrap().to_owned()
}

fn guided() -> (&'static str, &'static str, Value) {
    ("n", "interlock.guided", json!({"workflow": "review"}))
}

/// Reports that a guided session failed.
fn refuse(world: &mut World, code: FailureCode) {
    let session_id = world.guides[0].session_id.clone();
    let error = RunError::of(code, "the host could not");
    let outcome = Err(GuideFailure::lasting(error));
    world.give("r", Input::GuideEnded { node_id: NodeId::new("n"), session_id, outcome }).unwrap();
}

#[test]
fn every_code_is_produced() {
    let none: fn(&mut Value) = |_| {};
    let still: fn(&mut World) = |_| {};
    let supervised = |plan: Value, config: Value| {
        vec![
            ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
            ("d", "core.dispatch", config),
        ]
    };
    let round = [("s", "d"), ("d", "s")];
    let next = |workers: &[&str]| json!({"kind": "next-worker", "nextWorkerIds": workers});
    let ask = json!({"kind": "ask-user", "prompt": "?"});
    let two = next(&["child", "child"]);
    let absorbing = json!({"fanOutPolicy": "parallel", "joinPolicy": {"mode": "first"}});
    let produced: BTreeSet<String> = [
        failed(
            &[("n", "core.noop", json!({})), ("l", "core.noop", json!({}))],
            &[("n", "l"), ("l", "n")],
            |document| {
                document["settings"]["maxLoopbackIterations"] = 100_000.into();
            },
            still,
        ),
        failed(
            &[("n", "core.delay", json!({"ms": 90}))],
            &[],
            |document| document["settings"]["timeout"] = 10.into(),
            |world| world.pass(10),
        ),
        failed(
            &supervised(json!([ask, ask, ask, ask, ask, ask, ask]), json!({})),
            &round,
            |document| {
                document["settings"]["maxLoopbackIterations"] = 1.into();
            },
            |world| {
                for _ in 0..2 {
                    world.resolve("d", json!({"content": "x"})).unwrap();
                }
            },
        ),
        failed(&supervised(json!([ask, ask, ask, ask]), json!({})), &round, none, |world| {
            for _ in 0..3 {
                world.resolve("d", json!({"content": "x"})).unwrap();
            }
        }),
        failed(
            &supervised(json!([two]), json!({"fanOutPolicy": "parallel", "iterationCap": 1})),
            &round,
            none,
            still,
        ),
        failed(&[("d", "core.dispatch", json!({}))], &[], none, still),
        failed(&supervised(json!([two]), json!({"fanOutPolicy": "reject"})), &round, none, still),
        failed(&[("n", "core.subWorkflow", json!({"workflowId": "unknown"}))], &[], none, still),
        failed(&[("n", "core.subWorkflow", json!({"workflowId": "child"}))], &[], none, still),
        failed(&supervised(json!([two]), absorbing), &round, none, still),
        failed(&[("n", "core.approvalGate", json!({}))], &[], none, |world| {
            world.resolve("n", json!({"action": "reject"})).unwrap();
        }),
        failed(
            &[(
                "n",
                "core.interrupt",
                json!({"kind": "custom", "data": {"customKind": "x"}, "timeoutMs": 5}),
            )],
            &[],
            none,
            |world| world.pass(5),
        ),
        failed(&[("n", "core.setVariable", json!({"name": "x"}))], &[], none, still),
        failed(&[("n", "core.conditional", json!({"expression": "1 +"}))], &[], none, still),
        failed(
            &[("n", "core.getVariable", json!({"name": "c"}))],
            &[],
            |document| {
                document["channels"] = json!({"c": {"reducer": "replace", "access": "private"}});
            },
            still,
        ),
        failed(&[("n", "conformance.requiresMissing", json!({}))], &[], none, still),
        failed(&[guided()], &[], none, |world| refuse(world, FailureCode::WorkspaceFailed)),
        failed(&[guided()], &[], none, |world| refuse(world, FailureCode::GuidedStartFailed)),
        failed(&[guided()], &[], none, |world| refuse(world, FailureCode::GuidedSessionLost)),
        failed(&[guided()], &[], none, |world| refuse(world, FailureCode::GuidedAgentFailed)),
    ]
    .into();
    // The tests of replays cover the first, those of the host the third, those of handoffs the last two. No version writes an event
    // that leads to the second.
    let elsewhere = [
        FailureCode::ReplaySourceMissing,
        FailureCode::NodeFailed,
        FailureCode::EffectOutcomeUnknown,
        FailureCode::HandoffTaskSchemaViolation,
        FailureCode::HandoffReturnSchemaViolation,
        // The tests of budgets cover these.
        FailureCode::DecisionBudgetExceeded,
        FailureCode::AppendLimitExceeded,
        FailureCode::RunSizeExceeded,
        FailureCode::PatternLimitExceeded,
    ];
    let missing: Vec<&FailureCode> = FailureCode::ALL
        .iter()
        .filter(|code| !produced.contains(code.as_str()) && !elsewhere.contains(code))
        .collect();
    assert!(missing.is_empty(), "{missing:?} of {produced:?}");
}

#[test]
fn every_code_has_a_page() {
    for code in FailureCode::ALL {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/failures/{code}.md"));
        let page = std::fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{code}: {cause}"));
        assert!(page.starts_with(&format!("# {code}\n\n")), "{code}: the title");
        assert!(page.contains("**What to do.**"), "{code}: what to do");
    }
}
