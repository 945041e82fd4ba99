//! What an append costs, beside what the disk charges for one durable file.
//!
//! ```text
//! cargo run --release -p storage --example append_cost -- [DIRECTORY] [ADVANCES]
//! ```
//!
//! F is the floor: create a file, write 4 KiB, fsync, rename, fsync of the directory.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "an example that prints figures")]

#[path = "../tests/it/support.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use storage::disk::RealDisk;
use storage::files::SessionFiles;
use support::SampleSession;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let base = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let advances: usize = arguments.next().map_or(2000, |text| text.parse().unwrap());
    let dir = tempfile::tempdir_in(base).unwrap();
    let mut floors: Vec<_> = (0..200).map(|number| floor(dir.path(), number)).collect();
    let files = SessionFiles::open(Arc::new(RealDisk::open(&dir.path().join("data")).unwrap())).unwrap();
    let mut starts: Vec<_> = (0..50)
        .map(|number| {
            let start = SampleSession::new(&format!("start-{number}")).start();
            timed(|| drop(start.create(&files).unwrap()))
        })
        .collect();
    let mut walk = SampleSession::new("measured");
    let mut cursor = walk.start().create(&files).unwrap().cursor;
    let mut appends = Vec::with_capacity(advances);
    for _ in 0..advances {
        let step = walk.advance("A few words about what was done in this step.");
        appends.push(timed(|| cursor = step.append(&files, Some(&cursor)).unwrap().cursor));
        floors.push(floor(dir.path(), 0));
    }
    let loading = Instant::now();
    let fresh = SessionFiles::open(Arc::new(RealDisk::open(&dir.path().join("data")).unwrap())).unwrap();
    let events = fresh.load(&walk.session).unwrap().events.len();
    let loaded = loading.elapsed();
    let tip = timed(|| drop(fresh.snapshot(walk.snapshot().snapshot_ref()).unwrap()));
    let first = median(&mut appends[..20].to_vec());
    let last = median(&mut appends[advances - 20..].to_vec());
    let (floor, start, append) = (median(&mut floors), median(&mut starts), median(&mut appends));
    let times = |time: Duration| time.as_secs_f64() / floor.as_secs_f64();
    println!("F                       {floor:?}");
    println!("start p50               {start:?}  = {:.2} F", times(start));
    println!("append p50              {append:?}  = {:.2} F", times(append));
    println!(
        "first 20, last 20       {first:?}, {last:?}  = {:.2}",
        last.as_secs_f64() / first.as_secs_f64()
    );
    println!("cold load               {loaded:?} for {events} events");
    println!("cold tip snapshot       {tip:?}");
}

fn timed(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

fn floor(dir: &Path, number: usize) -> Duration {
    let (from, to) = (dir.join("floor.tmp"), dir.join(format!("floor-{number}")));
    timed(|| {
        use std::io::Write as _;
        let mut file = std::fs::File::create(&from).unwrap();
        file.write_all(&[b'x'; 4096]).unwrap();
        file.sync_all().unwrap();
        std::fs::rename(&from, &to).unwrap();
        std::fs::File::open(dir).unwrap().sync_all().unwrap();
    })
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
