use serde_json::json;

use super::recap::{ancestor_recap, branch_summary};
use super::summary::{session_summary, title};
use super::*;
use crate::record::{Autonomy, Preferences, RiskPolicy};
use crate::record::{EventData, NodeKind, OutputChannel, PreferenceChange, PreferenceSource};
use crate::state::testing::Log;

fn never_stop(log: &mut Log, node: usize) {
    let effective =
        Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Conservative };
    let delta = vec![PreferenceChange::Autonomy(Autonomy::FullAutoNeverStop)];
    let data = EventData::PreferencesChanged {
        change_id: "c".to_owned(),
        source: PreferenceSource::User,
        delta,
        effective,
    };
    log.push(log.at(node), data);
}

#[test]
fn run_status_by_situation() {
    type Scenario = fn(&mut Log);
    let cases: &[(&str, Scenario, RunStatus)] = &[
        ("just started", |_| {}, RunStatus::InProgress),
        ("advanced", |log| _ = log.advance(0, NodeKind::Step), RunStatus::InProgress),
        ("blocked", |log| _ = log.advance(0, NodeKind::BlockedAttempt), RunStatus::Blocked),
        (
            "blocked, then a checkpoint",
            |log| {
                let blocked = log.advance(0, NodeKind::BlockedAttempt);
                log.checkpoint(blocked);
            },
            RunStatus::Blocked,
        ),
        (
            "blocked, then retried",
            |log| {
                let blocked = log.advance(0, NodeKind::BlockedAttempt);
                log.advance(blocked, NodeKind::Step);
            },
            RunStatus::InProgress,
        ),
        ("a critical gap at the tip", |log| _ = log.gap(0, None), RunStatus::Blocked),
        (
            "the gap resolved",
            |log| {
                let gap = log.gap(0, None);
                log.gap(0, Some(&gap));
            },
            RunStatus::InProgress,
        ),
        (
            "the gap behind the tip",
            |log| {
                log.gap(0, None);
                log.advance(0, NodeKind::Step);
            },
            RunStatus::InProgress,
        ),
        (
            "a gap of a run that never stops",
            |log| {
                never_stop(log, 0);
                log.gap(0, None);
            },
            RunStatus::InProgress,
        ),
        ("complete", |log| _ = log.complete(0), RunStatus::Complete),
        (
            "complete, with a gap anywhere",
            |log| {
                log.gap(0, None);
                let step = log.advance(0, NodeKind::Step);
                log.complete(step);
            },
            RunStatus::CompleteWithGaps,
        ),
        (
            "complete, then forked",
            |log| {
                log.complete(0);
                log.advance(0, NodeKind::Step);
            },
            RunStatus::InProgress,
        ),
    ];
    for (name, story, expected) in cases {
        let mut log = Log::start("status");
        story(&mut log);
        let state = log.state();
        assert_eq!(run_status(&state, &state.runs()[0]), *expected, "{name}");
        assert_eq!(session_summary(&state, &state.runs()[0]).is_complete, expected.is_complete(), "{name}");
    }
    for status in RunStatus::ALL {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
    }
}

#[test]
fn a_fork_from_each_ancestor_gives_that_many_branches_and_a_stable_tip() {
    let mut log = Log::start("forks");
    let chain: Vec<usize> = std::iter::successors(Some(0), |at| (*at < 8).then_some(at + 1)).collect();
    for at in &chain[..8] {
        assert_eq!(log.advance(*at, NodeKind::Step), at + 1);
    }
    for (count, at) in chain[..8].iter().enumerate() {
        let fork = log.advance(*at, NodeKind::Step);
        let state = log.state();
        let run = &state.runs()[0];
        assert_eq!(tips(&state, run).len(), count + 2);
        assert_eq!(preferred_tip(&state, run).unwrap().id, log.nodes[fork]);
    }
    // Notes on the old branch make it preferred again.
    log.notes(8, "still alive", None);
    let state = log.state();
    let run = &state.runs()[0];
    assert_eq!(preferred_tip(&state, run).unwrap().id, log.nodes[8]);
}

