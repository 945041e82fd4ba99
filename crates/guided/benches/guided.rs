//! What a guided call costs, in units of what the disk costs.
//!
//! F is the time to create a file, write 4 KiB, sync it, rename it and sync the directory, measured
//! on the same disk in turns with the calls: a figure that moves with the machine, as they do. Ends
//! with 1 if a limit is broken. `cargo bench -p guided --bench guided`; `-- 1000` sets the number of
//! sessions to resume among, and the environment variable `BENCH_DIR` a directory on another disk.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalogue::{Catalogue, CatalogueOptions};
use guided::api::{ContinueRequest, Handle, Intent, Reply, ResumeRequest, StartRequest};
use guided::{Guided, GuidedOptions, Verifier};
use ports::wait;
use serde_json::{Value, json};
use storage::disk::RealDisk;
use storage::files::{FileSessions, SessionFiles};
use system::{SystemClock, SystemEntropy};

const STEPS: usize = 2_000;
const EDGE: usize = 20;
const STARTS: usize = 30;
/// How many advances there are to one measurement of F.
const FLOOR_EVERY: usize = 20;
/// The argument with which this program runs itself, to resume in a process that knows nothing.
const COLD: &str = "--resume-cold";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(place) = arguments.iter().position(|argument| argument == COLD) {
        resume_cold(Path::new(&arguments[place + 1]));
        return ExitCode::SUCCESS;
    }
    let sessions: usize = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(10_000);
    let disk = std::env::var_os("BENCH_DIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let directory = tempfile::tempdir_in(disk).unwrap();
    prepare(directory.path());
    let floor = Floor::new(directory.path());
    for _ in 0..STARTS {
        floor.once();
    }
    let mut table = Table::new();

    let guided = open(directory.path());
    let (first, _) = timed(1, || start(&guided, "bench.long"));
    table.time("the first start: the file is read and compiled", median(&first), None);
    let (mut starts, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        floors.push(floor.once());
        starts.extend(timed(1, || start(&guided, "bench.long")).0);
    }
    table.floors("start", median(&starts), median(&floors), 8.0);

    // The first and the last advances are made in turns, of a young run and of the old one: the disk is then the same for both. The very
    // first advance of a run also makes its lock.
    let mut young = advance(&guided, &token(&start(&guided, "bench.long")));
    let mut reply = start(&guided, "bench.long");
    let first_token = token(&reply);
    let mut before = (0, 0);
    let (mut advances, mut floors, mut early) = (Vec::with_capacity(STEPS), Vec::new(), Vec::new());
    for step in 0..STEPS {
        if step % FLOOR_EVERY == 0 {
            floors.push(floor.once());
        }
        if step == 1 {
            before = usage(directory.path());
        }
        if step >= STEPS - EDGE {
            let begin = Instant::now();
            young = advance(&guided, &token(&young));
            early.push(begin.elapsed());
        }
        let begin = Instant::now();
        let next = advance(&guided, &token(&reply));
        advances.push(begin.elapsed());
        reply = next;
    }
    let after = usage(directory.path());
    table.floors("advance", median(&advances), median(&floors), 5.0);
    let (early, late) = (median(&early), median(&advances[STEPS - EDGE..]));
    table.time("advance, the first 20, in turns with the next", early, None);
    table.times("advance, the last 20 of 2,000", late, early, 1.3);
    let each = |after: u64, before: u64| (after - before) as f64 / (STEPS - 1 + EDGE) as f64;
    table.row("an advance leaves", each(after.0, before.0), "B", 4000.0);
    table.row("an advance leaves", each(after.1, before.1), "files", 2.0);
    let rehydrates = timed(200, || call(&guided, &token(&reply), Intent::Rehydrate));
    table.time("rehydrate at step 2,000", median(&rehydrates.0), Some(1.0));
    let replays = timed(200, || advance(&guided, &first_token));
    table.time("replay of step 1 at step 2,000", median(&replays.0), Some(1.0));

    for number in 0..sessions {
        start_for(&guided, "bench.short", &format!("goal number {number}"));
    }
    let warm = timed(20, || wait(guided.resume(&query())).unwrap());
    table.time(&format!("resume among {sessions}, warm"), median(&warm.0), Some(25.0));
    drop(guided);
    let (cold, resident): (Vec<_>, Vec<_>) = (0..5).map(|_| in_new_process(directory.path())).unzip();
    table.time(&format!("resume among {sessions}, in a new process"), median(&cold), Some(250.0));
    match resident.into_iter().collect::<Option<Vec<f64>>>() {
        Some(mib) => {
            table.row("resident memory of that process", mib.into_iter().fold(0.0, f64::max), "MiB", 40.0);
        }
        None => println!("{:<50} cannot be measured on this system", "resident memory of that process"),
    }
    table.verdict()
}

/// What is printed, and whether every limit was kept.
struct Table {
    broken: usize,
}

impl Table {
    fn new() -> Self {
        println!("F = create + write 4 KiB + fsync + rename + fsync of the directory\n");
        println!("{:<50} {:>16}   limit", "", "p50");
        Self { broken: 0 }
    }

    fn time(&mut self, name: &str, time: Duration, limit_ms: Option<f64>) {
        match limit_ms {
            Some(limit) => self.row(name, ms(time), "ms", limit),
            None => println!("{name:<50} {:>10.3} ms", ms(time)),
        }
    }

    /// A time, and its limit in units of F.
    fn floors(&mut self, name: &str, time: Duration, floor: Duration, limit: f64) {
        println!("{:<50} {:>10.3} ms", "F, in turns with the next", ms(floor));
        println!("{name:<50} {:>10.3} ms", ms(time));
        self.row(name, ms(time) / ms(floor), "F", limit);
    }

