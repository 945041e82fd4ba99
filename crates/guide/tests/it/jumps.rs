//! Jumps back, compiled to counted loops (issue line 16).

use guide::record::{Autonomy, BlockerCode, EngineState, Preferences, RiskPolicy, RunId};
use guide::workflow::compiled::{LoopControl, SequenceItem};
use serde_json::{Value, json};

use crate::harness::{Call, Harness, plain, workflow};

fn jumping(id: &str, target: &str, key: &str, most: u32) -> Value {
    let mut step = plain(id);
    step["producesContext"] = json!({key: {"type": "boolean"}});
    step["jumpIf"] = json!({"condition": {"var": key, "equals": false}, "target": target, "maxJumps": most});
    step
}

fn steps() -> Value {
    json!([plain("plan"), plain("build"), jumping("try", "build", "works", 2), plain("report")])
}

/// Answers each step; the named ones with the next of these values.
fn answers<'a>(scripts: &'a [(&'a str, &'a str, &'a [bool])]) -> impl FnMut(&str) -> Call + 'a {
    let mut used = vec![0; scripts.len()];
    move |pending: &str| {
        let step = pending.rsplit("::").next().unwrap_or(pending);
        let step = step.rsplit('/').next().unwrap_or(step);
        match scripts.iter().position(|(id, ..)| pending.ends_with(id) || step == *id) {
            Some(place) => {
                let (_, key, values) = scripts[place];
                let value = values[used[place]];
                used[place] += 1;
                Call::context(json!({key: value}))
            }
            None => Call::nothing(),
        }
    }
}

/// The steps that were pending, without the loops around.
fn names(seen: &[String], known: &[&str]) -> Vec<String> {
    let name = |pending: &String| {
        let found = known.iter().filter(|name| pending.ends_with(**name)).max_by_key(|name| name.len());
        (*found.unwrap_or_else(|| panic!("{pending}"))).to_owned()
    };
    seen.iter().map(name).collect()
}

const KNOWN: [&str; 4] = ["plan", "build", "try", "report"];

#[test]
fn a_step_jumps_back_while_its_condition_holds() {
    for (values, expected) in [
        (vec![true], "plan build try report"),
        (vec![false, true], "plan build try build try report"),
        (vec![false, false, true], "plan build try build try build try report"),
    ] {
        let mut harness = Harness::start(workflow(steps()), json!({}), None);
        let script = [("try", "works", values.as_slice())];
        let (seen, _) = harness.walk(answers(&script));
        assert_eq!(names(&seen, &KNOWN).join(" "), expected, "{values:?}");
    }
}

#[test]
fn a_jump_is_an_ordinary_loop_of_the_compiled_workflow() {
    let compiled = workflow(steps());
    assert_eq!(compiled.loops.len(), 1);
    let looped = &compiled.loops[0];
    assert_eq!((looped.loop_id.as_str(), looped.max_iterations), ("try__jump", 3));
    assert!(matches!(looped.control, LoopControl::Condition { .. }));
    let body: Vec<&str> = looped
        .body
        .iter()
        .map(|item| match item {
            SequenceItem::Step { step_id } => step_id.as_str(),
            SequenceItem::Loop { loop_id } => loop_id.as_str(),
        })
        .collect();
    assert_eq!(body, ["build", "try"]);
    assert!(compiled.compiled_warnings.is_empty(), "{:?}", compiled.compiled_warnings);
    let text = serde_json::to_string(&compiled).unwrap();
    assert!(!text.contains("jumpIf"), "no new member is pinned: {text}");
}

/// Lock D9: a loop that wants to go on past its limit blocks, and a run that never stops records a critical gap.
#[test]
fn a_jump_past_the_limit_is_a_typed_block() {
    let blocked = |preferences: Option<Preferences>| {
        let mut harness = Harness::start(workflow(steps()), json!({}), preferences);
        let mut node = harness.root.clone();
        for _ in 0..7 {
            let call = match harness.pending(&node).unwrap().ends_with("try") {
                true => Call::context(json!({"works": false})),
                false => Call::nothing(),
            };
            node = harness.advance(&node, call);
        }
        (harness, node)
    };
    let (mut harness, node) = blocked(None);
    let EngineState::Blocked(state) = harness.snapshot(&node) else { panic!("{:?}", harness.pending(&node)) };
    let codes: Vec<BlockerCode> = state.blocked.blockers().blockers().iter().map(|one| one.code).collect();
    assert_eq!(codes, [BlockerCode::LoopLimitReached]);
    let blocker = state.blocked.blockers().blockers()[0].clone();
    let title = &harness.workflow.loops[0].title;
    assert_eq!(blocker.message, format!("The loop \"{title}\" has run 3 passes; the limit is 3."));
    let fix = blocker.suggested_fix.unwrap();
    assert!(fix.contains("because this holds: works is false. Do not report what is not true"), "{fix}");
    let node = harness.advance(&node, Call::context(json!({"works": true})));
    assert_eq!(harness.pending(&node).as_deref(), Some("report"), "the key decides, and not the limit");

    let never = Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Conservative };
    let (harness, node) = blocked(Some(never));
    assert_eq!(harness.pending(&node).as_deref(), Some("report"));
    let run: &RunId = &harness.state.runs()[0].id;
    let run = harness.state.run(run).unwrap();
    assert_eq!(harness.state.gaps_of_run(run).count(), 1);
}

#[test]
fn jumps_contain_each_other_and_other_loops() {
    let body = json!([jumping("again", "again", "enough", 3)]);
    let looped = json!({
        "id": "rounds", "type": "loop", "title": "Rounds", "loop": {"type": "for", "count": 2, "maxIterations": 2}, "body": body,
    });
    let steps = json!([
        plain("plan"),
        looped,
        jumping("check", "rounds", "fine", 1),
        jumping("judge", "plan", "good", 1),
        plain("report"),
    ]);
    let mut harness = Harness::start(workflow(steps), json!({}), None);
    let known = ["plan", "again", "check", "judge", "report"];
    let script = [
        ("again", "enough", [true, false, true, true, true, true, true].as_slice()),
        ("check", "fine", [false, true, true].as_slice()),
        ("judge", "good", [false, true].as_slice()),
    ];
    let (seen, _) = harness.walk(answers(&script));
    let expected = "plan again again again check again again check judge plan again again check judge report";
    assert_eq!(names(&seen, &known).join(" "), expected);
}
