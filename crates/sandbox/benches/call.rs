//! What a call costs, and one verdict: cold under 1 ms, warm under 100 µs. `cargo bench -p sandbox --bench call`.
//!
//! *Cold* is the first call of a module that is compiled but has never run: it is asked what it is, and its first instance
//! is made. *Warm* is every later call, each in an instance of its own. Both take the median of many turns, because the
//! slowest turn measures the machine. Compiling is measured beside them, without a limit. Ends with 1 if a limit is broken.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use sandbox::{DenyAll, Invocation, Options, Outcome, Sandbox, conformance};
use serde_json::json;

const MOST_COLD: Duration = Duration::from_millis(1);
const MOST_WARM: Duration = Duration::from_micros(100);

const COLD_TURNS: usize = 50;
const WARM_TURNS: usize = 5_000;

fn main() -> ExitCode {
    let mut kept = true;
    println!("{:<34}{:>12}{:>12}{:>12}{:>12}", "node", "compile", "cold", "warm", "warm p99");
    for type_id in ["vendor.openwop.rust-hello.greet", "well-behaved.echo", "misbehave.cross-pack-mutate"] {
        let example = conformance::module(type_id).expect("a module of ours");
        let mut invocation = Invocation::new(example.entry());
        invocation.inputs = json!({"name": "Ada", "input": {"text": "hello", "list": [1, 2, 3]}});
        invocation.grants = example.calls.iter().copied().collect();
        let (mut compile, mut cold) = (Vec::new(), Vec::new());
        for _ in 0..COLD_TURNS {
            // Without room in the cache, every turn compiles.
            let options = Options { cache_bytes: 0, ..Options::default() };
            let sandbox = Sandbox::with(&options).expect("an engine");
            let (module, took) = timed(|| sandbox.compile(example.bytes).expect("it compiles"));
            compile.push(took);
            let ((report, _), took) = timed(|| sandbox.invoke(&module, &invocation, DenyAll));
            assert!(matches!(report.result, Ok(Outcome::Completed { .. })), "{report:?}");
            cold.push(took);
        }
        let sandbox = Sandbox::new().expect("an engine");
        let warm = (0..WARM_TURNS).map(|_| {
            // With the look into the cache, as a host would.
            let ((report, _), took) = timed(|| {
                let module = sandbox.compile(example.bytes).expect("it compiles");
                sandbox.invoke(&module, &invocation, DenyAll)
            });
            assert!(matches!(report.result, Ok(Outcome::Completed { .. })), "{report:?}");
            took
        });
        let mut warm: Vec<Duration> = warm.collect();
        let (compile, cold, late) = (at(&mut compile, 50), at(&mut cold, 50), at(&mut warm, 99));
        let warm = at(&mut warm, 50);
        println!("{type_id:<34}{compile:>12.1?}{cold:>12.1?}{warm:>12.1?}{late:>12.1?}");
        kept &= cold < MOST_COLD && warm < MOST_WARM;
    }
    println!("{}", if kept { "within the limits" } else { "OVER THE LIMITS" });
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