#[test]
fn the_recap_is_newest_first_and_counts_omitted_notes() {
    let mut log = Log::start("recap");
    for at in 0..5 {
        log.notes(at, &format!("{at}").repeat(300), None);
        log.advance(at, NodeKind::Step);
    }
    let state = log.state();
    let tip = state.node(&log.nodes[5]).unwrap();
    for (budget, lengths, omitted) in [
        (10_000, vec![300, 300, 300, 300, 300], 0),
        (1_000, vec![300, 300, 300], 2),
        (760, vec![300, 300, 160], 2),
        (200, vec![200], 4),
        (100, vec![], 5),
        (0, vec![], 5),
    ] {
        let recap = ancestor_recap(&state, tip, budget);
        let found: Vec<usize> = recap.entries.iter().map(|entry| entry.text.len()).collect();
        assert_eq!((found, recap.omitted), (lengths, omitted), "{budget} bytes");
        if let Some(newest) = recap.entries.first() {
            assert!(newest.text.starts_with('4'), "{budget} bytes");
            assert_eq!(newest.step_ordinal, 5);
        }
    }
}

#[test]
fn an_older_node_has_a_summary_of_its_branches() {
    let mut log = Log::start("branches");
    let first = log.advance(0, NodeKind::Step);
    log.checkpoint(0);
    let second = log.advance(0, NodeKind::Step);
    let tip = log.advance(second, NodeKind::Step);
    log.notes(first, "the first way", None);
    log.notes(second, "the second way", None);
    let state = log.state();
    let run = &state.runs()[0];
    let at = |node: usize| state.node(&log.nodes[node]).unwrap();
    assert_eq!(branch_summary(&state, run, at(tip), 1000), None, "the tip has no branches");
    let root = branch_summary(&state, run, at(0), 1000).unwrap();
    assert_eq!((root.children, root.steps, root.blocked_attempts, root.checkpoints), (3, 2, 0, 1));
    assert!(root.on_preferred_branch);
    assert_eq!(root.preferred_tip, log.nodes[tip]);
    assert_eq!(root.downstream.entries.len(), 1);
    assert_eq!(root.downstream.entries[0].text, "the second way");
    let other = branch_summary(&state, run, at(first), 1000).unwrap();
    assert!(!other.on_preferred_branch && other.downstream.entries.is_empty());
    assert!(recap::has_moved_on(at(0)) && !recap::has_moved_on(at(tip)));
}

#[test]
fn only_outputs_that_are_not_superseded_are_current() {
    let mut log = Log::start("current");
    let first = log.notes(0, "first", None);
    let kept = log.notes(0, "kept", None);
    let state = log.state();
    let root = state.node(&log.nodes[0]).unwrap();
    assert_eq!(current_output(&state, root, OutputChannel::Recap).unwrap().id, kept);
    log.notes(0, "corrects the first", Some(&first));
    log.notes(0, "corrects the kept", Some(&kept));
    let state = log.state();
    let root = state.node(&log.nodes[0]).unwrap();
    let texts: Vec<_> =
        current_outputs(&state, root, OutputChannel::Recap).map(|output| output.notes().unwrap()).collect();
    assert_eq!(texts, ["corrects the first", "corrects the kept"]);
    assert_eq!(current_output(&state, root, OutputChannel::Artifact), None);
}

#[test]
fn titles_come_from_the_context_and_else_from_the_earliest_notes() {
    let cases = [
        (json!({"problem": "p", "goal": "  fix \n the  login "}), Some("fix the login".to_owned())),
        (json!({"problem": "p", "prTitle": "t", "goal": ""}), Some("t".to_owned())),
        (json!({"goal": 7}), Some("Found it".to_owned())),
        (json!({}), Some("Found it".to_owned())),
        (json!({"goal": "ä".repeat(400)}), Some(format!("{}…", "ä".repeat(153)))),
    ];
    for (context, expected) in cases {
        let mut log = Log::start("title");
        log.notes(0, "\n## Found it\n\nmore", None);
        log.advance(0, NodeKind::Step);
        log.notes(1, "later", None);
        log.context(context.clone());
        let state = log.state();
        assert_eq!(title(&state, &state.runs()[0]), expected, "{context}");
    }
    let log = Log::start("untitled");
    let state = log.state();
    assert_eq!(title(&state, &state.runs()[0]), None);
}