    /// A time, and its limit as a multiple of another one.
    fn times(&mut self, name: &str, time: Duration, other: Duration, limit: f64) {
        println!("{name:<50} {:>10.3} ms", ms(time));
        self.row(name, ms(time) / ms(other), "times", limit);
    }

    fn row(&mut self, name: &str, measured: f64, unit: &str, limit: f64) {
        let kept = measured <= limit;
        self.broken += usize::from(!kept);
        let verdict = if kept { "kept" } else { "BROKEN" };
        println!("{name:<50} {measured:>10.3} {unit:<5}   {limit} {unit}: {verdict}");
    }

    fn verdict(self) -> ExitCode {
        match self.broken {
            0 => ExitCode::SUCCESS,
            broken => {
                println!("\n{broken} limits are broken");
                ExitCode::FAILURE
            }
        }
    }
}

fn query() -> ResumeRequest {
    ResumeRequest { query: Some("goal number 17".to_owned()), ..ResumeRequest::default() }
}

/// Resumes, and prints how long it took in nanoseconds and how much memory the process has in KiB.
fn resume_cold(directory: &Path) {
    let (time, _) = timed(1, || wait(open(directory).resume(&query())).unwrap());
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    println!("{} {}", time[0].as_nanos(), line.trim().trim_end_matches(" kB"));
}

/// The time of a resume in a process of its own, and its memory in MiB where the system tells.
fn in_new_process(directory: &Path) -> (Duration, Option<f64>) {
    let output = Command::new(std::env::current_exe().unwrap()).arg(COLD).arg(directory).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let (nanoseconds, kib) = printed.trim_end_matches('\n').split_once(' ').unwrap();
    let mib = kib.parse::<f64>().ok().map(|kib| kib / 1024.0);
    (Duration::from_nanos(nanoseconds.parse().unwrap()), mib)
}

fn prepare(directory: &Path) {
    let flows = directory.join("flows");
    fs::create_dir(&flows).unwrap();
    let step = |number: usize| {
        let id = format!("step-{number}");
        json!({"id": id, "title": id, "prompt": "Do it.", "notesOptional": true})
    };
    for (id, count) in [("bench.long", STEPS + 10), ("bench.short", 3)] {
        let steps: Vec<Value> = (0..count).map(step).collect();
        let workflow =
            json!({"id": id, "name": id, "description": "A benchmark.", "version": "1.0.0", "steps": steps});
        fs::write(flows.join(format!("{id}.json")), workflow.to_string()).unwrap();
    }
}

/// One durable file, made again and again.
struct Floor {
    folder: PathBuf,
    handle: File,
}

impl Floor {
    fn new(directory: &Path) -> Self {
        let folder = directory.join("floor");
        fs::create_dir(&folder).unwrap();
        Self { handle: File::open(&folder).unwrap(), folder }
    }

    fn once(&self) -> Duration {
        let begin = Instant::now();
        let temporary = self.folder.join("temporary");
        let mut file = File::create(&temporary).unwrap();
        file.write_all(&[7; 4096]).unwrap();
        file.sync_all().unwrap();
        fs::rename(&temporary, self.folder.join("final")).unwrap();
        self.handle.sync_all().unwrap();
        begin.elapsed()
    }
}

fn open(directory: &Path) -> Guided {
    let files = SessionFiles::open(Arc::new(RealDisk::open(&directory.join("data")).unwrap())).unwrap();
    let catalogue = Catalogue::new(CatalogueOptions {
        configured_dirs: vec![directory.join("flows")],
        ..CatalogueOptions::default()
    });
    Guided::new(GuidedOptions {
        store: Arc::new(FileSessions::new(files)),
        catalogue,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        verifier: Verifier::none(),
        advanced: Arc::default(),
    })
}

fn start(guided: &Guided, workflow_id: &str) -> Reply {
    start_for(guided, workflow_id, "measure")
}

fn start_for(guided: &Guided, workflow_id: &str, goal: &str) -> Reply {
    let request = StartRequest {
        workflow_id: workflow_id.to_owned(),
        goal: goal.to_owned(),
        ..StartRequest::default()
    };
    wait(guided.start(request)).unwrap()
}

fn advance(guided: &Guided, token: &str) -> Reply {
    call(guided, token, Intent::Advance)
}

fn call(guided: &Guided, token: &str, intent: Intent) -> Reply {
    wait(guided.proceed(ContinueRequest {
        handle: Handle::Single(token.to_owned()),
        intent,
        notes_markdown: None,
        artifacts: Vec::new(),
        context: None,
        preferences: None,
    }))
    .unwrap()
}

fn token(reply: &Reply) -> String {
    reply.continue_token.clone().unwrap()
}

fn timed<T>(count: usize, mut work: impl FnMut() -> T) -> (Vec<Duration>, T) {
    let mut times = Vec::with_capacity(count);
    let mut last = None;
    for _ in 0..count {
        let begin = Instant::now();
        last = Some(work());
        times.push(begin.elapsed());
    }
    (times, last.unwrap())
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Apparent bytes and files below the data directory.
fn usage(directory: &Path) -> (u64, u64) {
    fn walk(folder: &Path, total: &mut (u64, u64)) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                walk(&entry.path(), total);
            } else {
                *total = (total.0 + metadata.len(), total.1 + 1);
            }
        }
    }
    let mut total = (0, 0);
    walk(&directory.join("data"), &mut total);
    total
}
