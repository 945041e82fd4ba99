//! Evidence that the host verifies (idea I3 of the findings): a step is evaluated by what the host observed,
//! and claims are not accepted instead.

use canon::digest::Digest;
use guide::derive;
use guide::engine::EngineError;
use guide::record::{
    Autonomy, Block, Blocker, BlockerCode, EngineState, EventData, GapSeverity, NodeId, NodeKind,
    OutputPayload, Preferences, RiskPolicy,
};
use guide::verification::{
    Citation, CitationFinding, CitationResult, CommandEnd, CommandOutcome, CommandResult, KIND, Verification,
};
use serde_json::{Value, json};

use crate::harness::{Call, Harness, plain, workflow};

const NEVER_STOP: Preferences =
    Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Conservative };

fn proven() -> Value {
    json!([
        {"id": "prove", "title": "P", "prompt": "P.", "evidence": {"commands": ["tests"], "citations": true}},
        plain("report"),
    ])
}

fn ended(ended: CommandEnd) -> CommandOutcome {
    CommandOutcome::Ran {
        argv: vec!["make".to_owned(), "check".to_owned()],
        ended,
        duration_ms: 40,
        output_sha256: Digest::of_bytes(b"1 failed\n"),
        output_bytes: 9,
        output_tail: "1 failed\n".to_owned(),
    }
}

fn tests(outcome: CommandOutcome) -> Verification {
    Verification {
        commands: vec![CommandResult { name: "tests".to_owned(), outcome }],
        ..Verification::default()
    }
}

fn verified(notes: &'static str, verification: Verification) -> Call {
    Call { verification: Some(verification), ..Call::notes(notes) }
}

fn blockers(harness: &Harness, node: &NodeId) -> Vec<Blocker> {
    let EngineState::Blocked(state) = harness.snapshot(node) else { return Vec::new() };
    let (Block::RetryableBlock { blockers, .. } | Block::TerminalBlock { blockers, .. }) = &state.blocked;
    blockers.blockers().to_vec()
}

/// The verification recorded on the node that an attempt on `from` led to.
fn recorded(harness: &Harness, from: &NodeId, attempt: u64) -> Option<Value> {
    let attempt = derive::attempt_id(harness.state.session_id(), from, attempt);
    let output = harness.state.output(&derive::verification_output_id(&attempt))?;
    let OutputPayload::ArtifactRef(artifact) = &output.payload else { return None };
    artifact.content.clone()
}

#[test]
fn a_step_is_evaluated_by_what_the_host_observed() {
    let outcomes = [
        ("passes", ended(CommandEnd::Exited { code: 0 }), None, ""),
        (
            "fails",
            ended(CommandEnd::Exited { code: 2 }),
            Some(BlockerCode::InvalidRequiredOutput),
            "The host ran the command `tests`: exit code 2. Its output ends with: 1 failed",
        ),
        (
            "is killed by a signal",
            ended(CommandEnd::Signalled { signal: 9 }),
            Some(BlockerCode::InvalidRequiredOutput),
            "ended by signal 9",
        ),
        (
            "takes too long",
            ended(CommandEnd::TimedOut { limit_ms: 60_000 }),
            Some(BlockerCode::InvalidRequiredOutput),
            "still running after 60.0 s",
        ),
        (
            "writes too much",
            ended(CommandEnd::OutputLimit { limit_bytes: 1024 }),
            Some(BlockerCode::InvalidRequiredOutput),
            "more than 1024 bytes",
        ),
        (
            "is not allowed",
            CommandOutcome::NotAllowed,
            Some(BlockerCode::UserOnlyDependency),
            "add `[guide.commands.tests]` with `argv",
        ),
        (
            "has no workspace",
            CommandOutcome::NoWorkspace,
            Some(BlockerCode::InvalidRequiredOutput),
            "`workspacePath`",
        ),
        (
            "cannot be started",
            CommandOutcome::NotStarted { reason: "`make` was not found".to_owned() },
            Some(BlockerCode::InvalidRequiredOutput),
            "`make` was not found",
        ),
    ];
    for (name, outcome, code, says) in outcomes {
        let mut harness = Harness::start(workflow(proven()), json!({}), None);
        let root = harness.root.clone();
        let verification = tests(outcome);
        let node = harness.advance(&root, verified("All 12 tests pass.", verification.clone()));
        assert_eq!(
            recorded(&harness, &root, 0),
            Some(verification.artifact()),
            "{name}: recorded as observed"
        );
        let found = blockers(&harness, &node);
        assert_eq!(found.first().map(|one| one.code), code, "{name}: {found:?}");
        let words: String = found
            .iter()
            .map(|one| format!("{} {:?}", one.message, one.suggested_fix))
            .collect::<Vec<_>>()
            .join(" ");
        assert!(words.contains(&says.replace('"', "\\\"")), "{name}: {words}");
        if code.is_some() {
            assert_eq!(harness.state.node(&node).unwrap().kind, NodeKind::BlockedAttempt, "{name}");
            let passing = tests(ended(CommandEnd::Exited { code: 0 }));
            let next = harness.advance(&node, verified("Now they pass.", passing));
            assert_eq!(harness.pending(&next).as_deref(), Some("report"), "{name}");
        } else {
            assert_eq!(harness.pending(&node).as_deref(), Some("report"), "{name}");
        }

        let mut harness = Harness::start(workflow(proven()), json!({}), Some(NEVER_STOP));
        let root = harness.root.clone();
        let node = harness.advance(&root, verified("All 12 tests pass.", verification.clone()));
        assert_eq!(harness.pending(&node).as_deref(), Some("report"), "{name}: never-stop continues");
        let run = harness.state.run(&harness.state.node(&node).unwrap().run_id).unwrap();
        let gaps: Vec<_> = harness.state.gaps_of_run(run).map(|gap| gap.severity).collect();
        assert_eq!(gaps, vec![GapSeverity::Critical; usize::from(code.is_some())], "{name}");
    }
}

