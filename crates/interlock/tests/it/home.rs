//! A test environment: data directory, workspace and home in one temporary folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use catalogue::{Catalogue, CatalogueOptions};
use guide::record::SessionId;
use guided::api::{ContinueRequest, Handle, Intent, Reply, StartRequest};
use guided::{Guided, GuidedOptions, Verifier};
use ports::wait;
use serde_json::{Value, json};
use storage::disk::RealDisk;
use storage::files::{FileSessions, SessionFiles};
use system::{SystemClock, SystemEntropy};
use tempfile::TempDir;

use crate::program::{interlock, run_command, text};

/// A workflow with two steps; the second requires an artifact.
pub(crate) const TINY: &str = r#"{
    "id": "project.tiny", "name": "Tiny", "description": "Two steps.", "version": "1.0.0",
    "steps": [
        {"id": "look", "title": "Look around", "prompt": "Look at {{goal}}."},
        {"id": "judge", "title": "Judge it", "prompt": "Say what you think.",
         "outputContract": {"contractRef": "wr.contracts.gate_verdict", "required": true}}
    ]
}"#;

pub(crate) struct TestHome {
    folder: TempDir,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("work/workflows")).unwrap();
        std::fs::write(folder.path().join("work/workflows/tiny.json"), TINY).unwrap();
        // Marks the project root, regardless of folders above the temporary one.
        std::fs::create_dir(folder.path().join("work/.git")).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.path("data")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path("work")
    }

    /// The program with this environment only.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = interlock(arguments);
        command
            .current_dir(self.workspace())
            .env("HOME", self.path("home"))
            .env("INTERLOCK_HOME", self.data_dir())
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_CONFIG_HOME");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        run_command(&mut self.command(arguments), b"")
    }

    /// Runs, expects this exit code, and returns standard output.
    pub(crate) fn expect(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{out}\n{err}");
        out
    }

    /// Runs with `--json`, and expects this exit code and one document.
    pub(crate) fn json(&self, arguments: &[&str], code: i32) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        let output = self.run(&arguments);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{out}\n{err}");
        assert_eq!(err, "", "{arguments:?}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
    }

    /// The text on standard error, with this exit code.
    pub(crate) fn refused(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        let words = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{words}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        words
    }

    /// The guided service on the same directory.
    pub(crate) fn guided(&self) -> Guided {
        guided(&self.data_dir())
    }

    pub(crate) fn start(&self, goal: &str) -> (SessionId, Reply) {
        let request = StartRequest {
            workflow_id: "project.tiny".to_owned(),
            goal: goal.to_owned(),
            workspace: Some(self.workspace()),
            ..StartRequest::default()
        };
        let reply = wait(self.guided().start(request)).unwrap();
        (SessionId::parse(&reply.run.session_id).unwrap(), reply)
    }

    /// Advances a run.
    pub(crate) fn advance(&self, reply: &Reply, notes: &str, artifacts: Vec<Value>) -> Reply {
        let handle = reply
            .blocked
            .as_ref()
            .and_then(|blocked| blocked.retry_continue_token.clone())
            .or_else(|| reply.continue_token.clone())
            .unwrap();
        wait(self.guided().proceed(ContinueRequest {
            handle: Handle::Single(handle),
            intent: Intent::Advance,
            notes_markdown: Some(notes.to_owned()),
            artifacts,
            context: None,
            preferences: None,
        }))
        .unwrap()
    }

    /// A complete run: a step, a blocked attempt, a checkpoint, a verdict.
    pub(crate) fn complete_session(&self, goal: &str) -> SessionId {
        let (id, reply) = self.start(goal);
        let reply = self.advance(&reply, "Looked at it.\nIt is \u{1b}[31mred\u{1b}[0m.", Vec::new());
        wait(self.guided().checkpoint(reply.checkpoint_token.as_deref().unwrap(), None)).unwrap();
        let blocked = self.advance(&reply, "No verdict yet.", Vec::new());
        assert!(blocked.blocked.is_some(), "the contract blocks");
        let done = self.advance(&blocked, "A verdict.", vec![verdict()]);
        assert!(done.is_complete, "{done:?}");
        id
    }
}

pub(crate) fn guided(data_dir: &Path) -> Guided {
    let files = SessionFiles::open(Arc::new(RealDisk::open(data_dir).unwrap())).unwrap();
    Guided::new(GuidedOptions {
        store: Arc::new(FileSessions::new(files)),
        catalogue: Catalogue::new(CatalogueOptions::default()),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        verifier: Verifier::none(),
        advanced: Arc::default(),
    })
}

/// An artifact that satisfies the contract.
pub(crate) fn verdict() -> Value {
    let pack = guide::workflow::registry::contract("wr.contracts.gate_verdict").unwrap();
    let mut artifact = pack.example.clone();
    artifact["kind"] = json!(pack.artifact_kind);
    artifact
}
