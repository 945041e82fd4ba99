//! What a call costs, and one verdict: cold under 1 ms, warm under 100 µs. `cargo bench -p sandbox --bench call`; `-- --short` for fewer
//! turns.
//!
//! *Cold* is the first call of a module that is compiled but has never run: it is asked what it is, and its first instance
//! is made. *Warm* is every later call, each in an instance of its own. Both take the median of many turns, because the
//! slowest turn measures the machine. Compiling is measured beside them, without a limit. Ends with 1 if a limit is broken.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use sandbox::{DenyAll, Invocation, NodeOutcome, Options, Sandbox, conformance};
use serde_json::json;

const MOST_COLD: Duration = Duration::from_millis(1);
const MOST_WARM: Duration = Duration::from_micros(100);

/// Cold and warm.
const TURNS: (usize, usize) = (50, 5_000);
const SHORT: (usize, usize) = (15, 1_000);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test` only checks that it builds.
    if arguments.iter().any(|argument| argument == "--test" || argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let is_short = arguments.iter().any(|argument| argument == "--short");
    let (cold_turns, warm_turns) = if is_short { SHORT } else { TURNS };
    let mut broken = Vec::new();
    println!("{:<34}{:>12}{:>12}{:>12}{:>12}", "node", "compile", "cold", "warm", "warm p99");
    for type_id in ["vendor.openwop.rust-hello.greet", "well-behaved.echo", "misbehave.cross-pack-mutate"] {
        let example = conformance::module(type_id).expect("a module of ours");
        let mut invocation = Invocation::new(example.entry());
        invocation.inputs = json!({"name": "Ada", "input": {"text": "hello", "list": [1, 2, 3]}});
        invocation.grants = example.calls.iter().copied().collect();
        let (mut compile, mut cold) = (Vec::new(), Vec::new());
        for _ in 0..cold_turns {
            // Without room in the cache, every turn compiles.
            let options = Options { cache_bytes: 0, ..Options::default() };
            let sandbox = Sandbox::with(&options).expect("an engine");
            let (module, took) = timed(|| sandbox.compile(example.bytes).expect("it compiles"));
            compile.push(took);
            let ((report, _), took) = timed(|| sandbox.invoke(&module, &invocation, DenyAll));
            assert!(matches!(report.result, Ok(NodeOutcome::Completed { .. })), "{report:?}");
            cold.push(took);
        }
        let sandbox = Sandbox::new().expect("an engine");
        let warm = (0..warm_turns).map(|_| {
            // With the look into the cache, as a host would.
            let ((report, _), took) = timed(|| {
                let module = sandbox.compile(example.bytes).expect("it compiles");
                sandbox.invoke(&module, &invocation, DenyAll)
            });
            assert!(matches!(report.result, Ok(NodeOutcome::Completed { .. })), "{report:?}");
            took
        });
        let mut warm: Vec<Duration> = warm.collect();
        let (compile, cold, late) = (at(&mut compile, 50), at(&mut cold, 50), at(&mut warm, 99));
        let warm = at(&mut warm, 50);
        println!("{type_id:<34}{compile:>12.1?}{cold:>12.1?}{warm:>12.1?}{late:>12.1?}");
        if cold >= MOST_COLD {
            broken.push(format!("{type_id}, cold, under {MOST_COLD:?}"));
        }
        if warm >= MOST_WARM {
            broken.push(format!("{type_id}, warm, under {MOST_WARM:?}"));
        }
    }
    if broken.is_empty() {
        println!("\nEvery limit holds: cold under {MOST_COLD:?}, warm under {MOST_WARM:?}.");
        return ExitCode::SUCCESS;
    }
    println!("\nBroken: {}.", broken.join("; "));
    ExitCode::FAILURE
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}

fn at(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}
