//! One table, and one verdict: composing costs at most twice what `serde_json` takes to read
//! the same input, and grows no faster than n log n.
//!
//! Both sides of a ratio are measured in turns in the same run, and the fastest turn of each
//! counts, so that a busy machine moves both or neither. Ends with 1 if a limit is broken.
//! `cargo bench -p composition --bench ratio`; give the name of a shape to run only that one.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]
#![expect(clippy::disallowed_methods, reason = "the kernel has no clock, but a benchmark needs one")]
#![expect(clippy::cast_precision_loss, reason = "sizes and times are far below 2^52")]

mod allocations;
mod shapes;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use allocations::Counted;
use canon::json::{self, Limits};
use composition::{Input, compose};
use serde_json::Value;
use shapes::Shape;

/// How much longer than `serde_json` takes to read the input composing may take.
const MOST_PER_PARSE: f64 = 2.0;

/// How much faster than n log n the time may grow; caches alone account for some of it.
const MOST_GROWTH: f64 = 2.0;

/// How much smaller the small input is that growth is measured from.
const GROWTH_STEP: usize = 100;

/// How long the turns of one size of one shape go on, and how many there are at least.
const PATIENCE: Duration = Duration::from_secs(3);
const FEWEST_TURNS: usize = 5;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

fn main() -> ExitCode {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    println!(
        "{:<20} {:>7} {:>8}  {:>9} {:>9} {:>9} {:>9}  {:>7} {:>7}  {:>8} {:>8}",
        "shape",
        "n",
        "KiB",
        "serde_json",
        "strict",
        "compose",
        "write",
        "ratio",
        "growth",
        "allocs/n",
        "memory"
    );
    let mut broken = Vec::new();
    for shape in shapes::ALL {
        if wanted.is_empty() || wanted.iter().any(|name| shape.name.contains(name.as_str())) {
            broken.extend(report(shape));
        }
    }
    println!();
    println!(
        "times in ms; ratio = compose / serde_json; growth = compose, relative to n log n, from n / 100;"
    );
    println!("memory = most that composing holds at once / size of the parsed input");
    for fault in &broken {
        println!("BROKEN: {fault}");
    }
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Measures one shape, prints its row, and returns the limits it breaks.
fn report(shape: Shape) -> Vec<String> {
    let small = measure(shape, shape.full / GROWTH_STEP);
    let full = measure(shape, shape.full);
    let ratio = full.compose.as_secs_f64() / full.parse.as_secs_f64();
    let n_log_n = |size: usize| size as f64 * (size as f64).ln();
    let growth = full.compose.as_secs_f64()
        / small.compose.as_secs_f64()
        / (n_log_n(shape.full) / n_log_n(shape.full / GROWTH_STEP));
    println!(
        "{:<20} {:>7} {:>8}  {:>9.2} {:>9.2} {:>9.2} {:>9.2}  {ratio:>7.2} {growth:>7.2}  {:>8.2} {:>8.2}",
        shape.name,
        shape.full,
        full.input_bytes / 1024,
        milliseconds(full.parse),
        milliseconds(full.strict),
        milliseconds(full.compose),
        milliseconds(full.write),
        full.composing.allocations as f64 / shape.full as f64,
        full.composing.peak_bytes as f64 / full.parsing.peak_bytes as f64,
    );
    let mut broken = Vec::new();
    if ratio > MOST_PER_PARSE {
        broken.push(format!("{} composes in {ratio:.2} times what reading takes", shape.name));
    }
    if growth > MOST_GROWTH {
        broken.push(format!("{} grows {growth:.2} times faster than n log n", shape.name));
    }
    broken
}

/// The fastest turns, and what was allocated in a turn of its own.
struct Measured {
    input_bytes: usize,
    parse: Duration,
    strict: Duration,
    compose: Duration,
    write: Duration,
    parsing: Counted,
    composing: Counted,
}

fn measure(shape: Shape, size: usize) -> Measured {
    let value = (shape.build)(size);
    let bytes = serde_json::to_vec(&value).expect("a value is JSON");
    // As a program has it: parsed from bytes, in document order.
    drop(value);
    let parse = || serde_json::from_slice::<Value>(&bytes).expect("written by serde_json");
    let (_, parsing) = allocations::count(parse);
    let input = Input::read(&bytes).expect("no shape is refused");
    let (_, composing) = allocations::count(|| compose(&input));

    let mut fastest = [Duration::MAX; 4];
    let begin = Instant::now();
    let mut turn = 0;
    while turn < FEWEST_TURNS || begin.elapsed() < PATIENCE {
        let (_, parsed) = time(parse);
        let (_, read) = time(|| json::read(&bytes, &Limits::default()));
        let (outcome, composed) = time(|| compose(&input));
        let (_, written) = time(|| serde_json::to_vec(&outcome));
        let turns = [parsed, read, composed, written];
        for (fastest, turn) in fastest.iter_mut().zip(turns) {
            *fastest = turn.min(*fastest);
        }
        turn += 1;
    }
    let [parse, strict, compose, write] = fastest;
    Measured { input_bytes: bytes.len(), parse, strict, compose, write, parsing, composing }
}

/// How long `work` takes, without what it takes to drop the result.
fn time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let result = std::hint::black_box(work());
    (result, begin.elapsed())
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
