//! Evidence that the host verifies itself: commands in the workspace, and citations of an agent (idea I3 of the
//! findings). The tests use real processes and repositories.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use catalogue::{Catalogue, CatalogueOptions};
use guide::record::BlockerCode;
use guide::verification::{CitationFinding, CommandEnd, CommandOutcome};
use guided::api::{ContinueRequest, Handle, Intent, NextIntent, Reply, ReplyKind, StartRequest};
use guided::view::{replay, salvage};
use guided::{AllowedCommand, Refusal, Verifier, WorkspaceRoots, Workspaces};
use serde_json::{Value, json};
use storage::disk::RealDisk;
use storage::files::SessionFiles;
use system::{ManualClock, SeededEntropy};

use crate::sync::Guided;

struct Desk {
    directory: tempfile::TempDir,
    guided: Guided,
}

impl Desk {
    /// A workflow whose first step requires this evidence, on a host that allows these commands.
    fn new(evidence: &Value, commands: &[(&str, &[&str])]) -> Self {
        Self::within(evidence, commands, |_| Workspaces::Any)
    }

    fn within(
        evidence: &Value,
        commands: &[(&str, &[&str])],
        workspaces: impl FnOnce(&Path) -> Workspaces,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let flows = directory.path().join("flows");
        fs::create_dir_all(&flows).unwrap();
        fs::create_dir_all(directory.path().join("work/src")).unwrap();
        fs::write(directory.path().join("work/src/a.rs"), "one\ntwo\n").unwrap();
        let workflow = json!({"id": "project.proof", "name": "Proof", "description": "Proves it.",
        "version": "1.0.0", "steps": [
            {"id": "prove", "title": "Prove it", "prompt": "Prove it.", "evidence": evidence},
            {"id": "report", "title": "Report", "prompt": "Report."},
        ]});
        fs::write(flows.join("proof.json"), workflow.to_string()).unwrap();
        let files =
            SessionFiles::open(Arc::new(RealDisk::open(&directory.path().join("data")).unwrap())).unwrap();
        let catalogue =
            Catalogue::new(CatalogueOptions { configured_dirs: vec![flows], ..CatalogueOptions::default() });
        let commands: BTreeMap<String, AllowedCommand> = commands
            .iter()
            .map(|(name, argv)| {
                let command = AllowedCommand {
                    argv: argv.iter().map(|part| (*part).to_owned()).collect(),
                    timeout: Duration::from_secs(60),
                    max_output: 1 << 20,
                    env: Vec::new(),
                };
                ((*name).to_owned(), command)
            })
            .collect();
        let verifier = Arc::new(Verifier::new(commands, workspaces(directory.path())));
        let (clock, entropy) = (Arc::new(ManualClock::at(1)), Arc::new(SeededEntropy::new(1)));
        let guided = Guided::verifying(files, catalogue, clock, entropy, verifier);
        Self { directory, guided }
    }

    fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    fn start(&self) -> Reply {
        let request = StartRequest {
            workflow_id: "project.proof".to_owned(),
            goal: "prove it".to_owned(),
            workspace: Some(self.work()),
            ..StartRequest::default()
        };
        self.guided.start(request).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    fn advance(&self, reply: &Reply, notes: &str) -> Result<Reply, Refusal> {
        self.guided.proceed(ContinueRequest {
            handle: Handle::Single(reply.continue_token.clone().unwrap()),
            intent: Intent::Advance,
            notes_markdown: Some(notes.to_owned()),
            artifacts: Vec::new(),
            context: None,
            preferences: None,
        })
    }

    /// How often the counting command was run.
    fn runs(&self) -> usize {
        fs::read_to_string(self.work().join("runs")).map_or(0, |text| text.lines().count())
    }
}

const COUNTED: (&str, &[&str]) = ("tests", &["sh", "-c", "echo run >> runs; test -e passes"]);

fn ended(reply: &Reply) -> Vec<CommandEnd> {
    let commands = reply.verification.iter().flat_map(|verification| &verification.commands);
    commands
        .map(|result| match &result.outcome {
            CommandOutcome::Ran { ended, .. } => ended.clone(),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_claim_is_refused_until_the_command_passes_and_a_replay_runs_nothing() {
    let desk = Desk::new(&json!({"commands": ["tests"]}), &[COUNTED]);
    let first = desk.start();
    assert!(first.pending.as_ref().unwrap().prompt.contains("the host runs `tests`"));
    let blocked = desk.advance(&first, "All tests pass, I promise.").unwrap();
    assert_eq!((blocked.kind, desk.runs()), (ReplyKind::Blocked, 1));
    assert_eq!(ended(&blocked), [CommandEnd::Exited { code: 1 }]);
    assert_eq!(blocked.next_intent, NextIntent::PerformPendingThenContinue);
    fs::write(desk.work().join("passes"), "").unwrap();
    let passed = desk.advance(&blocked, "Now they do.").unwrap();
    assert_eq!((passed.kind, desk.runs()), (ReplyKind::Ok, 2));
    assert_eq!(ended(&passed), [CommandEnd::Exited { code: 0 }]);
    assert_eq!(passed.run.step, 2);
    // The same calls again are answered from the log, whatever the command would return now.
    fs::remove_file(desk.work().join("passes")).unwrap();
    for (call, reply) in [(&first, &blocked), (&blocked, &passed)] {
        let again = desk.advance(call, "other notes").unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), serde_json::to_string(reply).unwrap());
    }
    assert_eq!(desk.runs(), 2);
    // Verified and claimed evidence are distinguished.
    let id = passed.run.session_id.parse().unwrap();
    let salvaged = ports::wait(salvage(desk.guided.store(), &id)).unwrap();
    let turns = ports::wait(replay(desk.guided.store(), &salvaged, false, 10)).runs.remove(0).turns;
    let verified: Vec<bool> = turns.iter().flat_map(|turn| &turn.verified).map(|line| line.passed).collect();
    assert_eq!(verified, [false, true]);
    assert!(turns[2].verified[0].words.starts_with("command `tests`: exit code 0 after "), "{turns:?}");
    assert!(turns.iter().all(|turn| turn.artifacts.is_empty()), "nothing of it was handed in: {turns:?}");
}

#[test]
fn nothing_runs_for_an_attempt_that_is_blocked_anyway() {
    let desk = Desk::new(&json!({"commands": ["tests"]}), &[COUNTED]);
    let first = desk.start();
    let blocked = desk.advance(&first, "  ").unwrap();
    assert_eq!((blocked.kind, desk.runs(), blocked.verification), (ReplyKind::Blocked, 0, None));
}

#[test]
fn a_command_that_is_not_allowed_blocks_and_waits_for_the_operator() {
    let desk = Desk::new(&json!({"commands": ["tests", "lint"]}), &[COUNTED]);
    fs::write(desk.work().join("passes"), "").unwrap();
    let reply = desk.advance(&desk.start(), "Done.").unwrap();
    let blockers = reply.blocked.as_ref().unwrap().blockers.blockers();
    assert_eq!(blockers.len(), 1, "{blockers:?}");
    assert_eq!(blockers[0].code, BlockerCode::UserOnlyDependency);
    assert!(blockers[0].suggested_fix.as_ref().unwrap().contains("[guide.commands.lint]"), "{blockers:?}");
    assert_eq!(reply.next_intent, NextIntent::AwaitUserConfirmation);
}

/// A crash between the run of a command and the append loses only the run: the command is run again.
#[test]
fn a_run_whose_append_failed_is_made_again() {
    let desk = Desk::new(&json!({"commands": ["tests"]}), &[COUNTED]);
    fs::write(desk.work().join("passes"), "").unwrap();
    let first = desk.start();
    let id = first.run.session_id.parse().unwrap();
    let held = desk.guided.files().lock(&id, None).unwrap();
    let refused = desk.advance(&first, "Done.").unwrap_err();
    assert_eq!((refused.envelope().code(), desk.runs()), ("TOKEN_SESSION_LOCKED", 1));
    drop(held);
    let passed = desk.advance(&first, "Done.").unwrap();
    assert_eq!((passed.kind, desk.runs()), (ReplyKind::Ok, 2));
}

/// A client that stops waiting and calls again is asked to retry later, and does not start the command twice.
#[test]
fn an_attempt_is_verified_by_one_call_at_a_time() {
    let wait = ("tests", &["sh", "-c", "echo run >> runs; until test -e go; do sleep 0.02; done"][..]);
    let desk = Desk::new(&json!({"commands": ["tests"]}), &[wait]);
    let first = desk.start();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| desk.advance(&first, "Done."));
        while desk.runs() == 0 {
            std::thread::yield_now();
        }
        let refused = desk.advance(&first, "Done.").unwrap_err();
        assert_eq!(refused.envelope().code(), "TOKEN_SESSION_LOCKED");
        fs::write(desk.work().join("go"), "").unwrap();
        assert_eq!(running.join().unwrap().unwrap().kind, ReplyKind::Ok);
    });
    assert_eq!(desk.runs(), 1);
    assert_eq!(desk.advance(&first, "Done.").unwrap().kind, ReplyKind::Ok);
}

