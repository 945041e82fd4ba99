//! What the surfaces cost beside the statements below them, in one run on one disk.
//!
//! Each figure is the median of some rounds; those that are compared take turns, so that a slow moment of the machine meets both.
#![expect(clippy::print_stdout, reason = "figures are what this program is for")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rusqlite::{Connection, params};
use serde_json::{Map, Value, json};
use surfaces::queue::{Consume, Queue};
use surfaces::{Call, Millis, Options, Scope, Surface, Surfaces, Tenant};
use tokio::sync::Semaphore;

const ROUNDS: usize = 7;
const NOW: Millis = Millis(1_700_000_000_000);
const KEYS: usize = 10_000;
const CALLERS: usize = 64;

fn scope() -> Scope {
    Scope::new(Tenant::new("bench").expect("a tenant"), NOW)
}

fn main() {
    let folder = tempfile::tempdir_in(std::env::var_os("BENCH_DIRECTORY").unwrap_or_else(|| "/tmp".into()))
        .expect("a folder");
    let surfaces = Surfaces::open(&Options::new(folder.path().join("surfaces"))).expect("surfaces");
    let surfaces = Arc::new(surfaces);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let raw = Raw::open(folder.path());
    fill(&runtime, &surfaces, &raw);
    gets(&runtime, &surfaces, &raw);
    sets(&runtime, &surfaces, &raw);
    queue(&runtime, &surfaces);
}

/// The same table and the same settings, by prepared statements.
struct Raw(Connection);

const SET: &str = "INSERT INTO kv (tenant, key, value, expires) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (tenant, key) DO UPDATE SET value = excluded.value, expires = excluded.expires";
const GET: &str = "SELECT value, expires FROM kv WHERE tenant = ?1 AND key = ?2";

impl Raw {
    fn open(folder: &std::path::Path) -> Self {
        let connection = Connection::open(folder.join("raw.sqlite3")).expect("a database");
        connection.pragma_update(None, "journal_mode", "WAL").expect("WAL");
        connection.pragma_update(None, "synchronous", "FULL").expect("FULL");
        let table =
            "CREATE TABLE kv (tenant TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, expires INTEGER,
            PRIMARY KEY (tenant, key)) STRICT, WITHOUT ROWID";
        connection.execute_batch(table).expect("a table");
        Self(connection)
    }

    fn sets(&self, first: usize, count: usize) {
        let mut set = self.0.prepare(SET).expect("a statement");
        for n in first..first + count {
            set.execute(params!["bench", key(n), &value_bytes(n), None::<i64>]).expect("set");
        }
    }

    fn gets(&self, count: usize) -> usize {
        let mut get = self.0.prepare(GET).expect("a statement");
        let mut bytes = 0;
        for n in 0..count {
            let value: Vec<u8> =
                get.query_row(params!["bench", key(n % KEYS)], |row| row.get(0)).expect("get");
            bytes += value.len();
        }
        bytes
    }
}

fn key(n: usize) -> String {
    format!("key/{:06}", n * 7919 % KEYS)
}

fn value(n: usize) -> Value {
    json!({"n": n, "text": "a value of some sixty bytes, which is what most of them have"})
}

fn value_bytes(n: usize) -> Vec<u8> {
    serde_json::to_vec(&value(n)).expect("JSON")
}

fn fill(runtime: &tokio::runtime::Runtime, surfaces: &Surfaces, raw: &Raw) {
    let scope = scope();
    raw.0.execute_batch("BEGIN").expect("begin");
    raw.sets(0, KEYS);
    raw.0.execute_batch("COMMIT").expect("commit");
    runtime.block_on(async {
        for chunk in 0..KEYS / 1000 {
            join_all((0..1000).map(|n| surfaces.kv().set(&scope, key(chunk * 1000 + n), value(n), None)))
                .await;
        }
    });
}

fn call(op: &str, args: Value) -> Call {
    let args = match args {
        Value::Object(args) => args,
        _ => Map::new(),
    };
    let tenant = Tenant::new("bench").expect("a tenant");
    Call { tenant, surface: Surface::Kv, op: op.to_owned(), args, effect: None, now: NOW }
}

