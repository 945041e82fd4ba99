//! Measures the server relative to the cost of the disk and the network.
//!
//! `cargo bench -p interlock --bench runs` measures everything in a few minutes; `-- --short` in
//! less than one, with fewer runs in the store; `-- --full` uses a million events and longer
//! measurements. On the same disk it also measures a durable append of 4 KiB, a minimal server, and
//! a minimal server that writes a durable row; the limits are ratios to these. `interlock serve`
//! runs with default settings: full durability, with its log discarded.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]
#![expect(clippy::unwrap_used, reason = "a failed step should stop the benchmark")]

mod client;
mod figures;
mod neighbours;
mod requests;
mod servers;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::{Connection, Measurement, Until, drive};
use crate::figures::{Limit, Samples, Table, ms};
use crate::requests::{Create, Replay, Same, Snapshots, Then, listed, recorded};
use crate::servers::{Served, serve_if_asked};

const CLIENTS: [(u64, &str); 3] = [(1, "one"), (16, "sixteen"), (64, "many")];
/// How often two measurements alternate.
const TURNS: u64 = 3;

struct Scale {
    seconds: f64,
    finished: u64,
    events: u64,
}

impl Scale {
    fn asked() -> Self {
        let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
        if asked("--full") {
            Self { seconds: 5.0, finished: 100_000, events: 1_000_000 }
        } else if asked("--short") {
            Self { seconds: 1.5, finished: 10_000, events: 60_000 }
        } else {
            Self { seconds: 3.0, finished: 100_000, events: 450_000 }
        }
    }
}

