//! Compares the whole engine with a naive model: a run of counted loops is its unrolled list of steps, and a
//! node is a position in that list.

use guide::project::preferred_tip;
use guide::record::{Autonomy, EngineState, NodeId, Preferences, RiskPolicy};
use guide::state::SessionState;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::{Call, Harness, workflow};

/// The prefix of the ids of steps that the user must approve.
const CONFIRMED: &str = "confirmed-";

/// A part of a workflow.
#[derive(Clone, Debug)]
enum Part {
    Step,
    /// A step that the user must approve.
    Confirmed,
    Times(u32, Vec<Part>),
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let leaf = prop_oneof![3 => Just(Part::Step), 1 => Just(Part::Confirmed)];
    let part = leaf.prop_recursive(3, 12, 3, |inner| {
        (0..=3_u32, prop::collection::vec(inner, 1..=3)).prop_map(|(count, parts)| Part::Times(count, parts))
    });
    prop::collection::vec(part, 1..=4)
}

/// The source of the parts, and the unrolled list of their step instances.
fn build(parts: &[Part]) -> (Value, Vec<String>) {
    let mut number = 0;
    let steps = source(parts, &mut number);
    let mut unrolled = Vec::new();
    unroll(&steps, "", &mut unrolled);
    // So that a step can always run.
    let mut steps = steps;
    steps.push(json!({"id": "end", "title": "End", "prompt": "End."}));
    unrolled.push("end".to_owned());
    (Value::Array(steps), unrolled)
}

fn source(parts: &[Part], number: &mut u32) -> Vec<Value> {
    parts
        .iter()
        .map(|part| {
            *number += 1;
            let id = format!("part-{number}");
            match part {
                Part::Step => json!({"id": id, "title": id, "prompt": "Do it."}),
                // The name tells the model that the step needs approval.
                Part::Confirmed => {
                    let id = format!("{CONFIRMED}{number}");
                    json!({"id": id, "title": id, "prompt": "Do it.", "requireConfirmation": true})
                }
                Part::Times(count, body) => json!({
                    "id": id, "type": "loop", "title": id,
                    "loop": {"type": "for", "count": count, "maxIterations": 5},
                    "body": source(body, number),
                }),
            }
        })
        .collect()
}

fn unroll(steps: &[Value], path: &str, unrolled: &mut Vec<String>) {
    for step in steps {
        let id = step["id"].as_str().unwrap();
        match step["loop"]["count"].as_u64() {
            None if path.is_empty() => unrolled.push(id.to_owned()),
            None => unrolled.push(format!("{path}::{id}")),
            Some(count) => {
                for iteration in 0..count {
                    let outer = if path.is_empty() { String::new() } else { format!("{path}/") };
                    let body = step["body"].as_array().unwrap();
                    unroll(body, &format!("{outer}{id}@{iteration}"), unrolled);
                }
            }
        }
    }
}

/// The next action, and the node that it applies to.
#[derive(Clone, Copy, Debug)]
enum Action {
    Advance(u16),
    AdvanceWithoutNotes(u16),
    AdvanceWithoutAnswer(u16),
    Checkpoint(u16),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        6 => any::<u16>().prop_map(Action::Advance),
        2 => any::<u16>().prop_map(Action::AdvanceWithoutNotes),
        2 => any::<u16>().prop_map(Action::AdvanceWithoutAnswer),
        1 => any::<u16>().prop_map(Action::Checkpoint),
    ];
    prop::collection::vec(action, 0..=40)
}

fn autonomy() -> impl Strategy<Value = Autonomy> {
    prop_oneof![
        Just(Autonomy::Guided),
        Just(Autonomy::FullAutoStopOnUserDeps),
        Just(Autonomy::FullAutoNeverStop)
    ]
}

/// The arguments of an advance. An answer that is not needed is allowed.
fn call(with_notes: bool, with_answer: bool) -> Call {
    let answer = json!({"kind": "wr.user_answer", "dependencyId": "confirmation", "answeredBy": "user",
        "outcome": "given", "answer": "yes"});
    let artifacts = if with_answer { vec![answer] } else { Vec::new() };
    Call { notes: with_notes.then_some("done"), artifacts, ..Call::nothing() }
}

/// A node in the model.
struct ModelNode {
    node: NodeId,
    step: usize,
    blocked: usize,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn the_engine_follows_the_unrolled_list(parts in parts(), actions in actions(), autonomy in autonomy()) {
        let (steps, unrolled) = build(&parts);
        let preferences = Preferences { autonomy, risk_policy: RiskPolicy::Conservative };
        let mut run = Harness::start(workflow(steps), json!({}), Some(preferences));
        let mut places = vec![ModelNode { node: run.root.clone(), step: 0, blocked: 0 }];
        let mut open_gaps = 0;
        for action in actions {
            // Mostly the newest node, sometimes an older one: a fork.
            let (Action::Advance(number)
            | Action::AdvanceWithoutNotes(number)
            | Action::AdvanceWithoutAnswer(number)
            | Action::Checkpoint(number)) = action;
            let from = if number % 4 == 0 { usize::from(number) % places.len() } else { places.len() - 1 };
            let (node, step, blocked) = (places[from].node.clone(), places[from].step, places[from].blocked);
            let is_confirmed = unrolled
                .get(step)
                .is_some_and(|key| key.rsplit("::").next().is_some_and(|id| id.starts_with(CONFIRMED)));
            let (call, missing) = match action {
                Action::Checkpoint(_) => {
                    let node = run.checkpoint(&node, None);
                    places.push(ModelNode { node, step, blocked });
                    continue;
                }
                Action::Advance(_) => (call(true, true), 0),
                Action::AdvanceWithoutNotes(_) => (call(false, true), 1),
                Action::AdvanceWithoutAnswer(_) => (call(true, false), u32::from(is_confirmed)),
            };
            let stops = missing > 0 && autonomy != Autonomy::FullAutoNeverStop;
            let made = match run.try_advance(&node, call) {
                Err(error) => {
                    prop_assert!(step == unrolled.len() || (stops && blocked == 10), "{error}");
                    continue;
                }
                Ok(node) if stops => ModelNode { node, step, blocked: blocked + 1 },
                Ok(node) => {
                    open_gaps += missing;
                    ModelNode { node, step: step + 1, blocked: 0 }
                }
            };
            prop_assert_eq!(run.pending(&made.node), unrolled.get(made.step).cloned());
            prop_assert_eq!(matches!(run.snapshot(&made.node), EngineState::Blocked(_)), made.blocked > 0);
            prop_assert_eq!(run.snapshot(&made.node).is_complete(), made.step == unrolled.len());
            places.push(made);
        }
        let again = SessionState::fold(run.state.session_id().clone(), &run.events).unwrap();
        prop_assert_eq!(&again, &run.state, "the state follows from the log");
        prop_assert_eq!(run.state.runs()[0].open_critical_gaps, open_gaps, "every missing answer is disclosed");
        let newest = places.last().unwrap();
        let tip = preferred_tip(&run.state, &run.state.runs()[0]).unwrap();
        prop_assert_eq!(&tip.id, &newest.node, "the tip is the node of the last activity");
    }
}