#[test]
fn invalid_citations_block_together_and_valid_ones_pass() {
    let line = |path: &str, line| Citation::Line { path: path.to_owned(), line };
    let result = |citation, finding| CitationResult { citation, finding };
    let passing = tests(ended(CommandEnd::Exited { code: 0 }));
    let mut harness = Harness::start(workflow(proven()), json!({}), None);
    let root = harness.root.clone();
    let verification = Verification {
        citations: vec![
            result(line("src/a.rs", 3), CitationFinding::Exists),
            result(line("src/a.rs", 900), CitationFinding::NoSuchLine { lines: 12 }),
            result(Citation::Commit { prefix: "deadbeef".to_owned() }, CitationFinding::Missing),
        ],
        ..passing.clone()
    };
    let node =
        harness.advance(&root, verified("See src/a.rs:3 and src/a.rs:900, commit deadbeef.", verification));
    let found = blockers(&harness, &node);
    assert_eq!(found.len(), 1, "{found:?}");
    for says in ["`src/a.rs:900` does not exist: the file has 12 lines", "commit `deadbeef` does not exist"] {
        assert!(found[0].message.contains(says), "{}", found[0].message);
    }
    assert!(!found[0].message.contains("src/a.rs:3`"), "{}", found[0].message);
    let holds =
        Verification { citations: vec![result(line("src/a.rs", 3), CitationFinding::Exists)], ..passing };
    let node = harness.advance(&node, verified("See src/a.rs:3.", holds));
    assert_eq!(harness.pending(&node).as_deref(), Some("report"));
}

/// Commands take time: the host verifies nothing for an attempt that is blocked anyway, or for steps that
/// demand nothing.
#[test]
fn the_host_verifies_only_if_nothing_else_is_missing() {
    let harness = Harness::start(workflow(proven()), json!({}), None);
    let root = harness.root.clone();
    assert_eq!(harness.wanted(&root, Call::nothing()), Ok(None), "the notes are missing");
    let finding = json!({"kind": "team.finding", "where": ["at lib/b.py:7"]});
    let answer = json!({"kind": "wr.user_answer", "dependencyId": "x", "answer": "see lib/c.py:8"});
    let call = Call { artifacts: vec![finding, answer], ..Call::notes("Read src/a.rs:3.") };
    let wanted = harness.wanted(&root, call).unwrap().unwrap();
    assert_eq!(wanted.commands, ["tests"]);
    let cited: Vec<String> = wanted.citations.iter().map(ToString::to_string).collect();
    assert_eq!(
        cited,
        ["`src/a.rs:3`", "`lib/b.py:7`"],
        "of notes and artifacts, but not of the user's words"
    );

    let mut harness = Harness::start(workflow(proven()), json!({}), Some(NEVER_STOP));
    let root = harness.root.clone();
    assert!(harness.wanted(&root, Call::nothing()).unwrap().is_some(), "never-stop continues without notes");
    let refused = harness.try_advance(&root, Call::notes("Trust me."));
    assert!(matches!(refused, Err(EngineError::Inconsistent { .. })), "{refused:?}");
    let node = harness.advance(&root, verified("Done.", tests(ended(CommandEnd::Exited { code: 0 }))));
    assert_eq!(harness.wanted(&node, Call::notes("x")), Ok(None), "the next step demands nothing");
}

