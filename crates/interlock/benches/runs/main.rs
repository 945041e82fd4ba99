//! What a host of runs costs, in units of what the disk and the network cost.
//!
//! `cargo bench -p interlock --bench runs` measures everything in a few minutes; `-- --short` in less than one, with fewer runs
//! in the store, and `-- --full` takes a million events and longer measurements. In the same run, on the same disk, it measures a
//! durable append of 4 KiB, a server that says hello, and one that says hello once a row is durable; the limits are ratios to
//! these. `interlock serve` runs as it comes: at full durability, with its log, which is thrown away.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

mod client;
mod figures;
mod requests;
mod servers;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::client::{Connection, Outcome, Until, drive};
use crate::figures::{Limit, Samples, Table, ms};
use crate::requests::{Create, Replay, Same, Snapshots, Then, listed};
use crate::servers::{Served, serve_if_asked};

const CLIENTS: [u64; 3] = [1, 16, 64];
/// The events of a run that does nothing.
const EVENTS_OF_A_RUN: u64 = 4;

/// How much is measured.
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
    // One thread: the client takes no more of the machine than it has to.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if runtime.block_on(measure(&Scale::asked())) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The yardsticks of this run.
struct Yardsticks {
    fsync: Duration,
    hello: f64,
    spread: f64,
}

async fn measure(scale: &Scale) -> bool {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut table = Table::default();
    let yardsticks = yardsticks(&table, folder.path(), scale).await;
    let served = Served::interlock(folder.path());
    let until = Until::Seconds(scale.seconds);

    let before = runs(&mut table, &served, &yardsticks, until).await;
    reads(&mut table, &served, &yardsticks, until).await;
    streams(&table, &served, until).await;
    let served = restart(&mut table, served, folder.path(), scale).await;
    everywhere(&mut table, &served, &yardsticks, until).await;
    grown(&mut table, &served, before, scale, until).await;
    served.stop();
    table.verdict()
}

fn rate(outcome: &mut Outcome) -> String {
    let (p50, p99) = (ms(outcome.whole.p50()), ms(outcome.whole.p99()));
    format!("{:.0}/s, p50 {p50:.2} p99 {p99:.2} ms", outcome.per_second())
}

async fn yardsticks(table: &Table, folder: &Path, scale: &Scale) -> Yardsticks {
    table.title("Yardsticks");
    let fsync = fsync(folder);
    table.plain("append of 4 KiB and fdatasync, p50", &format!("{:.3} ms", ms(fsync)));
    let until = Until::Seconds(scale.seconds);
    let hello = Served::bare("hello", folder);
    let said = drive(hello.address, 64, until, Same::get("/")).await.per_second();
    table.plain("hello, 64 clients", &format!("{said:.0}/s"));
    drop(hello);
    let bare = Served::bare("commit", folder);
    let mut spread = 0.0;
    for clients in CLIENTS {
        let mut outcome = drive(bare.address, clients, until, Same::post()).await;
        table.plain(&format!("hello once a row is durable, {clients} clients"), &rate(&mut outcome));
        spread = outcome.whole.spread();
    }
    Yardsticks { fsync, hello: said, spread }
}

/// What a durable append costs here.
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

/// Runs created and completed a second at 64 clients.
async fn runs(table: &mut Table, served: &Served, yardsticks: &Yardsticks, until: Until) -> f64 {
    table.title("Runs that do nothing, created under a fresh key and read until completed");
    let mut rate_at_most = 0.0;
    for (clients, name) in CLIENTS.into_iter().zip(["one", "sixteen", "many"]) {
        let work = Create { name, then: Then::Completed };
        let mut outcome = drive(served.address, clients, until, work).await;
        let told = rate(&mut outcome);
        let what = format!("{clients} clients");
        match clients {
            1 => {
                let ratio = outcome.whole.p50().as_secs_f64() / yardsticks.fsync.as_secs_f64();
                table.limited(&what, &told, ratio, "appends at p50", Limit::AtMost(4.0));
            }
            64 => {
                let ratio = outcome.whole.spread() / yardsticks.spread;
                table.limited(&what, &told, ratio, "of the bare server's p99 / p50", Limit::AtMost(1.5));
            }
            _ => table.plain(&what, &told),
        }
        rate_at_most = outcome.per_second();
    }
    let work = Create { name: "acknowledged", then: Then::Nothing };
    let mut outcome = drive(served.address, 64, until, work).await;
    table.plain("created only, 64 clients", &rate(&mut outcome));
    rate_at_most
}

