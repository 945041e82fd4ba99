//! What a guided call costs, in units of what the disk costs.
//!
//! F is the time to create a file, write 4 KiB, sync it, rename it and sync the directory, measured
//! on the same disk in the same run: a figure that moves with the machine, as the calls do.
//! `cargo bench -p host --bench guided`; `-- 1000` sets the number of sessions to resume among.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use host::catalogue::{Catalogue, CatalogueOptions};
use host::guided::Guided;
use host::guided::api::{ContinueRequest, Handle, Intent, Reply, ResumeRequest, StartRequest};
use host::system::{SystemClock, SystemEntropy};
use serde_json::{Value, json};
use storage::disk::RealDisk;
use storage::files::SessionFiles;

const STEPS: usize = 2_000;
const EDGE: usize = 20;

fn main() {
    let sessions: usize =
        std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(10_000);
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    prepare(directory.path());
    let f = floor(directory.path());
    println!("F = create + write 4 KiB + fsync + rename + fsync of the directory: {:.2} ms\n", ms(f));
    println!("{:<44} {:>10} {:>8}  limit", "", "p50", "in F");
    let row = |name: &str, time: Duration, limit: &str| {
        println!("{name:<44} {:>7.3} ms {:>8.2}  {limit}", ms(time), time.as_secs_f64() / f.as_secs_f64());
    };

    let guided = open(directory.path());
    let starts = timed(30, || start(&guided, "bench.long"));
    row("start", median(&starts.0), "8 F");

    let mut reply = start(&guided, "bench.long");
    let first_token = token(&reply);
    let before = usage(directory.path());
    let mut advances = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        let begin = Instant::now();
        let next = advance(&guided, &token(&reply));
        advances.push(begin.elapsed());
        reply = next;
    }
    let after = usage(directory.path());
    row("advance", median(&advances), "5 F");
    row("advance, the first 20", median(&advances[..EDGE]), "");
    row("advance, the last 20 of 2,000", median(&advances[STEPS - EDGE..]), "1.3 times the first 20");
    println!(
        "{:<44} {:>7.0} B  {:>6.2} files",
        "an advance leaves",
        (after.0 - before.0) as f64 / STEPS as f64,
        (after.1 - before.1) as f64 / STEPS as f64
    );
    let rehydrates = timed(200, || call(&guided, &token(&reply), Intent::Rehydrate));
    row("rehydrate at step 2,000", median(&rehydrates.0), "1 ms");
    let replays = timed(200, || advance(&guided, &first_token));
    row("replay of step 1 at step 2,000", median(&replays.0), "1 ms");

    for number in 0..sessions {
        start_for(&guided, "bench.short", &format!("goal number {number}"));
    }
    let query = || ResumeRequest { query: Some("goal number 17".to_owned()), ..ResumeRequest::default() };
    let warm = timed(20, || guided.resume(&query()).unwrap());
    row(&format!("resume among {sessions}, warm"), median(&warm.0), "25 ms");
    drop(guided);
    let cold = timed(5, || open(directory.path()).resume(&query()).unwrap());
    row(&format!("resume among {sessions}, cold"), median(&cold.0), "250 ms");
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

/// The time of one durable file.
fn floor(directory: &Path) -> Duration {
    let folder = directory.join("floor");
    fs::create_dir(&folder).unwrap();
    let handle = File::open(&folder).unwrap();
    let content = vec![7_u8; 4096];
    let (times, ()) = timed(200, || {
        let temporary = folder.join("temporary");
        let mut file = File::create(&temporary).unwrap();
        file.write_all(&content).unwrap();
        file.sync_all().unwrap();
        fs::rename(&temporary, folder.join("final")).unwrap();
        handle.sync_all().unwrap();
    });
    median(&times)
}

fn open(directory: &Path) -> Guided {
    let files = SessionFiles::open(Arc::new(RealDisk::open(&directory.join("data")).unwrap())).unwrap();
    let catalogue = Catalogue::new(CatalogueOptions {
        configured_dirs: vec![directory.join("flows")],
        ..CatalogueOptions::default()
    });
    Guided::new(files, catalogue, Arc::new(SystemClock), Arc::new(SystemEntropy))
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
    guided.start(request).unwrap()
}

fn advance(guided: &Guided, token: &str) -> Reply {
    call(guided, token, Intent::Advance)
}

fn call(guided: &Guided, token: &str, intent: Intent) -> Reply {
    guided
        .proceed(ContinueRequest {
            handle: Handle::Single(token.to_owned()),
            intent,
            notes_markdown: None,
            artifacts: Vec::new(),
            context: None,
            preferences: None,
        })
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