/// A person is asked first, and nothing is verified before they answer.
#[test]
fn a_step_that_also_needs_a_person_asks_before_it_is_verified() {
    let steps = json!([
        {"id": "prove", "title": "P", "prompt": "P.", "requireConfirmation": true, "evidence": {"commands": ["tests"]}},
        plain("report"),
    ]);
    let harness = Harness::start(workflow(steps), json!({}), None);
    let root = harness.root.clone();
    assert_eq!(harness.wanted(&root, Call::notes("Done.")), Ok(None), "the approval is missing");
    assert_eq!(harness.questions(&root, Call::notes("Done.")).len(), 1);
    let agreed = json!({"kind": "wr.user_answer", "dependencyId": "confirmation", "answeredBy": "user",
        "outcome": "given", "answer": "Yes."});
    let call = Call { artifacts: vec![agreed], ..Call::notes("Done.") };
    assert!(harness.wanted(&root, call).unwrap().is_some());
}

/// Only the host can record a verification: a caller cannot send one, and a caller's artifact never has its
/// id.
#[test]
fn a_caller_cannot_forge_a_verification() {
    let mut harness = Harness::start(workflow(json!([plain("one"), plain("two")])), json!({}), None);
    let root = harness.root.clone();
    let forged = tests(ended(CommandEnd::Exited { code: 0 })).artifact();
    let refused = harness.try_advance(&root, Call::artifact(forged)).unwrap_err();
    assert!(refused.to_string().contains(KIND), "{refused}");
    let node = harness.advance(&root, Call::artifact(json!({"kind": "team.note"})));
    assert_eq!(recorded(&harness, &root, 0), None);
    assert_eq!(harness.pending(&node).as_deref(), Some("two"));
}

/// Workflows without the field keep their bytes; with it, they are read back unchanged.
#[test]
fn a_demand_is_pinned_and_its_absence_changes_no_bytes() {
    let with = workflow(proven());
    let text = serde_json::to_value(&with).unwrap();
    assert_eq!(text["steps"][0]["evidence"], json!({"commands": ["tests"], "citations": true}));
    assert!(text["steps"][1].get("evidence").is_none());
    let read: guide::workflow::compiled::CompiledWorkflow = serde_json::from_value(text).unwrap();
    assert_eq!(read.hash(), with.hash());
    let without = workflow(json!([{"id": "prove", "title": "P", "prompt": "P."}, plain("report")]));
    assert_ne!(with.hash(), without.hash());
}

/// A large verification is stored in the artifact store in the same append, like every artifact.
#[test]
fn a_long_verification_is_stored_outside_of_the_event() {
    let mut harness = Harness::start(workflow(proven()), json!({}), None);
    let root = harness.root.clone();
    let CommandOutcome::Ran { argv, ended, duration_ms, output_sha256, output_bytes, .. } =
        ended(CommandEnd::Exited { code: 0 })
    else {
        unreachable!()
    };
    let outcome = CommandOutcome::Ran {
        argv,
        ended,
        duration_ms,
        output_sha256,
        output_bytes,
        output_tail: "x".repeat(guide::verification::OUTPUT_TAIL_BYTES),
    };
    let before = harness.events.len();
    harness.advance(&root, verified("Done.", tests(outcome.clone())));
    assert_eq!(recorded(&harness, &root, 0), None, "not within the event");
    let stored: Vec<Value> =
        harness.artifacts.values().map(|bytes| serde_json::from_slice(bytes).unwrap()).collect();
    assert_eq!(stored, [tests(outcome).artifact()]);
    let outputs = harness.events[before..]
        .iter()
        .filter(|event| matches!(event.data, EventData::NodeOutputAppended { .. }));
    assert_eq!(outputs.count(), 2, "the notes and the verification");
}
