//! What the surfaces cost beside the statements below them, in one run on one disk.
//!
//! `cargo bench -p surfaces --bench surfaces`, with `-- --short` for fewer rounds. `BENCH_DIR` names a directory on another disk.
//!
//! What is compared takes turns, so that a slow moment of the machine meets both, and the median of the rounds counts. Both sides have
//! the same table and the same durability: a log, an fsync for each commit. Keys, values and arguments are made before the clock starts.
//! Ends with 1 when a limit is broken.
#![expect(clippy::print_stdout, reason = "figures are what this program is for")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

#[path = "../figures.rs"]
mod figures;
mod kv;
mod queue;
mod raw;
mod unrelated;

use std::process::ExitCode;
use std::sync::Arc;

use canon::time::Timestamp;
use serde_json::{Value, json};
use surfaces::{Options, Scope, Surface, SurfaceCall, Surfaces, Tenant};
use tokio::runtime::Runtime;

use self::figures::Table;
use self::raw::Raw;

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const KEYS: usize = 10_000;
const CALLERS: usize = 64;
/// The threads of the runtime, and those of the raw side where it has more than one.
const WORKERS: usize = 2;

/// What every part needs.
struct Bench {
    rounds: usize,
    runtime: Runtime,
    surfaces: Arc<Surfaces>,
    raw: Raw,
    folder: tempfile::TempDir,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test` only checks that it builds.
    if arguments.iter().any(|argument| argument == "--test" || argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let is_short = arguments.iter().any(|argument| argument == "--short");
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|wanted| part.contains(wanted.as_str()));

    let disk = std::env::var_os("BENCH_DIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let folder = tempfile::tempdir_in(disk).unwrap();
    let surfaces = Arc::new(Surfaces::open(&Options::new(folder.path().join("surfaces"))).unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().unwrap();
    let raw = Raw::create(folder.path());
    let bench = Bench { rounds: if is_short { 3 } else { 9 }, runtime, surfaces, raw, folder };
    let mut table = Table::default();
    kv::fill(&bench);
    if wants("get") {
        kv::gets(&bench, &mut table);
    }
    if wants("set") {
        kv::sets(&bench, &mut table);
    }
    if wants("queue") {
        queue::queue(&bench, &mut table);
    }
    if wants("unrelated") {
        unrelated::unrelated(&bench, &mut table);
    }
    table.verdict()
}

fn tenant() -> Tenant {
    Tenant::new("bench").unwrap()
}

fn scope() -> Scope {
    Scope::new(tenant(), NOW)
}

fn call(op: &str, args: Value) -> SurfaceCall {
    let Value::Object(args) = args else { unreachable!("arguments are an object") };
    SurfaceCall { tenant: tenant(), surface: Surface::Kv, op: op.to_owned(), args, effect: None, now: NOW }
}

fn key(n: usize) -> String {
    format!("key/{:06}", n * 7919 % KEYS)
}

fn value(n: usize) -> Value {
    json!({"n": n, "text": "a value of some sixty bytes, which is what most of them have"})
}

fn rate(count: usize, took: std::time::Duration) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a count of some thousands")]
    let count = count as f64;
    format!("{:.0} /s", count / took.as_secs_f64())
}
