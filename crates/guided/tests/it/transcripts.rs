//! The transcripts in `docs/transcripts` are runs of the bundled workflows, each from its start to its end.
//!
//! The requests of a run are in `tests/transcripts`, a script per workflow; the replies are those of the service. With `UPDATE_DOCS=1` the
//! pages are written, otherwise they are compared.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalogue::{Catalogue, CatalogueOptions};
use guide::workflow::registry;
use guided::api::{ContinueRequest, Handle, Intent, NextIntent, Reply, StartRequest};
use serde_json::Value;
use storage::disk::RealDisk;
use storage::files::SessionFiles;
use system::{ManualClock, SeededEntropy};

use crate::sync::Guided;

/// The number of shown lines of a prompt.
const PROMPT_LINES: usize = 6;

/// The number of shown lines of notes.
const NOTES_LINES: usize = 10;

const GENERATED: &str =
    "<!-- Generated: run `UPDATE_DOCS=1 cargo test -p guided --test it transcripts`. -->\n\n";

/// The requests of a run: its goal, and a call per attempt at a step.
struct Script {
    goal: String,
    calls: Vec<Call>,
}

/// One attempt at a step.
#[derive(Default)]
struct Call {
    step_id: String,
    notes: String,
    /// As written in the script, for display.
    artifacts: Vec<String>,
    context: Option<String>,
}

impl Script {
    /// Reads a script: its first line is the goal, and each `## step-id` starts a call. Artifacts are
    /// fenced as `json`, context changes as `context`; the rest is the notes.
    fn read(text: &str) -> Self {
        let mut lines = text.lines();
        let goal = lines.next().unwrap().to_owned();
        let mut calls: Vec<Call> = Vec::new();
        while let Some(line) = lines.next() {
            if let Some(step_id) = line.strip_prefix("## ") {
                calls.push(Call { step_id: step_id.to_owned(), ..Call::default() });
                continue;
            }
            let Some(call) = calls.last_mut() else { continue };
            if let Some(language) = line.strip_prefix("```") {
                let fenced: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
                match language {
                    "json" => call.artifacts.push(fenced.join("\n")),
                    "context" => call.context = Some(fenced.join("\n")),
                    other => panic!("{}: a fence of {other:?}", call.step_id),
                }
            } else if !line.is_empty() {
                call.notes.push_str(line);
                call.notes.push('\n');
            }
        }
        Self { goal, calls }
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|cause| panic!("{cause}: {text}"))
}

fn open(directory: &Path) -> Guided {
    let files = SessionFiles::open(Arc::new(RealDisk::open(directory).unwrap())).unwrap();
    let clock = Arc::new(ManualClock::at(1_700_000_000_000));
    Guided::new(files, Catalogue::new(CatalogueOptions::default()), clock, Arc::new(SeededEntropy::new(7)))
}

fn first_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut shown = lines[..lines.len().min(most)].join("\n");
    if lines.len() > most {
        shown.push_str("\n…");
    }
    shown
}

/// Writes a reply, for a reader.
fn write_reply(out: &mut String, reply: &Reply) {
    if let Some(blocked) = &reply.blocked {
        out.push_str("Came back: **blocked**. The step stays pending.\n\n");
        let report = serde_json::to_value(&blocked.blockers).unwrap();
        for blocker in report["blockers"].as_array().unwrap() {
            let text = |member: &str| blocker[member].as_str().unwrap_or_default().replace('\n', " ");
            let (message, fix) = (text("message"), text("suggestedFix"));
            write!(out, "- `{}`: {message}", text("code")).unwrap();
            if !fix.is_empty() {
                // The message already contains the details of a fix.
                let details = message.split_once(": ").map_or("", |(_, details)| details);
                let fix = fix.strip_suffix(details).unwrap_or(&fix).trim_end_matches(": ");
                write!(out, "\n  What to do: {fix}").unwrap();
            }
            out.push('\n');
        }
        out.push_str("\nThe next attempt goes with `retryContinueToken` `ct_…`.\n");
        return;
    }
    let Some(pending) = &reply.pending else {
        out.push_str("Came back: **complete**. Nothing is pending, and there is no further token.\n");
        return;
    };
    assert!(reply.continue_token.as_deref().unwrap().starts_with("ct_"));
    let run = &reply.run;
    writeln!(
        out,
        "Came back: **step {} of {}, {}** (`{}`), with `continueToken` `ct_…`.",
        run.step, run.steps, pending.title, pending.step_id
    )
    .unwrap();
    if reply.next_intent == NextIntent::AwaitUserConfirmation {
        out.push_str(
            "Its `nextIntent` is `await_user_confirmation`: the user is asked before the next call.\n",
        );
    }
    writeln!(out, "\n```text\n{}\n```", first_lines(&pending.prompt, PROMPT_LINES)).unwrap();
}

/// Writes a call, for a reader.
fn write_call(out: &mut String, call: &Call) {
    out.push_str("Sent: `continue_workflow` with `continueToken` `ct_…`");
    out.push_str(match (call.notes.is_empty(), call.artifacts.is_empty()) {
        (false, false) => ", notes and artifacts.\n",
        (false, true) => " and notes.\n",
        (true, false) => " and artifacts.\n",
        (true, true) => " alone.\n",
    });
    if !call.notes.is_empty() {
        writeln!(out, "\n```text\n{}\n```", first_lines(&call.notes, NOTES_LINES)).unwrap();
    }
    for artifact in &call.artifacts {
        writeln!(out, "\n```json\n{artifact}\n```").unwrap();
    }
    if let Some(context) = &call.context {
        writeln!(out, "\nWhat later steps depend on, as `context`: `{context}`").unwrap();
    }
    out.push('\n');
}

