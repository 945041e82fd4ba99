//! The cost of an apply, relative to `cp -r` of the same tree on the same disk.
//!
//! All variants alternate in the same run, and the fastest turn of each counts, so that load
//! affects all equally. Exits with 1 if a limit is exceeded. `cargo bench -p workspace --bench
//! apply`; `-- 1000` sets the number of files, and `BENCH_DIR` a directory on another disk.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]
#![expect(clippy::unwrap_used, reason = "a failed step should stop the benchmark")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use workspace::Error;
use workspace::apply::{AgentUser, Applier, ApplyRequest, LeaseScope, Status, Verify};
use workspace::plan::{Source, ValidPlan};
use workspace::resolve::{Content, Item, ResolveRequest, Resolver, Sink};

const TURNS: usize = 5;

/// The time limit for detecting that a plan of 100 entries is already applied.
const MOST_CACHED: Duration = Duration::from_millis(5);

const FILE_BYTES: usize = 4096;
const FILES_PER_DIRECTORY: usize = 100;

fn main() -> ExitCode {
    let files: usize = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(10_000);
    let disk = std::env::var_os("BENCH_DIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let directory = tempfile::tempdir_in(disk).unwrap();
    let source = directory.path().join("source");
    make_tree(&source, files);
    let folder: Arc<dyn Resolver> = Arc::new(Folder(source.clone()));

    // Nothing is removed before the end: ext4 creates files slowly for some seconds after many were
    // removed, which would affect the next measurement. One root has the store; each turn writes to
    // a new root.
    let sides = [("linked from the store", AgentUser::Other), ("written", AgentUser::Same)];
    let (mut copied, mut applied) = (Duration::MAX, [Duration::MAX; 2]);
    for turn in 0..=TURNS {
        let began = Instant::now();
        let target = directory.path().join(format!("copy-{turn}"));
        assert!(Command::new("cp").arg("-r").arg(&source).arg(&target).status().unwrap().success());
        let copy = began.elapsed();
        for (side, (_, agent_user)) in sides.into_iter().enumerate() {
            let root = match agent_user {
                AgentUser::Other => directory.path().join("linked"),
                AgentUser::Same => directory.path().join(format!("written-{turn}")),
            };
            fs::create_dir_all(&root).unwrap();
            let applier = Applier::new(&root).unwrap();
            let plan = plan(1, turn);
            let scope = LeaseScope::of(&plan, 0);
            let request = ApplyRequest { agent_user, ..ApplyRequest::new(&plan, &scope, "bench") };
            let began = Instant::now();
            let report = applier.apply(&request, &folder, 1, &()).unwrap();
            let time = began.elapsed();
            assert_eq!(report.status, Status::Applied);
            // The first turn fills the store.
            if turn > 0 {
                applied[side] = applied[side].min(time);
            }
        }
        if turn > 0 {
            copied = copied.min(copy);
        }
    }
    println!("{files} files of {FILE_BYTES} bytes\n");
    println!("{:<28} {:>9}  {:>6}  limit", "", "time", "ratio");
    println!("{:<28} {:>6.1} ms  {:>6.2}", "cp -r", ms(copied), 1.0);
    let mut broken = false;
    for (side, (name, _)) in sides.iter().enumerate() {
        let ratio = applied[side].as_secs_f64() / copied.as_secs_f64();
        println!("{:<28} {:>6.1} ms  {ratio:>6.2}  1", format!("apply, {name}"), ms(applied[side]));
        broken |= ratio > 1.0;
    }
    let cached = cached(directory.path(), &folder);
    println!(
        "{:<28} {:>6.2} ms  {:>6}  {} ms",
        "in place, 100 entries",
        ms(cached),
        "",
        MOST_CACHED.as_millis()
    );
    broken |= cached > MOST_CACHED;
    if let Some(peak) = peak_memory() {
        println!("{:<28} {peak:>9}", "most memory");
    }
    if broken {
        println!("\nBROKEN: a limit above");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The time to detect that a plan of 100 entries is already applied.
fn cached(directory: &Path, folder: &Arc<dyn Resolver>) -> Duration {
    let root = directory.join("root-cached");
    fs::create_dir(&root).unwrap();
    let applier = Applier::new(&root).unwrap();
    let plan = plan(3, 0);
    let scope = LeaseScope::of(&plan, 0);
    let request = ApplyRequest { verify: Verify::None, ..ApplyRequest::new(&plan, &scope, "bench") };
    applier.apply(&request, folder, 1, &()).unwrap();
    let mut times: Vec<Duration> = (0..51)
        .map(|_| {
            let began = Instant::now();
            let report = applier.apply(&request, folder, 1, &()).unwrap();
            assert_eq!(report.status, Status::Cached);
            began.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

/// The peak memory of this process, as reported by the system.
fn peak_memory() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A plan with copies of the tree, and literals up to 100 entries.
fn plan(trees: usize, turn: usize) -> ValidPlan {
    let mut entries: Vec<Value> = Vec::new();
    for number in 0..trees {
        entries.push(json!({
            "mountKey": format!("tree-{number}"), "slot": "/workspace/references", "relPath": format!("{turn}/{number}"),
            "mode": "read-only", "source": {"kind": "kb-space", "spaceId": "s"},
        }));
    }
    for number in entries.len()..if trees > 1 { 100 } else { 1 } {
        entries.push(json!({
            "mountKey": format!("literal-{number}"), "slot": "/workspace/inputs", "relPath": format!("{number}.txt"),
            "mode": "read-only",
            "source": {"kind": "static-literal", "pathWithinWorkspace": "x", "bytes": "eA=="},
        }));
    }
    let plan = json!({"applyId": "a".repeat(64), "entries": entries});
    ValidPlan::check(&plan, Some(&[]), false).unwrap()
}

/// Returns every file of a folder for any request.
struct Folder(PathBuf);

impl Resolver for Folder {
    fn resolve(&self, want: ResolveRequest<'_>, sink: &mut dyn Sink) -> Result<(), Error> {
        assert!(matches!(want.source, Source::KbSpace { .. }));
        for directory in sorted(&self.0) {
            let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
            for file in sorted(&directory) {
                let rel_path = format!("{name}/{}", file.file_name().unwrap().to_str().unwrap());
                let content = Content::File(File::open(&file).unwrap());
                sink.put(Item { rel_path, executable: false, content })?;
            }
        }
        Ok(())
    }
}

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn make_tree(source: &Path, files: usize) {
    for number in 0..files {
        let directory = source.join(format!("d{:04}", number / FILES_PER_DIRECTORY));
        if number % FILES_PER_DIRECTORY == 0 {
            fs::create_dir_all(&directory).unwrap();
        }
        let bytes: Vec<u8> =
            format!("{number}: ").into_bytes().into_iter().cycle().take(FILE_BYTES).collect();
        fs::write(directory.join(format!("{number}.md")), bytes).unwrap();
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