async fn reads(table: &mut Table, served: &Served, yardsticks: &Yardsticks, until: Until) {
    table.title("Reads and replays, 64 clients");
    let mut connection = Connection::open(served.address).await.unwrap();
    let recent = listed(&mut connection, 200).await;
    let mut outcome = drive(served.address, 64, until, Snapshots(recent)).await;
    let told = rate(&mut outcome);
    let ratio = outcome.per_second() / yardsticks.hello;
    table.limited("snapshots of runs that ended lately", &told, ratio, "of hello", Limit::AtLeast(0.6));
    let mut outcome = drive(served.address, 64, until, Replay(64)).await;
    table.plain("idempotent replays", &rate(&mut outcome));
}

async fn streams(table: &Table, served: &Served, until: Until) {
    table.title("Streams: a run is created and its events are read to the end");
    for (clients, name) in [(1, "stream-one"), (64, "stream-many")] {
        let mut outcome = drive(served.address, clients, until, Create { name, then: Then::Streamed }).await;
        let first = ms(outcome.first.p50());
        let told = format!("{:.0} events/s, first after {first:.2} ms", outcome.events_per_second());
        table.plain(&format!("{clients} clients"), &told);
    }
}

async fn restart(table: &mut Table, served: Served, folder: &Path, scale: &Scale) -> Served {
    let work = Create { name: "finished", then: Then::Nothing };
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
        let mut again = Served::interlock(folder);
        again.startup = startup.map_or(again.startup, |startup| startup.min(again.startup));
        best = Some(again);
    }
    let served = best.expect("it was started");
    // A third of what the reference host of the protocol, in Node on SQLite, takes with as many: 140 ms.
    let told = format!("{:.1} ms", ms(served.startup));
    table.limited("until it listens", &told, ms(served.startup) / 47.0, "of 47 ms", Limit::AtMost(1.0));
    table.plain("memory after the start", &format!("{:.0} MiB", served.resident()));
    served
}

/// Reads of runs that are not in memory.
async fn everywhere(table: &mut Table, served: &Served, yardsticks: &Yardsticks, until: Until) {
    let mut connection = Connection::open(served.address).await.unwrap();
    let all = listed(&mut connection, 50_000).await;
    let what = format!("snapshots of any of {} runs", all.len());
    let mut outcome = drive(served.address, 64, until, Snapshots(all)).await;
    let told = rate(&mut outcome);
    let share = outcome.per_second() / yardsticks.hello;
    table.plain(&what, &format!("{told}, {share:.2} of hello"));
}

async fn grown(table: &mut Table, served: &Served, before: f64, scale: &Scale, until: Until) {
    let more = scale.events.saturating_sub(scale.finished * EVENTS_OF_A_RUN) / EVENTS_OF_A_RUN;
    let work = Create { name: "more", then: Then::Nothing };
    drive(served.address, 64, Until::Turns(more), work).await;
    table.title(&format!("Growth: the same after {} events and more", scale.events));
    let work = Create { name: "late", then: Then::Completed };
    let mut outcome = drive(served.address, 64, until, work).await;
    let told = rate(&mut outcome);
    let ratio = outcome.per_second() / before;
    table.limited("64 clients", &told, ratio, "of the rate before", Limit::AtLeast(0.9));
}