fn main() -> ExitCode {
    if serve_if_asked() {
        return ExitCode::SUCCESS;
    }
    // A single thread, so that the client uses as little of the machine as possible.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if runtime.block_on(measure(&Scale::asked())) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The reference servers. They keep running, to be measured alternately.
struct Yardsticks {
    /// Responds immediately.
    hello: Served,
    /// Responds after a row is durable.
    bare: Served,
}

async fn measure(scale: &Scale) -> bool {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut table = Table::default();
    let until = Until::Seconds(scale.seconds);
    let yardsticks = Yardsticks {
        hello: Served::bare("hello", folder.path()),
        bare: Served::bare("commit", folder.path()),
    };
    let served = Served::interlock(folder.path(), "old");

    runs(&mut table, &served, &yardsticks, folder.path(), scale).await;
    reads(&mut table, &served, &yardsticks, scale).await;
    streams(&table, &served, until).await;
    let served = restart(&mut table, served, folder.path(), scale).await;
    everywhere(&table, &served, &yardsticks, scale).await;
    grown(&mut table, &served, folder.path(), scale).await;
    neighbours::beside(&mut table, &served, until).await;
    served.stop();
    table.verdict()
}

fn rate(outcome: &mut Measurement) -> String {
    let (p50, p99) = (ms(outcome.whole.p50()), ms(outcome.whole.p99()));
    format!("{:.0}/s, p50 {p50:.2} p99 {p99:.2} ms", outcome.per_second())
}

/// The cost of a durable append on this disk.
fn fsync(folder: &Path) -> Duration {
    let mut file = File::create(folder.join("floor")).unwrap();
    let mut samples = Samples::default();
    for _ in 0..300 {
        let begin = Instant::now();
        file.write_all(&[0; 4096]).unwrap();
        file.sync_data().unwrap();
        samples.add(begin.elapsed());
    }
    samples.p50()
}

/// Runs created and read until completed, alternating with the minimal server.
async fn runs(table: &mut Table, served: &Served, yardsticks: &Yardsticks, folder: &Path, scale: &Scale) {
    table.title("Runs that do nothing, created under a fresh key and read until completed");
    let until = Until::Seconds(scale.seconds / 2.0);
    for (clients, name) in CLIENTS {
        let (mut ours, mut bare) = (Measurement::default(), Measurement::default());
        let mut floor = Duration::ZERO;
        for turn in 0..TURNS {
            floor += fsync(folder) / u32::try_from(TURNS).unwrap();
            bare.add(drive(yardsticks.bare.address, clients, until, Same::post()).await);
            let work = Create::nothing(&format!("{name}-{turn}"), Then::Completed);
            ours.add(drive(served.address, clients, until, work).await);
        }
        table.plain(&format!("hello once a row is durable, {clients} clients"), &rate(&mut bare));
        let (what, message) = (format!("{clients} clients"), rate(&mut ours));
        match clients {
            1 => {
                let ratio = ours.whole.p50().as_secs_f64() / floor.as_secs_f64();
                let of = format!("appends of {:.3} ms at p50", ms(floor));
                table.limited(&what, &message, ratio, &of, Limit::AtMost(4.0));
            }
            64 => {
                let ratio = ours.whole.spread() / bare.whole.spread();
                table.limited(&what, &message, ratio, "of the bare server's p99 / p50", Limit::AtMost(1.5));
            }
            _ => table.plain(&what, &message),
        }
    }
    let work = Create::nothing("acknowledged", Then::Nothing);
    let mut outcome = drive(served.address, 64, Until::Seconds(scale.seconds), work).await;
    table.plain("created only, 64 clients", &rate(&mut outcome));
}

async fn reads(table: &mut Table, served: &Served, yardsticks: &Yardsticks, scale: &Scale) {
    table.title("Reads and replays, 64 clients");
    let mut connection = Connection::open(served.address).await.unwrap();
    let recent = listed(&mut connection, 200).await;
    let what = "snapshots of runs that ended lately";
    let (message, ratio) = compared(table, served, yardsticks, &recent, scale).await;
    table.limited(what, &message, ratio, "of hello", Limit::AtLeast(0.6));
    let mut outcome = drive(served.address, 64, Until::Seconds(scale.seconds), Replay(64)).await;
    table.plain("idempotent replays", &rate(&mut outcome));
}

/// Snapshots of some runs, alternating with the minimal server: the rate, and the ratio.
async fn compared(
    table: &Table,
    served: &Served,
    yardsticks: &Yardsticks,
    runs: &Arc<[String]>,
    scale: &Scale,
) -> (String, f64) {
    let until = Until::Seconds(scale.seconds / 2.0);
    let (mut ours, mut hello) = (Measurement::default(), Measurement::default());
    for _ in 0..TURNS {
        hello.add(drive(yardsticks.hello.address, 64, until, Same::get("/")).await);
        ours.add(drive(served.address, 64, until, Snapshots(Arc::clone(runs))).await);
    }
    table.plain("hello", &rate(&mut hello));
    (rate(&mut ours), ours.per_second() / hello.per_second())
}

async fn streams(table: &Table, served: &Served, until: Until) {
    table.title("Streams: a run is created and its events are read to the end");
    for (clients, name) in [(1, "stream-one"), (64, "stream-many")] {
        let work = Create::nothing(name, Then::Streamed);
        let mut outcome = drive(served.address, clients, until, work).await;
        let first = ms(outcome.first.p50());
        let message = format!("{:.0} events/s, first after {first:.2} ms", outcome.events_per_second());
        table.plain(&format!("{clients} clients"), &message);
    }
}

async fn restart(table: &mut Table, served: Served, folder: &Path, scale: &Scale) -> Served {
    let work = Create::nothing("finished", Then::Nothing);
    drive(served.address, 64, Until::Turns(scale.finished), work).await;
    table.title(&format!("Start-up with more than {} finished runs in the store", scale.finished));
    table.plain("memory before the stop", &format!("{:.0} MiB", served.resident()));
    served.stop();
    let mut best: Option<Served> = None;
    for _ in 0..5 {
        let startup = best.take().map(|served| {
            let startup = served.startup;
            served.stop();
            startup
        });
        let mut again = Served::interlock(folder, "old");
        again.startup = startup.map_or(again.startup, |startup| startup.min(again.startup));
        best = Some(again);
    }
    let served = best.expect("it was started");
    // A third of what the protocol's reference host (Node, SQLite) needs with as many runs: 140 ms.
    let message = format!("{:.1} ms", ms(served.startup));
    table.limited("until it listens", &message, ms(served.startup) / 47.0, "of 47 ms", Limit::AtMost(1.0));
    table.plain("memory after the start", &format!("{:.0} MiB", served.resident()));
    served
}

/// Reads of runs that are not in memory.
async fn everywhere(table: &Table, served: &Served, yardsticks: &Yardsticks, scale: &Scale) {
    let mut connection = Connection::open(served.address).await.unwrap();
    let all = listed(&mut connection, 50_000).await;
    let (message, share) = compared(table, served, yardsticks, &all, scale).await;
    table.plain(
        &format!("snapshots of any of {} runs", all.len()),
        &format!("{message}, {share:.2} of hello"),
    );
}

/// The rate with a large store, alternating with a new one.
async fn grown(table: &mut Table, old: &Served, folder: &Path, scale: &Scale) {
    let mut connection = Connection::open(old.address).await.unwrap();
    let some = listed(&mut connection, 1).await;
    let each = recorded(&mut connection, &some[0]).await;
    let more = scale.events.saturating_sub(scale.finished * each) / each;
    let work = Create::nothing("more", Then::Nothing);
    drive(old.address, 64, Until::Turns(more), work).await;
    let least = scale.events.max(scale.finished * each);
    table.title(&format!(
        "Growth: a store of more than {least} events, alternating with a new one, 64 clients"
    ));
    let new = Served::interlock(folder, "new");
    let until = Until::Seconds(scale.seconds / 2.0);
    let (mut before, mut after) = (Measurement::default(), Measurement::default());
    for turn in 0..TURNS {
        let work = |name: &str| Create::nothing(&format!("{name}-{turn}"), Then::Completed);
        before.add(drive(new.address, 64, until, work("early")).await);
        after.add(drive(old.address, 64, until, work("late")).await);
    }
    table.plain("new", &rate(&mut before));
    let ratio = after.per_second() / before.per_second();
    table.limited("grown", &rate(&mut after), ratio, "of the rate of a new one", Limit::AtLeast(0.9));
    new.stop();
}
