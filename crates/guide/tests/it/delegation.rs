//! Delegation (finding G3): a delegating step is accepted only when its child sessions are complete.

use guide::delegation::ChildHandle;
use guide::engine::EngineError;
use guide::record::{
    Autonomy, Block, Blocker, BlockerCode, EngineState, GapSeverity, NodeId, Preferences, RiskPolicy,
};
use guide::verification::{ChildStatus, DelegationResult, Verification};
use serde_json::{Value, json};

use crate::harness::{Call, Harness, plain, workflow};

const NEVER_STOP: Preferences =
    Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Conservative };

fn delegating() -> Value {
    json!([
        {"id": "hand-out", "type": "parallel", "title": "Hand out", "parallelDelegations": [
            {"workflowId": "project.lens", "goal": "Look at {{goal}}", "args": {"lens": "a"}},
            {"workflowId": "project.lens", "runCondition": {"var": "deep", "equals": true}},
            {"workflowId": "project.other", "contextMapping": {"goal": "topic"}},
        ]},
        plain("report"),
    ])
}

fn counted(harness: &Harness, node: &NodeId, statuses: &[(usize, ChildStatus)]) -> Verification {
    let parent = harness.state.session_id().clone();
    let result = |(index, status): &(usize, ChildStatus)| DelegationResult {
        index: *index,
        workflow_id: "project.lens".to_owned(),
        session_id: ChildHandle { parent: parent.clone(), node: node.clone(), index: *index }.session_id(),
        status: *status,
    };
    Verification { delegations: statuses.iter().map(result).collect(), ..Verification::default() }
}

fn blockers(harness: &Harness, node: &NodeId) -> Vec<Blocker> {
    let EngineState::Blocked(state) = harness.snapshot(node) else { return Vec::new() };
    let (Block::RetryableBlock { blockers, .. } | Block::TerminalBlock { blockers, .. }) = &state.blocked;
    blockers.blockers().to_vec()
}

#[test]
fn a_delegating_step_waits_for_every_child() {
    use ChildStatus as S;
    for (name, statuses, open) in [
        ("none was started", [S::NotStarted, S::NotStarted], 2),
        ("one is at work", [S::Complete, S::InProgress], 1),
        ("one is blocked", [S::Blocked, S::Complete], 1),
        ("one cannot be read", [S::Complete, S::Unreadable], 1),
        ("all are complete", [S::Complete, S::CompleteWithGaps], 0),
    ] {
        for preferences in [None, Some(NEVER_STOP)] {
            let mut harness = Harness::start(workflow(delegating()), json!({}), preferences);
            let root = harness.root.clone();
            let wanted = harness.wanted(&root, Call::notes("Done.")).unwrap().unwrap();
            let indexes: Vec<usize> = wanted.delegations.iter().map(|(index, _)| *index).collect();
            assert_eq!(indexes, [0, 2], "{name}: the condition of the second does not hold");
            let verification = counted(&harness, &root, &[(0, statuses[0]), (2, statuses[1])]);
            let call = Call { verification: Some(verification), ..Call::notes("All of them answered.") };
            let node = harness.advance(&root, call);
            let found = blockers(&harness, &node);
            if open == 0 || preferences.is_some() {
                assert_eq!(harness.pending(&node).as_deref(), Some("report"), "{name}: {found:?}");
                let run = harness.state.run(&harness.state.node(&node).unwrap().run_id).unwrap();
                let gaps: Vec<_> = harness.state.gaps_of_run(run).map(|gap| gap.severity).collect();
                assert_eq!(gaps, vec![GapSeverity::Critical; usize::from(open > 0)], "{name}");
            } else {
                assert_eq!(found.len(), 1, "{name}: {found:?}");
                assert_eq!(found[0].code, BlockerCode::MissingRequiredOutput, "{name}");
                let says = format!("{open} of 2 delegated runs are not complete");
                assert!(found[0].message.contains(&says), "{name}: {}", found[0].message);
            }
        }
    }
}