/// Runs a script from start to end, and describes it.
fn transcript(workflow_id: &str, script: &Script) -> String {
    let source = json(registry::bundled_workflow(workflow_id).unwrap().source);
    let directory = tempfile::tempdir().unwrap();
    let guided = open(directory.path());
    let request = StartRequest {
        workflow_id: workflow_id.to_owned(),
        goal: script.goal.clone(),
        ..StartRequest::default()
    };
    let mut reply = guided.start(request).unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut out = format!(
        "{GENERATED}# {}\n\nA run of `{workflow_id}`, from its start to its end. Long notes and prompts are cut off at `…`.\n\n",
        reply.run.workflow_name
    );
    writeln!(out, "{}\n", source["about"].as_str().unwrap()).unwrap();
    writeln!(out, "## Start\n\nSent: `start_workflow` with the goal *{}*.\n", script.goal).unwrap();
    write_reply(&mut out, &reply);
    for (index, call) in script.calls.iter().enumerate() {
        let pending = reply.pending.as_ref().unwrap_or_else(|| panic!("{workflow_id}: ended too early"));
        assert_eq!(pending.step_id, call.step_id, "{workflow_id}: call {}", index + 1);
        writeln!(out, "\n## Call {}: {}\n", index + 1, pending.title).unwrap();
        write_call(&mut out, call);
        let request = ContinueRequest {
            handle: Handle::Single(reply.continue_token.clone().unwrap()),
            intent: Intent::Advance,
            notes_markdown: (!call.notes.is_empty()).then(|| call.notes.clone()),
            artifacts: call.artifacts.iter().map(|artifact| json(artifact)).collect(),
            context: call.context.as_ref().map(|context| json(context).as_object().cloned().unwrap()),
            preferences: None,
        };
        reply = guided.proceed(request).unwrap_or_else(|refusal| panic!("{}: {refusal}", call.step_id));
        // A script that expects a block tries the same step again; any other block is a mistake in it.
        let meant = script.calls.get(index + 1).is_some_and(|next| next.step_id == call.step_id);
        assert_eq!(reply.blocked.is_some(), meant, "{workflow_id}: {}: {:#?}", call.step_id, reply.blocked);
        write_reply(&mut out, &reply);
    }
    assert!(reply.is_complete, "{workflow_id} still waits for {:?}", reply.pending);
    out
}

/// Every workflow that users start directly, with its script.
fn scripts() -> Vec<(&'static str, Script)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let ids = registry::bundled().iter().map(|workflow| workflow.id);
    ids.filter(|id| !id.starts_with("wr.routine-"))
        .map(|id| {
            let path = folder.join(format!("{id}.md"));
            let text = std::fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{path:?}: {cause}"));
            (id, Script::read(&text))
        })
        .collect()
}

fn index(scripts: &[(&'static str, Script)]) -> String {
    let mut out = format!("{GENERATED}# Transcripts\n\n");
    out.push_str("A run of each bundled workflow, from its start to its end: what is sent, what comes back, and what a block\n");
    out.push_str("looks like. The runs are made by a test (`crates/guided/tests/it/transcripts.rs`), so they show what the program\n");
    out.push_str("does; the projects they are about are made up.\n\n");
    out.push_str(
        "| Workflow | What it is for | The goal of the run | Calls | Blocked |\n|---|---|---|---|---|\n",
    );
    for (id, script) in scripts {
        let source = json(registry::bundled_workflow(id).unwrap().source);
        let text = |member: &str| source[member].as_str().unwrap().replace('|', "\\|");
        let blocked = script.calls.windows(2).filter(|pair| pair[0].step_id == pair[1].step_id).count();
        let (name, description) = (text("name"), text("description"));
        let blocked = if blocked == 0 { "never".to_owned() } else { format!("{blocked} ×") };
        let calls = script.calls.len() + 1;
        writeln!(
            out,
            "| [{name}]({id}.md), `{id}` | {description} | {} | {calls} | {blocked} |",
            script.goal
        )
        .unwrap();
    }
    out.push_str("\nWhat a session is and why it can be relied on: [guided sessions](../concepts/guided-sessions.md). The calls:\n");
    out.push_str("[tools](../tools.md).\n");
    out
}

#[test]
fn the_transcripts_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/transcripts");
    let scripts = scripts();
    let mut pages: Vec<(PathBuf, String)> = scripts
        .iter()
        .map(|(id, script)| (folder.join(format!("{id}.md")), transcript(id, script)))
        .collect();
    pages.push((folder.join("README.md"), index(&scripts)));
    for (path, expected) in &pages {
        if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
            std::fs::write(path, expected).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_else(|cause| panic!("{path:?}: {cause}"));
        assert!(found == *expected, "{path:?} is stale: run again with UPDATE_DOCS=1");
    }
    let kept = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(kept, pages.len(), "a page in {folder:?} belongs to no bundled workflow");
}

#[test]
fn some_transcript_shows_a_block_and_some_a_second_pass() {
    let scripts = scripts();
    assert_eq!(scripts.len(), 15);
    let pairs = |script: &Script| script.calls.windows(2).any(|pair| pair[0].step_id == pair[1].step_id);
    assert!(scripts.iter().any(|(_, script)| pairs(script)), "a block and its retry");
    let continues =
        |call: &Call| call.artifacts.iter().any(|artifact| json(artifact)["decision"] == "continue");
    assert!(
        scripts.iter().any(|(_, script)| script.calls.iter().any(continues)),
        "a loop that iterates again"
    );
}