fn per_second(count: usize, took: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a count of some thousands")]
    let count = count as f64;
    count / took.as_secs_f64()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn timed(count: usize, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    per_second(count, began.elapsed())
}

fn show(name: &str, figures: &[(&str, Vec<f64>)]) {
    let first = median(figures[0].1.clone());
    for (how, rounds) in figures {
        let middle = median(rounds.clone());
        println!("{name:<8} {how:<34} {middle:>12.0} /s  {:>5.0} % of raw", middle / first * 100.0);
    }
}

fn gets(runtime: &tokio::runtime::Runtime, surfaces: &Arc<Surfaces>, raw: &Raw) {
    const COUNT: usize = 50_000;
    let scope = scope();
    let (mut raws, mut ports, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        raws.push(timed(COUNT, || assert!(raw.gets(COUNT) > 0)));
        ports.push(timed(COUNT, || {
            runtime.block_on(async {
                for n in 0..COUNT {
                    assert!(surfaces.kv().get(&scope, &key(n % KEYS)).await.expect("get").is_some());
                }
            });
        }));
        calls.push(timed(COUNT, || {
            runtime.block_on(async {
                for n in 0..COUNT {
                    let told = surfaces.call(call("get", json!({"key": key(n % KEYS)}))).await.expect("get");
                    assert_eq!(told["found"], true);
                }
            });
        }));
    }
    show("kv get", &[("raw prepared statement", raws), ("port", ports), ("call, JSON in and out", calls)]);
}

fn sets(runtime: &tokio::runtime::Runtime, surfaces: &Arc<Surfaces>, raw: &Raw) {
    const ALONE: usize = 300;
    const SHARED: usize = 10_000;
    let (mut raws, mut alone, mut shared) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        raws.push(timed(ALONE, || raw.sets(0, ALONE)));
        alone.push(timed(ALONE, || {
            runtime.block_on(async {
                for n in 0..ALONE {
                    surfaces.call(call("set", json!({"key": key(n), "value": value(n)}))).await.expect("set");
                }
            });
        }));
        shared.push(timed(SHARED, || {
            runtime.block_on(async {
                let callers = (0..CALLERS).map(|caller| {
                    let surfaces = Arc::clone(surfaces);
                    tokio::spawn(async move {
                        for n in (caller..SHARED).step_by(CALLERS) {
                            surfaces
                                .call(call("set", json!({"key": key(n), "value": value(n)})))
                                .await
                                .expect("set");
                        }
                    })
                });
                join_all(callers).await;
            });
        }));
    }
    show(
        "kv set",
        &[
            ("raw prepared statement, 1 caller", raws),
            ("call, 1 caller", alone),
            ("call, 64 callers", shared),
        ],
    );
}

fn queue(runtime: &tokio::runtime::Runtime, surfaces: &Arc<Surfaces>) {
    const COUNT: usize = 20_000;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(timed(COUNT, || {
            runtime.block_on(async {
                let published = Arc::new(Semaphore::new(0));
                let producers = (0..CALLERS).map(|producer| {
                    let (queue, published) = (Arc::clone(surfaces.queue()), Arc::clone(&published));
                    tokio::spawn(async move { produce(&*queue, &published, producer, COUNT).await })
                });
                let consumers = (0..CALLERS).map(|consumer| {
                    let (queue, published) = (Arc::clone(surfaces.queue()), Arc::clone(&published));
                    tokio::spawn(async move { take(&*queue, &published, consumer, COUNT).await })
                });
                let work: Vec<_> = producers.chain(consumers).collect();
                for done in join_all(work).await {
                    done.expect("a worker");
                }
            });
        }));
    }
    let middle = median(rounds);
    println!(
        "queue    publish, consume, acknowledge      {middle:>12.0} /s  {CALLERS} producers and {CALLERS} consumers"
    );
}

async fn produce(queue: &dyn Queue, published: &Semaphore, producer: usize, count: usize) {
    let scope = scope();
    for n in (producer..count).step_by(CALLERS) {
        queue.publish(&scope, "jobs".into(), value(n)).await.expect("publish");
        published.add_permits(1);
    }
}

async fn take(queue: &dyn Queue, published: &Semaphore, consumer: usize, count: usize) {
    let scope = scope();
    for _ in (consumer..count).step_by(CALLERS) {
        published.acquire().await.expect("never closed").forget();
        let delivery =
            queue.consume(&scope, Consume::of("jobs")).await.expect("consume").expect("one was published");
        assert!(queue.ack(&scope, delivery.token).await.expect("acknowledge"));
    }
}