/// If the attempt itself makes the condition of a delegation true, that child is required too.
#[test]
fn the_context_after_the_attempt_decides_what_is_delegated() {
    let harness = Harness::start(workflow(delegating()), json!({}), None);
    let root = harness.root.clone();
    let call = Call { notes: Some("Done."), ..Call::context(json!({"deep": true})) };
    assert_eq!(harness.wanted(&root, call).unwrap().unwrap().delegations.len(), 3);
}

fn for_each() -> Value {
    json!([
        {"id": "each", "type": "loop", "title": "Each file",
         "loop": {"type": "forEach", "items": "files", "itemVar": "file", "maxIterations": 3, "parallel": true},
         "body": [{"id": "review", "type": "parallel", "title": "Review", "parallelDelegations": [
            {"workflowId": "project.lens", "goal": "Review {{file.name}}", "contextMapping": {"file.name": "path", "currentIndex": "number"},
             "runCondition": {"var": "file.skip", "not_equals": true}}]}]},
        plain("report"),
    ])
}

/// A parallel `forEach` is one pending step with one run for each item (issue line 16).
#[test]
fn a_parallel_for_each_hands_out_one_run_for_each_item() {
    let compiled = workflow(for_each());
    assert!(compiled.loops.is_empty(), "only the step that waits for all runs is left");
    let files = json!({"files": [{"name": "a.rs"}, {"name": "b.rs", "skip": true}, {"name": "c.rs"}]});
    let mut harness = Harness::start(compiled, files, None);
    let root = harness.root.clone();
    assert_eq!(harness.pending(&root).as_deref(), Some("review"));
    let wanted = harness.wanted(&root, Call::notes("Done.")).unwrap().unwrap();
    let places: Vec<usize> = wanted.delegations.iter().map(|(index, _)| *index).collect();
    assert_eq!(places, [0, 2], "the condition is about the item");
    let prompt = harness.prompt(&root);
    let says =
        "2. Workflow `project.lens`.\n   Goal: Review c.rs\n   Context: `{\"number\":2,\"path\":\"c.rs\"}`";
    assert!(prompt.contains(says), "{prompt}");
    let statuses = [(0, ChildStatus::Complete), (2, ChildStatus::Complete)];
    let verification = counted(&harness, &root, &statuses);
    let call = Call { verification: Some(verification), ..Call::notes("All of them answered.") };
    let node = harness.advance(&root, call);
    assert_eq!(harness.pending(&node).as_deref(), Some("report"));
}

#[test]
fn a_parallel_for_each_is_blocked_without_a_list_within_its_limit() {
    let four = json!({"files": [{}, {}, {}, {}]});
    for (context, says) in [
        (json!({}), "which is not a list"),
        (json!({"files": "a.rs"}), "which is not a list"),
        (four, "has 4 items; the limit of the step is 3"),
    ] {
        let mut harness = Harness::start(workflow(for_each()), context, None);
        let root = harness.root.clone();
        let node = harness.advance(&root, Call::notes("Done."));
        let found = blockers(&harness, &node);
        assert_eq!((found.len(), found[0].code), (1, BlockerCode::MissingContextKey), "{found:?}");
        assert!(found[0].message.contains(says), "{}", found[0].message);
        // An empty list hands out nothing, and the step passes.
        let call = Call { notes: Some("Nothing to do."), ..Call::context(json!({"files": []})) };
        let node = harness.advance(&node, call);
        assert_eq!(harness.pending(&node).as_deref(), Some("report"));
    }
}

fn finished(harness: &Harness, node: &NodeId, indexes: &[usize]) -> Option<Verification> {
    let statuses: Vec<_> = indexes.iter().map(|index| (*index, ChildStatus::Complete)).collect();
    Some(counted(harness, node, &statuses))
}

