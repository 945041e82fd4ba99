//! Measures a call of `interlock hook`, from starting the process to its answer.
//!
//! A hook is called before every edit of an agent, so it has to answer within 20 ms: the median of a
//! directory with one open run and many complete ones. `cargo bench -p interlock --bench hook`; the
//! program exits with 1 if the limit is exceeded.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]
#![expect(clippy::unwrap_used, reason = "a failed step should stop the benchmark")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalogue::{Catalogue, CatalogueOptions};
use guided::api::StartRequest;
use guided::{Guided, GuidedOptions, Verifier};
use ports::wait;
use serde_json::json;
use storage::disk::RealDisk;
use storage::files::{FileSessions, SessionFiles};
use system::{SystemClock, SystemEntropy};

const LIMIT: Duration = Duration::from_millis(20);
const SESSIONS: usize = 200;
const CALLS: usize = 200;

fn main() -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let (data, workspace) = (folder.path().join("data"), folder.path().join("work"));
    std::fs::create_dir(&workspace).unwrap();
    let git = Command::new("git").arg("init").arg("--quiet").arg(&workspace).status().unwrap();
    assert!(git.success());
    start_sessions(&data, &workspace);
    let mut median = Duration::ZERO;
    for name in ["Stop", "PreToolUse", "SessionStart"] {
        let event = json!({
            "hook_event_name": name, "cwd": workspace, "session_id": "s", "tool_name": "Edit",
            "tool_input": {"file_path": "a.rs"},
        });
        let mut times: Vec<Duration> = (0..CALLS).map(|_| call(&data, &event.to_string())).collect();
        times.sort_unstable();
        let (half, slow) = (times[CALLS / 2], times[CALLS * 99 / 100]);
        println!("{name:<14} p50 {half:>10.2?}   p99 {slow:>10.2?}");
        median = median.max(half);
    }
    let kept = median <= LIMIT;
    println!("limit          p50 {LIMIT:>10.2?}   {}", if kept { "kept" } else { "EXCEEDED" });
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn start_sessions(data: &Path, workspace: &Path) {
    let files = SessionFiles::open(Arc::new(RealDisk::open(data).unwrap())).unwrap();
    let catalogue = Catalogue::new(CatalogueOptions::default());
    let guided = Guided::new(GuidedOptions {
        store: Arc::new(FileSessions::new(files)),
        catalogue,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        verifier: Verifier::none(),
        advanced: Arc::default(),
    });
    for number in 0..SESSIONS {
        // Only the last one is about this workspace.
        let workspace = (number + 1 == SESSIONS).then(|| workspace.to_owned());
        let request = StartRequest {
            workflow_id: "wr.bug_investigation".to_owned(),
            goal: format!("bug {number}"),
            workspace,
            ..StartRequest::default()
        };
        wait(guided.start(request)).unwrap();
    }
}

fn call(data: &Path, event: &str) -> Duration {
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_interlock"))
        .args(["hook", "claude-code", "--data-dir"])
        .arg(data)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(event.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let time = begun.elapsed();
    assert!(output.status.success());
    time
}
