//! What the surfaces for vectors and texts cost, beside the engines below them.
//!
//! `cargo bench -p surfaces --bench data` fills files with 100,000 vectors of 384 numbers and 100,000 documents; `-- --short` with a tenth of
//! them, and a number as argument with as many. `BENCH_DIR` names a directory on another disk. Queries go through the port, straight to
//! the engine and, for vectors, over memory as a scan that does nothing else; the three take turns, and the median counts. The engines
//! have the same settings and answer the same queries. Ends with 1 when a limit is broken.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

#[expect(dead_code, reason = "another program uses the rest")]
#[path = "../figures.rs"]
mod figures;
mod numbers;
mod texts;
mod vectors;

use std::process::ExitCode;
use std::time::Duration;

use canon::time::Timestamp;
use surfaces::{Scope, Tenant};
use tokio::runtime::Runtime;

use self::figures::Table;

const TOP: usize = 10;
const ROUNDS: usize = 21;
/// As many as one call takes.
const BATCH: usize = 500;

/// What both parts need.
struct Bench {
    count: usize,
    runtime: Runtime,
    scope: Scope,
    folder: tempfile::TempDir,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test` only checks that it builds.
    if arguments.iter().any(|argument| argument == "--test" || argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let is_short = arguments.iter().any(|argument| argument == "--short");
    let usual = if is_short { 10_000 } else { 100_000 };
    let count = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(usual);
    let disk = std::env::var_os("BENCH_DIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let bench = Bench {
        count,
        runtime: tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap(),
        scope: Scope::new(Tenant::new("acme").unwrap(), Timestamp(1_700_000_000_000)),
        folder: tempfile::tempdir_in(disk).unwrap(),
    };
    let mut table = Table::default();
    let only = |part: &str| arguments.iter().any(|argument| argument == part);
    if !only("texts") {
        vectors::vectors(&bench, &mut table);
    }
    if !only("vectors") {
        texts::texts(&bench, &mut table);
    }
    table.verdict()
}

fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}