/// Bug 5 (finding G3): the list is fixed when it is handed out. A call that replaces it records nothing.
#[test]
fn g3_a_handed_out_list_cannot_be_replaced() {
    let files = json!({"files": [{"name": "a.rs"}, {"name": "b.rs"}]});
    for (name, other) in [
        ("empty", json!({"files": []})),
        ("other items", json!({"files": [{"name": "x.rs"}, {"name": "y.rs"}]})),
        ("missing", json!({"files": null})),
    ] {
        for preferences in [None, Some(NEVER_STOP)] {
            let mut harness = Harness::start(workflow(for_each()), files.clone(), preferences);
            let root = harness.root.clone();
            let verification = finished(&harness, &root, &[0, 1]);
            let call = Call { notes: Some("All of them."), verification, ..Call::context(other.clone()) };
            let refused = harness.try_advance(&root, call).unwrap_err();
            assert_eq!(refused, EngineError::HandedOutList { key: "files".to_owned() }, "{name}");
            assert!(
                harness.wanted(&root, Call { notes: Some("All."), ..Call::context(other.clone()) }).is_err()
            );
            // The same list again changes nothing.
            let verification = finished(&harness, &root, &[0, 1]);
            let call = Call { notes: Some("All of them."), verification, ..Call::context(files.clone()) };
            let node = harness.advance(&root, call);
            assert_eq!(harness.pending(&node).as_deref(), Some("report"), "{name}");
        }
    }
}

/// Bug 5: another branch changes the list of the run, but not what was handed out before.
#[test]
fn g3_the_list_of_another_branch_does_not_change_what_was_handed_out() {
    let mut steps = for_each();
    steps.as_array_mut().unwrap().insert(0, plain("list"));
    let mut harness = Harness::start(workflow(steps), json!({}), None);
    let root = harness.root.clone();
    let one = harness.advance(&root, Call::context(json!({"files": [{"name": "a.rs"}, {"name": "b.rs"}]})));
    let two = harness.advance(&root, Call::context(json!({"files": []})));
    assert!(harness.prompt(&one).contains("Goal: Review b.rs"), "{}", harness.prompt(&one));
    let wanted = harness.wanted(&one, Call::notes("Done.")).unwrap().unwrap();
    assert_eq!(wanted.delegations.len(), 2, "the runs of this branch");
    assert_eq!(harness.wanted(&two, Call::notes("Done.")).unwrap(), None, "its list was empty");
}

/// Bug 5: a list that comes with a blocked attempt is handed out with its reply, and fixed from then on.
#[test]
fn g3_a_list_that_comes_later_is_fixed_by_the_attempt_that_sent_it() {
    let mut harness = Harness::start(workflow(for_each()), json!({}), None);
    let root = harness.root.clone();
    let call = || Call { notes: Some("Done."), ..Call::context(json!({"files": [{"name": "a.rs"}]})) };
    let verification = Some(counted(&harness, &root, &[(0, ChildStatus::NotStarted)]));
    let node = harness.advance(&root, Call { verification, ..call() });
    assert_eq!(blockers(&harness, &node)[0].code, BlockerCode::MissingRequiredOutput);
    let empty = Call { notes: Some("Nothing to do."), ..Call::context(json!({"files": []})) };
    let refused = harness.try_advance(&node, empty).unwrap_err();
    assert_eq!(refused, EngineError::HandedOutList { key: "files".to_owned() });
}

/// Bug 5: a delegation that was handed out stays when its condition changes.
#[test]
fn g3_a_handed_out_delegation_stays() {
    let harness = Harness::start(workflow(delegating()), json!({"deep": true}), None);
    let root = harness.root.clone();
    let call = Call { notes: Some("Done."), ..Call::context(json!({"deep": false})) };
    assert_eq!(harness.wanted(&root, call).unwrap().unwrap().delegations.len(), 3);
}

#[test]
fn the_prompt_says_how_to_delegate_and_what_to_do_without_subagents() {
    let harness = Harness::start(workflow(delegating()), json!({}), None);
    let prompt = harness.prompt(&harness.root);
    for says in [
        "delegate these 2 tasks to subagents IN PARALLEL, all in one response",
        "If you cannot start subagents, do the same work yourself",
        "1. Workflow `project.lens`.\n   Goal: Look at test\n   Context: `{\"lens\":\"a\"}`",
        "2. Workflow `project.other`.\n   Context: `{\"topic\":\"test\"}`",
    ] {
        assert!(prompt.contains(says), "{says}: {prompt}");
    }
}