/// A shared server runs commands only below its roots, whatever a recorded session says.
#[test]
fn a_server_runs_commands_below_its_roots_only() {
    for (name, roots, kind) in [("below", true, ReplyKind::Ok), ("elsewhere", false, ReplyKind::Blocked)] {
        let desk = Desk::within(&json!({"commands": ["tests"]}), &[COUNTED], |directory| {
            let root = if roots { directory.to_owned() } else { directory.join("other") };
            Workspaces::Below {
                roots: WorkspaceRoots::new(vec![root]),
                own: directory.join("data/workspaces"),
            }
        });
        fs::write(desk.work().join("passes"), "").unwrap();
        let reply = desk.advance(&desk.start(), "Done.").unwrap();
        assert_eq!((reply.kind, desk.runs()), (kind, usize::from(roots)), "{name}");
    }
}

fn git(work: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"])
        .args(["-c", "commit.gpgsign=false", "-c", "gc.auto=0"])
        .args(arguments)
        .current_dir(work)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Invented line numbers, commits and branches are detected; real ones pass, loose and packed.
#[test]
fn what_is_cited_has_to_exist() {
    let desk = Desk::new(&json!({"citations": true}), &[]);
    let work = desk.work();
    git(&work, &["init", "--quiet"]);
    let mut commits = Vec::new();
    for number in 0..20 {
        fs::write(work.join("src/n.rs"), format!("{number}\n")).unwrap();
        git(&work, &["add", "."]);
        git(&work, &["commit", "--quiet", "-m", &format!("change number {number}")]);
        commits.push(git(&work, &["rev-parse", "HEAD"]));
    }
    git(&work, &["branch", "feature/x"]);
    let blob = git(&work, &["rev-parse", "HEAD:src/n.rs"]);
    for packed in [false, true] {
        if packed {
            git(&work, &["gc", "--quiet"]);
            assert!(!work.join(".git/objects").join(&commits[0][..2]).exists(), "everything is packed");
        }
        let first = desk.start();
        let notes = format!(
            "See src/a.rs:2 and `src/a.rs:3`, src/b.rs:1. commit {}, commit `{}`, commit deadbeef00, commit {blob}. On \
             branch `feature/x` and branch `nowhere`.",
            commits[0],
            &commits[7][..10]
        );
        let reply = desk.advance(&first, &notes).unwrap();
        let verification = reply.verification.as_ref().unwrap();
        let found: Vec<&CitationFinding> =
            verification.citations.iter().map(|result| &result.finding).collect();
        use CitationFinding as F;
        let expected = [
            &F::Exists,
            &F::NoSuchLine { lines: 2 },
            &F::Missing,
            &F::Exists,
            &F::Exists,
            &F::Missing,
            &F::Missing,
            &F::Exists,
            &F::Missing,
        ];
        assert_eq!(found, expected, "packed: {packed}: {verification:?}");
        assert_eq!(reply.kind, ReplyKind::Blocked);
        for commit in &commits {
            let notes = format!("src/a.rs:1-2 came with commit {commit} on branch `main`.");
            let reply = desk.advance(&desk.start(), &notes).unwrap();
            assert_eq!(reply.kind, ReplyKind::Ok, "packed: {packed}: {reply:?}");
        }
    }
}
